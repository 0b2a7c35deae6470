//! One query and the keys that it sees.

use crate::dot::score::split_scale;
use crate::listed::dots;
use crate::simd::Simd;
use crate::{DotProduct, Real};

/// The keys that a query sees, and what is known about each.
#[derive(Default)]
pub(super) struct Seen<E> {
    pub keys: Vec<usize>,
    pub scores: Vec<E>,
    pub weights: Vec<E>,
    /// 1, or 0 for a dropped weight.
    pub kept: Vec<E>,
    row: Vec<E>,
    /// The bias, if it has to be widened.
    bias: Vec<E>,
    /// The scale by [`split_scale`].
    split: [E; 2],
    /// Times the first part of the scale.
    pub query: Vec<E>,
}

impl<E: Real> Seen<E> {
    /// Nothing yet, for the queries of a problem.
    pub(super) fn of(problem: &DotProduct<E>) -> Self {
        Self {
            split: split_scale(problem.scale),
            ..Self::default()
        }
    }

    /// What the gradients of the keys multiply [`query`](Self::query) with.
    pub(super) fn rest_of_scale(&self) -> E {
        self.split[1]
    }

    /// Lists the keys that are not hidden and their natural logits.
    #[inline(always)]
    pub(super) fn score<S: Simd<E>>(
        &mut self,
        simd: S,
        problem: &DotProduct<E>,
        [batch, head, query]: [usize; 3],
    ) {
        let [_, _, num_keys, _] = problem.keys.shape();
        let key_head = problem.key_head(head);
        let visible = problem.mask.visible(batch, head, query, num_keys);
        let bias = problem.bias.map(|bias| {
            let head = if bias.shape()[1] == 1 { 0 } else { head };
            bias.row(batch, head, 0).read(&mut self.bias)
        });
        self.keys.clear();
        for key in visible.range.clone() {
            if visible.sees(key) && bias.is_none_or(|bias| bias[key] != -E::INFINITY) {
                self.keys.push(key);
            }
        }
        self.scores.clear();
        self.scores.resize(self.keys.len(), E::ZERO);
        let [factor, rest] = self.split;
        let row = problem.queries.row(batch, head, query);
        self.query.resize(row.len(), E::ZERO);
        row.copy_to(&mut self.query);
        self.query.iter_mut().for_each(|x| *x = *x * factor);
        dots(
            simd,
            &self.query,
            &self.keys,
            &problem.keys,
            [batch, key_head],
            &mut self.scores,
        );
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
    pub(super) fn keep(&mut self, problem: &DotProduct<E>, place: [usize; 3]) {
        self.kept.clear();
        let (Some(dropout), Some(&first), Some(&last)) =
            (problem.dropout, self.keys.first(), self.keys.last())
        else {
            self.kept.resize(self.keys.len(), E::ONE);
            return;
        };
        self.row.resize(last + 1 - first, E::ZERO);
        dropout.fill(place, first, E::ONE, &mut self.row);
        self.kept
            .extend(self.keys.iter().map(|key| self.row[key - first]));
    }
}

/// The largest number that is not NaN.
#[inline(always)]
pub(super) fn largest<E: Real, S: Simd<E>>(simd: S, numbers: &[E]) -> E {
    let mut most = simd.splat(-E::INFINITY);
    let mut chunks = numbers.chunks_exact(S::LANES);
    for chunk in &mut chunks {
        most = simd.max(simd.load(chunk), most);
    }
    let rest = chunks.remainder().iter();
    rest.fold(
        simd.largest(most),
        |most, &x| if x > most { x } else { most },
    )
}
