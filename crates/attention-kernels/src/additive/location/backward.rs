//! The gradients of a step.

use cpu_kernels::checks::{check_len, check_shape};
use cpu_kernels::simd::gemm::{Product, Start};
use cpu_kernels::simd::{Block, Job, Level, MAX_LANES, Simd};
use cpu_kernels::slices::add;
use cpu_kernels::threads::for_each;
use cpu_kernels::{Buffer, Real};

use super::inputs::{LocationScoreGradients, LocationScoreInputs, OPERATION, Sizes};
use super::sums::{Example, Padded, Scratch};
use crate::Rows;
use crate::slices::parts_of_wanted;
use crate::tiles::{LOCATION_KEYS, LOCATION_SUMS};

/// As [`LocationScoreInputs::backward`].
pub(crate) fn backward<E: Real>(
    inputs: &LocationScoreInputs<E>,
    level: Level,
    score_gradients: Rows<E>,
    gradients: LocationScoreGradients<E>,
) {
    let sizes = check(inputs, &score_gradients, &gradients);
    if sizes.batch * sizes.keys * sizes.units == 0 {
        return;
    }
    let padded = Padded::new(inputs, sizes);
    let mut own: Vec<_> = parts_of_wanted(gradients.queries, sizes.batch)
        .into_iter()
        .zip(parts_of_wanted(gradients.keys, sizes.batch))
        .zip(parts_of_wanted(gradients.alignments, sizes.batch))
        .map(|((query, keys), alignments)| Own {
            query,
            keys,
            alignments,
        })
        .collect();
    let examples = sizes.batch.div_ceil(LOCATION_SUMS);
    let shared_len = (1 + sizes.channels * sizes.width) * padded.units;
    let mut shared = Buffer::zeroed(sizes.batch.div_ceil(examples) * shared_len);
    let sums = shared.chunks_exact_mut(shared_len);
    let parts = own.chunks_mut(examples).zip(sums).enumerate();
    let tasks = parts.map(|(task, (own, shared))| Backward {
        inputs,
        sizes,
        padded: &padded,
        score_gradients: &score_gradients,
        first: task * examples,
        own,
        shared,
        wants_filters: gradients.filters.is_some(),
    });
    let tasks: Vec<_> = tasks.collect();
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
    let add_rows = |from: &[E], to: Option<&mut [E]>| {
        let to = to.unwrap_or_default().chunks_exact_mut(sizes.units);
        for (from, to) in from.chunks_exact(padded.units).zip(to) {
            add(from, to);
        }
    };
    let (mut weight, mut filters) = (gradients.weight, gradients.filters);
    for partial in shared.chunks_exact(shared_len) {
        let (of_weight, of_filters) = partial.split_at(padded.units);
        add_rows(of_weight, weight.as_deref_mut());
        add_rows(of_filters, filters.as_deref_mut());
    }
}

/// # Panics
/// If the shapes do not fit together.
fn check<E: Real>(
    inputs: &LocationScoreInputs<E>,
    score_gradients: &Rows<E>,
    gradients: &LocationScoreGradients<E>,
) -> Sizes {
    let sizes = inputs.sizes();
    let (batch, keys, units) = (sizes.batch, sizes.keys, sizes.units);
    let shape = [batch, 1, 1, keys];
    check_shape(OPERATION, "score gradients", shape, score_gradients.shape());
    for (what, shape, gradient) in [
        ("query gradient", [batch, 1, units], &gradients.queries),
        ("key gradient", [batch, keys, units], &gradients.keys),
        ("weight gradient", [1, 1, units], &gradients.weight),
        (
            "alignment gradient",
            [batch, sizes.channels, keys],
            &gradients.alignments,
        ),
        (
            "filter gradient",
            [sizes.channels, sizes.width, units],
            &gradients.filters,
        ),
    ] {
        if let Some(gradient) = gradient {
            check_len(OPERATION, what, shape, gradient.len());
        }
    }
    sizes
}

