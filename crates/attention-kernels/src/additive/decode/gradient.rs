//! The gradients of queries, keys and weight, from the gradients of scores; see `additive/gradient.rs` for the
//! formulas.
//!
//! That file orders its loops the other way round, since many queries share packed keys. Here a vector of units, one
//! query and one block of keys are taken at a time: the sums over keys stay in registers, and the gradient of each key
//! is read and written once.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;

use super::Group;
use crate::additive::gradient::{All, QueriesOnly, ScoreGradients, Sums, Terms};
use crate::additive::range::{Evaluation, Magnitude, exponentials};
use crate::additive::tanh::{Bounded, Exact, Near, Tanh, Units};
use crate::slices::add_weighted;
use crate::tiles::KEY_LANES;

/// The gradients of a group, to add to. The sums of queries and weight are always computed: they cost one addition per
/// term.
pub(super) struct GradOutputs<'a, E> {
    /// `[group, queries, units]`
    pub queries: Option<&'a mut [E]>,
    /// `[keys, units]`
    pub keys: Option<&'a mut [E]>,
    /// `[units]`
    pub weight: &'a mut [E],
}

/// Rows padded to whole vectors; the padding contributes nothing.
#[derive(Default)]
pub(super) struct Scratch<E> {
    /// `e^(2q) / 2`
    queries: Vec<E>,
    query_magnitudes: Vec<Magnitude>,
    weights: Vec<E>,
    query_sums: Vec<E>,
    weight_sums: Vec<E>,
    /// `e^(2k)` of a block.
    keys: Vec<E>,
}

/// The gradients of the scores of one query with one block of keys.
struct Block<'a, E> {
    row: usize,
    first_key: usize,
    gradient: &'a [E],
}

impl<E: Real> Scratch<E> {
    /// Adds the contributions of the scores of all queries of the group.
    #[inline(always)]
    pub(super) fn add<S: Simd<E>>(
        &mut self,
        simd: S,
        group: &Group<E>,
        scores: &ScoreGradients<E>,
        to: GradOutputs<E>,
    ) {
        let inputs = &group.attention.score.inputs;
        let [.., units] = inputs.queries.shape();
        let padded = units.next_multiple_of(S::LANES);
        self.queries.resize(group.len() * padded, E::ONE);
        self.query_magnitudes.clear();
        let mut wide = Vec::new();
        for (row, to) in self.queries.chunks_exact_mut(padded).enumerate() {
            let from = inputs.queries.row(group.head(row), group.query(row));
            let magnitude = exponentials(simd, from.read(&mut wide), to);
            self.query_magnitudes.push(magnitude);
            let half = E::from_f64(0.5);
            to[..units].iter_mut().for_each(|x| *x = *x * half);
        }
        self.weights.resize(padded, E::ZERO);
        self.weights[..units].copy_from_slice(inputs.weight);
        self.query_sums.clear();
        self.query_sums.resize(self.queries.len(), E::ZERO);
        self.weight_sums.clear();
        self.weight_sums.resize(padded, E::ZERO);
        self.keys.resize(KEY_LANES * padded, E::ONE);
        match to.keys {
            Some(to_keys) => self.sum::<S, All>(simd, group, scores, to_keys),
            None => self.sum::<S, QueriesOnly>(simd, group, scores, &mut []),
        }
        if let Some(queries) = to.queries {
            let rows = queries.chunks_exact_mut(units);
            for (to, sums) in rows.zip(self.query_sums.chunks_exact(padded)) {
                add_weighted(inputs.weight, sums, to);
            }
        }
        for (to, sum) in to.weight.iter_mut().zip(&self.weight_sums) {
            *to += -*sum;
        }
    }

