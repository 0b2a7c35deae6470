//! The keys that one query attends to.

use super::Decode;
use crate::gather::Gathered;
use crate::heads::HeadPair;
use crate::simd::Simd;
use crate::stream::bias_row;
use crate::{HeadIndex, Real, Rows};

/// The keys that a query attends to, and what is known about each.
#[derive(Default)]
pub(super) struct AttendedKeys<E> {
    pub keys: Vec<usize>,
    /// Natural logits.
    pub scores: Vec<E>,
    pub weights: Vec<E>,
    /// 1, or 0 for a dropped weight.
    pub kept: Vec<E>,
    /// The query times the power of the scale.
    pub query: Vec<E>,
    /// What dropout keeps of all keys between the first and the last.
    row: Vec<E>,
    /// The bias, if it has to be widened.
    bias: Vec<E>,
}

impl<E: Real> AttendedKeys<E> {
    /// Lists the keys that are not masked and their scores.
    #[inline(always)]
    pub(super) fn score<S: Simd<E>>(
        &mut self,
        simd: S,
        attention: &Decode<E>,
        head: HeadPair,
        query: usize,
    ) {
        let score = attention.score;
        let [_, _, num_keys, _] = score.keys.shape();
        let mask = attention.mask.of_query(head.query, query, num_keys);
        let bias = attention.bias;
        let bias = bias.map(|bias| bias_row(&bias, head.query).read(&mut self.bias));
        self.keys.clear();
        for key in mask.range.clone() {
            if mask.attends(key) && bias.is_none_or(|bias| bias[key] != -E::INFINITY) {
                self.keys.push(key);
            }
        }
        self.scores.clear();
        self.scores.resize(self.keys.len(), E::ZERO);
        let row = score.queries.row(head.query, query);
        self.query.resize(row.len(), E::ZERO);
        row.copy_to(&mut self.query);
        let power = score.split.power;
        self.query.iter_mut().for_each(|x| *x = *x * power);
        let keys = Gathered {
            rows: score.keys,
            at: head.key,
            indices: &self.keys,
        };
        keys.dots(simd, &self.query, &mut self.scores);
        let rest = score.split.rest;
        for (score, &key) in self.scores.iter_mut().zip(&self.keys) {
            *score = *score * rest + bias.map_or(E::ZERO, |bias| bias[key]);
        }
        if self.scores.contains(&-E::INFINITY) {
            let mut scores = self.scores.iter();
            self.keys
                .retain(|_| scores.next().is_some_and(|&score| score != -E::INFINITY));
            self.scores.retain(|&score| score != -E::INFINITY);
        }
    }

    /// The rows of the keys, or of their values.
    pub(super) fn rows<'a>(&'a self, rows: &Rows<'a, E>, at: HeadIndex) -> Gathered<'a, E> {
        Gathered {
            rows: *rows,
            at,
            indices: &self.keys,
        }
    }

    /// `weights = e^(scores - reference)`, at most 1. Returns their sum.
    #[inline(always)]
    pub(super) fn weigh<S: Simd<E>>(&mut self, simd: S, reference: E) -> E {
        let (reference, log2_e) = (
            simd.splat(reference),
            simd.splat(E::from_f64(std::f64::consts::LOG2_E)),
        );
        self.weights.resize(self.scores.len(), E::ZERO);
        let (mut sum, mut rest) = (simd.zero(), E::ZERO);
        for (from, to) in self
            .scores
            .chunks(S::LANES)
            .zip(self.weights.chunks_mut(S::LANES))
        {
            let difference = simd.sub(simd.load_partial(from), reference);
            let weight = simd.exp2(simd.mul(simd.min(simd.zero(), difference), log2_e));
            simd.store_partial(weight, to);
            if to.len() == S::LANES {
                sum = simd.add(sum, weight);
            } else {
                rest = to.iter().copied().sum();
            }
        }
        simd.sum(sum) + rest
    }

    /// Draws what dropout keeps.
    #[inline(always)]
    pub(super) fn draw(&mut self, attention: &Decode<E>, at: HeadIndex, query: usize) {
        self.kept.clear();
        let (Some(dropout), Some(&first), Some(&last)) =
            (attention.dropout, self.keys.first(), self.keys.last())
        else {
            self.kept.resize(self.keys.len(), E::ONE);
            return;
        };
        self.row.resize(last + 1 - first, E::ZERO);
        dropout.fill(at, query, first, E::ONE, &mut self.row);
        self.kept
            .extend(self.keys.iter().map(|key| self.row[key - first]));
    }

    /// Sets dropped weights to 0.
    #[inline(always)]
    pub(super) fn drop(&mut self) {
        for (weight, &kept) in self.weights.iter_mut().zip(&self.kept) {
            *weight = *weight * kept;
        }
    }
}

/// The largest element that is not NaN.
#[inline(always)]
pub(super) fn largest<E: Real, S: Simd<E>>(simd: S, elements: &[E]) -> E {
    let mut most = simd.splat(-E::INFINITY);
    let mut chunks = elements.chunks_exact(S::LANES);
    for chunk in &mut chunks {
        most = simd.max(simd.load(chunk), most);
    }
    let rest = chunks.remainder().iter();
    rest.fold(
        simd.largest(most),
        |most, &x| if x > most { x } else { most },
    )
}