/// The requested gradients of one example.
struct Own<'a, E> {
    /// `[units]`
    query: Option<&'a mut [E]>,
    /// `[keys, units]`
    keys: Option<&'a mut [E]>,
    /// `[channels, keys]`
    alignments: Option<&'a mut [E]>,
}

/// The gradients of some examples.
struct Backward<'a, 'b, E> {
    inputs: &'a LocationScoreInputs<'a, E>,
    sizes: Sizes,
    padded: &'a Padded<E>,
    score_gradients: &'a Rows<'a, E>,
    /// The first of the examples.
    first: usize,
    own: &'b mut [Own<'a, E>],
    /// The sums of the weight and of the filters, `[1 + channels * width, units]`, padded with zeros.
    shared: &'b mut [E],
    wants_filters: bool,
}

/// Buffers that a task fills anew for each example.
#[derive(Default)]
struct Sums<E> {
    /// The gradients of the scores, `[keys]`.
    scores: Vec<E>,
    /// `[units]`, padded with zeros.
    query: Vec<E>,
    /// `[channels, keys + width - 1]`
    alignments: Vec<E>,
    /// The products of a block of keys with the filters of a channel, `[keys, width]`, padded with zeros.
    taps: Vec<E>,
}

impl<E: Real> Job<E> for Backward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let (mut scratch, mut sums) = (Scratch::default(), Sums::default());
        let across = Across::new(self.padded, self.sizes);
        let (weight, filters) = self.shared.split_at_mut(self.padded.units);
        for (example, own) in (self.first..).zip(self.own) {
            let example = Example::new(self.inputs, self.sizes, self.padded, example);
            example.start(&mut scratch);
            sums.start(&example, self.score_gradients);
            for first in (0..self.sizes.keys).step_by(LOCATION_KEYS) {
                let block = first..self.sizes.keys.min(first + LOCATION_KEYS);
                if !example.mask.meets(&block) {
                    continue;
                }
                example.sum(simd, block.clone(), &mut scratch);
                let slopes = &mut scratch.sums[..block.len() * self.padded.units];
                let rows = slopes.chunks_exact_mut(self.padded.units);
                for (key, row) in block.zip(rows) {
                    if !example.mask.attends(key) {
                        row.fill(E::ZERO);
                        continue;
                    }
                    example.slopes(simd, sums.scores[key], row, &mut sums.query, weight);
                    if let Some(to) = &mut own.keys {
                        let units = self.sizes.units;
                        add(row, &mut to[key * units..(key + 1) * units]);
                    }
                }
                if self.wants_filters {
                    example.add_filters(simd, first, slopes, &scratch.alignments, filters);
                }
                if own.alignments.is_some() {
                    across.add_alignments(simd, first, slopes, &mut sums);
                }
            }
            sums.add_to(&example, own);
        }
    }
}

impl<E: Real> Example<'_, E> {
    /// Replaces the sums of a key by `g weight (1 - t^2)`, which is added to the query's gradient; `g t` is added to
    /// the weight's.
    #[inline(always)]
    fn slopes<S: Simd<E>>(
        &self,
        simd: S,
        gradient: E,
        row: &mut [E],
        query: &mut [E],
        weight: &mut [E],
    ) {
        let gradient = simd.splat(gradient);
        let vectors = row.chunks_exact_mut(S::LANES);
        let weights = self.padded.weight.chunks_exact(S::LANES);
        let weight = weight.chunks_exact_mut(S::LANES);
        let sums = query.chunks_exact_mut(S::LANES).zip(weight);
        for ((row, factor), (query, weight)) in vectors.zip(weights).zip(sums) {
            let tanh = simd.tanh(simd.load(row));
            let part = simd.mul(gradient, tanh);
            simd.store(simd.add(simd.load(weight), part), weight);
            let slope = simd.neg_mul_add(part, tanh, gradient);
            let slope = simd.mul(slope, simd.load(factor));
            simd.store(slope, row);
            simd.store(simd.add(simd.load(query), slope), query);
        }
    }

    /// Adds the contribution of the keys from `first` on to the filters' gradient: `slopes[key, unit]` times the
    /// alignments under each tap.
    #[inline(always)]
    fn add_filters<S: Simd<E>>(
        &self,
        simd: S,
        first: usize,
        slopes: &[E],
        alignments: &[E],
        filters: &mut [E],
    ) {
        let (width, units) = (self.sizes.width, self.padded.units);
        let channels = alignments.chunks_exact(self.alignments_len());
        for (alignments, filters) in channels.zip(filters.chunks_exact_mut(width * units)) {
            Product {
                sizes: [width, slopes.len() / units, units],
                left: &alignments[first..],
                left_strides: [1, 1],
                right: slopes,
                right_stride: units,
                out: Block::new(filters, [width, units], units),
                start: Start::Sum,
            }
            .compute(simd);
        }
    }
}

