//! Decoding: few queries per head, as the steps of a decoder have.
//!
//! Every key and value is read once, nothing is packed here, and gradients are added to their place directly. Heads
//! that share a key head are processed together.

mod attended;
mod backward;
mod forward;
mod gradient;

use cpu_kernels::Real;

use super::stream::AdditiveScore;
use crate::HeadIndex;
use crate::stream::Attention;

pub(super) use backward::backward;
pub(super) use forward::forward;
pub(crate) use forward::forward_saving;

/// The inputs of decoding.
type Decode<'a, E> = Attention<'a, E, AdditiveScore<'a, E>>;

/// One key head, and the queries of all heads that share it, head by head.
struct Group<'a, E> {
    attention: &'a Decode<'a, E>,
    key: HeadIndex,
    /// The number of queries of each head.
    num_queries: usize,
}

impl<'a, E: Real> Group<'a, E> {
    /// The `index`-th group, over all examples.
    fn nth(attention: &'a Decode<'a, E>, index: usize) -> Self {
        let [_, _, num_queries, _] = attention.score.inputs.queries.shape();
        Self {
            attention,
            key: HeadIndex::nth(index, attention.score.heads.key_heads),
            num_queries,
        }
    }

    /// The number of queries.
    fn len(&self) -> usize {
        self.attention.score.heads.group() * self.num_queries
    }

    /// The head of a query.
    #[inline(always)]
    fn head(&self, row: usize) -> HeadIndex {
        let heads = self.attention.score.heads;
        heads.member(self.key, row / self.num_queries)
    }

    /// The index of a query within its head.
    #[inline(always)]
    fn query(&self, row: usize) -> usize {
        row % self.num_queries
    }
}