    /// Sums the terms of queries and weight here, and adds the terms of keys to their gradients.
    #[inline(always)]
    fn sum<S: Simd<E>, W: Sums>(
        &mut self,
        simd: S,
        group: &Group<E>,
        scores: &ScoreGradients<E>,
        to_keys: &mut [E],
    ) {
        let padded = self.weights.len();
        for first_key in scores.keys.clone().step_by(KEY_LANES) {
            let keys = first_key..scores.keys.end.min(first_key + KEY_LANES);
            let column = first_key - scores.keys.start;
            let magnitude = self.fill_keys(simd, group, keys.clone(), padded);
            for row in 0..group.len() {
                let block = Block {
                    row,
                    first_key,
                    gradient: &scores.gradient[row * scores.stride + column..][..keys.len()],
                };
                match self.query_magnitudes[row].with(magnitude) {
                    Evaluation::Near => self.add_block::<S, Near, W>(simd, group, block, to_keys),
                    Evaluation::Bounded => {
                        self.add_block::<S, Bounded, W>(simd, group, block, to_keys);
                    }
                    Evaluation::Exact => self.add_block::<S, Exact, W>(simd, group, block, to_keys),
                }
            }
        }
    }

    #[inline(always)]
    fn add_block<S: Simd<E>, T: Tanh, W: Sums>(
        &mut self,
        simd: S,
        group: &Group<E>,
        block: Block<E>,
        to_keys: &mut [E],
    ) {
        let (row, first_key) = (block.row, block.first_key);
        let inputs = &group.attention.score.inputs;
        let query = inputs.queries.row(group.head(row), group.query(row));
        let units = query.len();
        let padded = self.weights.len();
        for unit in (0..padded).step_by(S::LANES) {
            let at = row * padded + unit;
            let half_query = simd.load(&self.queries[at..]);
            let weight = simd.load(&self.weights[unit..]);
            let mut query_sum = simd.load(&self.query_sums[at..]);
            let mut weight_sum = simd.load(&self.weight_sums[unit..]);
            let keys = self.keys.chunks_exact(padded);
            for (lane, (&gradient, key)) in block.gradient.iter().zip(keys).enumerate() {
                if gradient == E::ZERO {
                    continue;
                }
                let key = simd.load(&key[unit..]);
                let negative_tanh = T::negative_tanh(simd, half_query, key, || Units {
                    query,
                    key: inputs.keys.row(group.key, first_key + lane),
                    first: unit,
                });
                let terms = Terms::of(simd, gradient, negative_tanh);
                query_sum = simd.add(query_sum, terms.row);
                weight_sum = simd.add(weight_sum, terms.weight);
                if W::KEYS {
                    let row = (first_key + lane) * units;
                    let to = &mut to_keys[row + unit..row + units.min(unit + S::LANES)];
                    let sum = simd.mul_add(weight, terms.row, simd.load_partial(to));
                    simd.store_partial(sum, to);
                }
            }
            simd.store(query_sum, &mut self.query_sums[at..]);
            simd.store(weight_sum, &mut self.weight_sums[unit..]);
        }
    }

    /// `e^(2k)` of a block of keys, `[keys][padded]`, from packed keys if there are any: transposing is cheaper than
    /// recomputing. Returns their magnitude.
    #[inline(always)]
    fn fill_keys<S: Simd<E>>(
        &mut self,
        simd: S,
        group: &Group<E>,
        keys: Range<usize>,
        padded: usize,
    ) -> Magnitude {
        let score = group.attention.score;
        let [_, _, _, units] = score.inputs.keys.shape();
        let block = keys.start / KEY_LANES;
        let Some(packed) = score.packed_blocks(group.key, block..block + 1) else {
            let mut magnitude = Magnitude::Near;
            let mut wide = Vec::new();
            for (key, to) in keys.zip(self.keys.chunks_exact_mut(padded)) {
                let from = score.inputs.keys.row(group.key, key).read(&mut wide);
                magnitude = magnitude.max(exponentials(simd, from, to));
            }
            return magnitude;
        };
        let whole = units - units % S::LANES;
        for unit in (0..whole).step_by(S::LANES) {
            for lane in (0..KEY_LANES).step_by(S::LANES) {
                let from = &packed[unit * KEY_LANES + lane..];
                let to = &mut self.keys[lane * padded + unit..];
                simd.transpose(from, KEY_LANES, to, padded);
            }
        }
        for unit in whole..units {
            for lane in 0..KEY_LANES {
                self.keys[lane * padded + unit] = packed[unit * KEY_LANES + lane];
            }
        }
        Magnitude::from_element(packed[units * KEY_LANES])
    }
}