/// The filters of each channel, transposed: `[channels, units, width]`, with the width padded to whole vectors.
struct Across<E> {
    sizes: Sizes,
    /// The number of units, padded.
    units: usize,
    width: usize,
    filters: Vec<E>,
}

impl<E: Real> Across<E> {
    fn new(padded: &Padded<E>, sizes: Sizes) -> Self {
        let (units, width) = (padded.units, sizes.width.next_multiple_of(MAX_LANES));
        let mut filters = vec![E::ZERO; sizes.channels * units * width];
        for (channel, to) in filters.chunks_exact_mut(units * width).enumerate() {
            let taps = padded.of_channel(channel, sizes).chunks_exact(units);
            for (tap, from) in taps.enumerate() {
                for (unit, from) in from.iter().enumerate() {
                    to[unit * width + tap] = *from;
                }
            }
        }
        Self {
            sizes,
            units,
            width,
            filters,
        }
    }

    /// Adds the contribution of the keys from `first` on to the gradient of the alignments.
    #[inline(always)]
    fn add_alignments<S: Simd<E>>(&self, simd: S, first: usize, slopes: &[E], sums: &mut Sums<E>) {
        let (units, width) = (self.units, self.width);
        let keys = slopes.len() / units;
        let channels = self.filters.chunks_exact(units * width);
        let len = self.sizes.keys + self.sizes.width - 1;
        for (filters, to) in channels.zip(sums.alignments.chunks_exact_mut(len)) {
            sums.taps.resize(keys * width, E::ZERO);
            Product {
                sizes: [keys, units, width],
                left: slopes,
                left_strides: [units, 1],
                right: filters,
                right_stride: width,
                out: Block::new(&mut sums.taps, [keys, width], width),
                start: Start::Zero,
            }
            .compute(simd);
            for (key, taps) in (first..).zip(sums.taps.chunks_exact(width)) {
                add(&taps[..self.sizes.width], &mut to[key..]);
            }
        }
    }
}

impl<E: Real> Sums<E> {
    /// Reads the gradients of the scores and sets the sums to 0.
    fn start(&mut self, example: &Example<E>, score_gradients: &Rows<E>) {
        let Sizes { keys, channels, .. } = example.sizes;
        self.scores.resize(keys, E::ZERO);
        let scores = score_gradients.row(example.at, 0);
        scores.copy_to(&mut self.scores);
        for (sums, len) in [
            (&mut self.query, example.padded.units),
            (&mut self.alignments, channels * example.alignments_len()),
        ] {
            sums.clear();
            sums.resize(len, E::ZERO);
        }
    }

    fn add_to(&self, example: &Example<E>, own: &mut Own<E>) {
        let Sizes { keys, width, .. } = example.sizes;
        if let Some(query) = &mut own.query {
            add(&self.query, query);
        }
        if let Some(alignments) = &mut own.alignments {
            let sums = self.alignments.chunks_exact(example.alignments_len());
            for (from, to) in sums.zip(alignments.chunks_exact_mut(keys)) {
                add(&from[width / 2..], to);
            }
        }
    }
}
