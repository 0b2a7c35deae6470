//! The keys that queries attend to, and their weights.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Simd};
use cpu_kernels::softmax::softmax;

use super::Group;
use crate::additive::blocks::BlockScores;
use crate::additive::pack::{HeadKeys, PackedQueries, packed_block_len};
use crate::gather::AttendedKeys;
use crate::mask::QueryMask;
use crate::stream::LogSumExp;
use crate::tiles::KEY_LANES;

/// The weights of all queries of a group, and the buffers to compute them.
#[derive(Default)]
pub(super) struct GroupWeights<'a, E> {
    /// The first key that some query attends to, rounded down to a multiple of [`KEY_LANES`].
    pub first: usize,
    /// The number of keys in the blocks of these keys.
    pub stride: usize,
    /// `[queries, stride]`: scores, then weights, which are 0 where masked.
    pub weights: Vec<E>,
    masks: Vec<QueryMask<'a>>,
    queries: PackedQueries<'a, E>,
    /// A block of keys, and its packed form.
    key_block: Vec<E>,
    packed: Vec<E>,
}

/// The arguments of [`GroupWeights::compute`], which is compiled once for each instruction set.
struct Weighing<'a, 'b, E> {
    weights: &'b mut GroupWeights<'a, E>,
    group: &'b Group<'a, E>,
    lse: Option<&'b mut [LogSumExp]>,
}

impl<E: Real> Job<E> for Weighing<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let all = self.weights;
        let (span, blocks) = all.start(self.group);
        all.scores(simd, self.group, span, blocks);
        let keys = all.first..all.first + all.stride;
        for (row, mask) in all.masks.iter().enumerate() {
            let weights = &mut all.weights[row * all.stride..(row + 1) * all.stride];
            mask.fill(&keys, weights, -E::INFINITY);
            let normalization = softmax(simd, weights);
            if let Some(lse) = &mut self.lse {
                lse[row] = normalization.log_sum_exp();
            }
        }
    }
}

impl<'a, E: Real> GroupWeights<'a, E> {
    /// Computes the weights, and writes the logarithm of the sum of `e^score` for each query.
    #[inline(always)]
    pub(super) fn compute<S: Simd<E>>(
        &mut self,
        simd: S,
        group: &Group<'a, E>,
        lse: Option<&mut [LogSumExp]>,
    ) {
        let weights = self;
        simd.call(Weighing {
            weights,
            group,
            lse,
        });
    }

    /// Writes the weights, `[queries, keys]`, 0 where masked.
    pub(super) fn save(&self, num_keys: usize, to: &mut [E]) {
        to.fill(E::ZERO);
        let last = num_keys.min(self.first + self.stride);
        let rows = self.weights.chunks_exact(self.stride.max(1));
        for (from, to) in rows.zip(to.chunks_exact_mut(num_keys)) {
            to[self.first..last].copy_from_slice(&from[..last - self.first]);
        }
    }

    /// As [`compute`](Self::compute), but from what [`save`](Self::save) wrote for the same group.
    pub(super) fn restore(&mut self, group: &Group<'a, E>, from: &[E]) {
        let [_, _, num_keys, _] = group.attention.score.inputs.keys.shape();
        self.start(group);
        let last = num_keys.min(self.first + self.stride);
        let rows = self.weights.chunks_exact_mut(self.stride.max(1));
        for (from, to) in from.chunks_exact(num_keys).zip(rows) {
            let (to, beyond) = to.split_at_mut(last - self.first);
            to.copy_from_slice(&from[self.first..last]);
            beyond.fill(E::ZERO);
        }
    }

    /// Reads the masks of a group. Returns the keys that some query attends to, and their blocks.
    fn start(&mut self, group: &Group<'a, E>) -> (Range<usize>, Range<usize>) {
        let inputs = &group.attention.score.inputs;
        let [_, _, num_keys, _] = inputs.keys.shape();
        let mask = inputs.mask;
        let span = mask.span(group.key.batch, 0..group.num_queries, num_keys);
        let blocks = span.start / KEY_LANES..span.end.div_ceil(KEY_LANES);
        self.first = blocks.start * KEY_LANES;
        self.stride = blocks.len() * KEY_LANES;
        self.weights.resize(group.len() * self.stride, E::ZERO);
        self.masks.clear();
        let of_row = |row| mask.of_query(group.head(row), group.query(row), num_keys);
        self.masks.extend((0..group.len()).map(of_row));
        (span, blocks)
    }

    /// The scores of all queries with some blocks of keys, `[queries][stride]`, in place of the weights. Keys outside
    /// `span` are masked.
    #[inline(always)]
    fn scores<S: Simd<E>>(
        &mut self,
        simd: S,
        group: &Group<'a, E>,
        span: Range<usize>,
        blocks: Range<usize>,
    ) {
        let score = group.attention.score;
        let inputs = &score.inputs;
        let [.., units] = inputs.queries.shape();
        let rows = 0..group.len();
        let queries = rows.map(|row| inputs.queries.row(group.head(row), group.query(row)));
        self.queries.pack(simd, queries, &score.weights);
        let head = HeadKeys {
            rows: inputs.keys,
            at: group.key,
            attended: span,
        };
        // If keys have to be packed, block by block, so that a block is still in L1 when it is read.
        let step = score.packed.map_or(1, |_| blocks.len().max(1));
        for first in blocks.clone().step_by(step) {
            let some = first..blocks.end.min(first + step);
            let column = first * KEY_LANES - self.first;
            let width = some.len() * KEY_LANES;
            let packed = match score.packed_blocks(group.key, some) {
                Some(packed) => packed,
                None => {
                    self.packed.resize(packed_block_len(units), E::ZERO);
                    head.pack(simd, first, &mut self.key_block, &mut self.packed);
                    &self.packed
                }
            };
            BlockScores {
                weights: &score.weights,
                queries: &self.queries,
                keys: inputs.keys,
                at: group.key,
                first: first * KEY_LANES,
                packed,
                masks: &[],
                to: &mut self.weights[column..],
                stride: self.stride,
                width,
                factor: score.weights.factor(),
            }
            .compute(simd);
        }
    }

    /// Lists the keys that a query attends to, their weights and the dropout factors of the weights.
    #[inline(always)]
    pub(super) fn list(&self, group: &Group<E>, row: usize, attended: &mut AttendedKeys<E>) {
        let (mask, weights) = (&self.masks[row], &self.weights[row * self.stride..]);
        attended.keys.clear();
        let keys = mask.range.clone().filter(|key| mask.attends(*key));
        attended.keys.extend(keys);
        attended.weights.clear();
        let weights = attended.keys.iter().map(|key| weights[key - self.first]);
        attended.weights.extend(weights);
        let scale = group.attention.dropout_scale();
        let (head, query) = (group.head(row), group.query(row));
        attended.draw(group.attention.dropout, head, query, scale);
    }
}
