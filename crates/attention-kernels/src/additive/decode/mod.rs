//! Decoding: few queries per head, as the steps of a decoder have.
//!
//! Every key and value is read once, nothing is packed that is not packed already, and gradients are added where they
//! belong. The heads that share a key head are taken together.

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

/// The attention that decodes.
type Decode<'a, E> = Attention<'a, E, AdditiveScore<'a, E>>;

/// One key head, and the queries of all heads that share it, head by head.
struct Group<'a, E> {
    attention: &'a Decode<'a, E>,
    key: HeadIndex,
    /// Queries of each head.
    num_queries: usize,
}

impl<'a, E: Real> Group<'a, E> {
    /// The `index`-th of all examples.
    fn nth(attention: &'a Decode<'a, E>, index: usize) -> Self {
        let [_, _, num_queries, _] = attention.score.inputs.queries.shape();
        Self {
            attention,
            key: HeadIndex::nth(index, attention.score.heads.key_heads),
            num_queries,
        }
    }

    /// How many queries there are.
    fn len(&self) -> usize {
        self.attention.score.heads.group() * self.num_queries
    }

    /// The head of a query.
    #[inline(always)]
    fn head(&self, row: usize) -> HeadIndex {
        let heads = self.attention.score.heads;
        heads.member(self.key, row / self.num_queries)
    }

    /// Which one of its head a query is.
    #[inline(always)]
    fn query(&self, row: usize) -> usize {
        row % self.num_queries
    }
}
