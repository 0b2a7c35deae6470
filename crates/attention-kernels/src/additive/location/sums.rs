//! The sums `query + key + location` of some keys.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::gemm::{Product, Start};
use cpu_kernels::simd::{Block, MAX_LANES, Simd};

use super::inputs::{LocationScoreInputs, Sizes};
use crate::HeadIndex;
use crate::mask::QueryMask;

/// Weight and filters, padded with zeros to whole vectors.
pub(super) struct Padded<E> {
    /// The number of units, padded.
    pub units: usize,
    /// `[units]`
    pub weight: Vec<E>,
    /// `[channels, width, units]`
    pub filters: Vec<E>,
}

impl<E: Real> Padded<E> {
    pub(super) fn new(inputs: &LocationScoreInputs<E>, sizes: Sizes) -> Self {
        let units = sizes.units.next_multiple_of(MAX_LANES);
        let mut weight = inputs.weight.to_vec();
        weight.resize(units, E::ZERO);
        let mut filters = vec![E::ZERO; sizes.channels * sizes.width * units];
        for (row, to) in filters.chunks_exact_mut(units).enumerate() {
            let at = HeadIndex::nth(row / sizes.width, sizes.channels);
            let row = inputs.filters.row(at, row % sizes.width);
            row.copy_to(&mut to[..sizes.units]);
        }
        Self {
            units,
            weight,
            filters,
        }
    }

    /// The filters of a channel, `[width, units]`.
    pub(super) fn of_channel(&self, channel: usize, sizes: Sizes) -> &[E] {
        let len = sizes.width * self.units;
        &self.filters[channel * len..(channel + 1) * len]
    }
}

/// One example, with the inputs of its steps through the keys.
pub(super) struct Example<'a, E> {
    pub inputs: &'a LocationScoreInputs<'a, E>,
    pub sizes: Sizes,
    pub padded: &'a Padded<E>,
    pub at: HeadIndex,
    pub mask: QueryMask<'a>,
}

/// Buffers that a thread fills anew for each example.
#[derive(Default)]
pub(super) struct Scratch<E> {
    /// The query, `[units]`, padded with zeros.
    query: Vec<E>,
    /// `[channels, keys + width - 1]`: the alignments, with zeros before and after them.
    pub alignments: Vec<E>,
    /// `[keys of a block, units]`
    pub sums: Vec<E>,
    wide: Vec<E>,
}

impl<'a, E: Real> Example<'a, E> {
    pub(super) fn new(
        inputs: &'a LocationScoreInputs<'a, E>,
        sizes: Sizes,
        padded: &'a Padded<E>,
        example: usize,
    ) -> Self {
        let at = HeadIndex::nth(example, 1);
        Self {
            inputs,
            sizes,
            padded,
            at,
            mask: inputs.mask.of_query(at, 0, sizes.keys),
        }
    }

    /// The length of a channel's alignments, zeros before and after included.
    pub(super) fn alignments_len(&self) -> usize {
        self.sizes.keys + self.sizes.width - 1
    }

    /// Reads query and alignments.
    pub(super) fn start(&self, scratch: &mut Scratch<E>) {
        let Sizes { keys, width, .. } = self.sizes;
        scratch.query.clear();
        scratch.query.resize(self.padded.units, E::ZERO);
        let query = self.inputs.queries.row(self.at, 0);
        query.copy_to(&mut scratch.query[..self.sizes.units]);
        let len = self.alignments_len();
        scratch.alignments.clear();
        let channels = self.sizes.channels;
        scratch.alignments.resize(channels * len, E::ZERO);
        for (channel, to) in scratch.alignments.chunks_exact_mut(len).enumerate() {
            let from = self.inputs.alignments.row(self.at, channel);
            from.copy_to(&mut to[width / 2..width / 2 + keys]);
        }
    }

    /// `query + key + location` of some keys, `[keys, units]`; 0 for masked keys, which are not read.
    #[inline(always)]
    pub(super) fn sum<S: Simd<E>>(&self, simd: S, keys: Range<usize>, scratch: &mut Scratch<E>) {
        let padded_units = self.padded.units;
        let sums = &mut scratch.sums;
        sums.resize(keys.len() * padded_units, E::ZERO);
        for (key, sum) in keys.clone().zip(sums.chunks_exact_mut(padded_units)) {
            sum.copy_from_slice(&scratch.query);
            if self.mask.attends(key) {
                let key = self.inputs.keys.row(self.at, key);
                let key = key.read(&mut scratch.wide);
                for (sum, key) in sum.iter_mut().zip(key) {
                    *sum += *key;
                }
            }
        }
        let channels = scratch.alignments.chunks_exact(self.alignments_len());
        for (channel, alignments) in channels.enumerate() {
            Product {
                sizes: [keys.len(), self.sizes.width, padded_units],
                left: &alignments[keys.start..],
                left_strides: [1, 1],
                right: self.padded.of_channel(channel, self.sizes),
                right_stride: padded_units,
                out: Block::new(sums, [keys.len(), padded_units], padded_units),
                start: Start::Sum,
            }
            .compute(simd);
        }
    }
}
