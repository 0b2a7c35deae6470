//! Gradients of biases, to which many pairs of queries and keys contribute.

use std::ops::Range;

use cpu_kernels::slices::add;
use cpu_kernels::{Buffer, Real};

use super::score::{Sizes, Wanted};
use crate::modifiers::broadcast;
use crate::{HeadIndex, ModifierGradients, Rows, ScoreModifiers};

/// The sums of one key head and a chunk of its keys; empty if not requested.
#[derive(Default)]
pub(crate) struct BiasSums<E> {
    /// `[group, queries or 1, keys of the chunk]`
    bias: Buffer<E>,
    /// `[group, queries + keys of the chunk - 1]`
    relative: Buffer<E>,
    /// The number of queries of the bias.
    bias_queries: usize,
    /// The number of queries of each head.
    queries: usize,
    chunk: Range<usize>,
}

impl<E: Real> BiasSums<E> {
    /// Sums of zero.
    pub(crate) fn new(
        modifiers: &ScoreModifiers<E>,
        wanted: Wanted,
        sizes: Sizes,
        chunk: Range<usize>,
    ) -> Self {
        let Sizes { heads, queries, .. } = sizes;
        let bias_queries = modifiers.bias.map_or(0, |bias| bias.shape()[2]);
        let zeros = |is_wanted, len| Buffer::zeroed(if is_wanted { len } else { 0 });
        let of_bias = heads.group() * bias_queries * chunk.len();
        let of_relative = heads.group() * (queries + chunk.len() - 1);
        Self {
            bias: zeros(wanted.bias, of_bias),
            relative: zeros(wanted.relative_bias, of_relative),
            bias_queries,
            queries,
            chunk,
        }
    }

    /// Adds the gradients of the scores of a query of the group's `member`-th head with some keys, from key `first` of
    /// the chunk on.
    #[inline(always)]
    pub(crate) fn add(&mut self, member: usize, query: usize, first: usize, gradients: &[E]) {
        for sums in self.rows(member, query).into_iter().flatten() {
            add(gradients, &mut sums[first..]);
        }
    }

    /// The sums to which the scores of a query of the group's `member`-th head contribute: rows of the chunk's keys.
    #[inline(always)]
    pub(crate) fn rows(&mut self, member: usize, query: usize) -> [Option<&mut [E]>; 2] {
        let len = self.chunk.len();
        let bias = (!self.bias.is_empty()).then(|| {
            let row = member * self.bias_queries + query.min(self.bias_queries - 1);
            &mut self.bias[row * len..][..len]
        });
        let relative = (!self.relative.is_empty()).then(|| {
            let first = member * (self.queries + len - 1) + self.queries - 1 - query;
            &mut self.relative[first..][..len]
        });
        [bias, relative]
    }

    /// Adds the sums of a key head to the gradients.
    pub(crate) fn add_to(
        &self,
        key: HeadIndex,
        sizes: Sizes,
        modifiers: &ScoreModifiers<E>,
        gradients: &mut ModifierGradients<E>,
    ) {
        let len = self.chunk.len();
        if let (Some(bias), Some(gradient)) = (modifiers.bias, &mut gradients.bias) {
            let sums = (self.bias.chunks_exact(len), [self.bias_queries, sizes.keys]);
            add_rows(sums, key, sizes, &bias, self.chunk.start, gradient);
        }
        if let (Some(bias), Some(gradient)) =
            (modifiers.relative_bias, &mut gradients.relative_bias)
        {
            let sums = self.relative.chunks_exact(self.queries + len - 1);
            let sums = (sums, [1, self.queries + sizes.keys - 1]);
            add_rows(sums, key, sizes, &bias, self.chunk.start, gradient);
        }
    }
}

/// Adds rows of each head of a group, `shape` = `[rows, size]` of the whole gradient, from the element `first` on.
fn add_rows<'b, E: Real>(
    (mut sums, [rows, size]): (impl Iterator<Item = &'b [E]>, [usize; 2]),
    key: HeadIndex,
    sizes: Sizes,
    like: &Rows<E>,
    first: usize,
    gradient: &mut [E],
) {
    let [_, heads, ..] = like.shape();
    for member in 0..sizes.heads.group() {
        let at = broadcast(like, sizes.heads.member(key, member)).position(heads);
        for (row, sums) in (at * rows..).zip(sums.by_ref().take(rows)) {
            add(sums, &mut gradient[row * size + first..][..sums.len()]);
        }
    }
}
