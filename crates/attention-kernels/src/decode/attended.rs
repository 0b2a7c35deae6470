//! The keys that one query attends to.

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Simd};

use super::RowScore;
use crate::gather::{AttendedKeys, Gathered};
use crate::heads::HeadPair;
use crate::soft_cap::soft_cap;
use crate::stream::Attention;

/// The keys that a query attends to, and their scores.
#[derive(Default)]
pub(super) struct ScoredKeys<E> {
    pub attended: AttendedKeys<E>,
    /// Natural logits.
    pub scores: Vec<E>,
    /// The query times the factor of the score.
    pub query: Vec<E>,
    /// The derivatives of the soft-cap; empty without one.
    pub slopes: Vec<E>,
    /// The biases, if they have to be widened.
    biases: [Vec<E>; 2],
}

/// The arguments of [`ScoredKeys::score`], which is compiled once for each instruction set.
struct Scoring<'a, 'b, E, T> {
    keys: &'a mut ScoredKeys<E>,
    attention: &'a Attention<'b, E, T>,
    head: HeadPair,
    query: usize,
}

impl<E: Real, T: RowScore<E>> Job<E> for Scoring<'_, '_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let (attention, head, query) = (self.attention, self.head, self.query);
        let all = self.keys;
        let score = attention.score;
        let [all_queries, all_keys] = score.rows();
        let [_, _, num_keys, _] = all_keys.shape();
        let keys = &mut all.attended.keys;
        let mask = attention.mask.of_query(head.query, query, num_keys);
        let modifiers = &attention.modifiers;
        let [_, _, num_queries, _] = all_queries.shape();
        let biases = modifiers.biases(head.query, [query, num_queries], 0..num_keys);
        let mut scratch = all.biases.iter_mut();
        let biases = biases.map(|bias| bias.zip(scratch.next()).map(|(row, to)| row.read(to)));
        let is_masked_by_bias = |key| {
            let mut of_key = biases.iter().flatten().map(|bias| bias[key]);
            of_key.any(|bias| bias == -E::INFINITY)
        };
        keys.clear();
        for key in mask.range.clone() {
            if mask.attends(key) {
                keys.push(key);
            }
        }
        if biases.iter().any(Option::is_some) {
            keys.retain(|&key| !is_masked_by_bias(key));
        }
        all.scores.clear();
        all.scores.resize(keys.len(), E::ZERO);
        let row = all_queries.row(head.query, query);
        all.query.resize(row.len(), E::ZERO);
        row.copy_to(&mut all.query);
        let [power, mut rest] = score.factors();
        all.query.iter_mut().for_each(|x| *x = *x * power);
        let rows = Gathered {
            rows: all_keys,
            at: head.key,
            indices: keys,
        };
        score.row_scores(simd, &all.query, rows, &mut all.scores);
        if let Some(cap) = modifiers.soft_cap {
            all.slopes.resize(keys.len(), E::ZERO);
            soft_cap(simd, cap, rest, &mut all.scores, &mut all.slopes);
            rest = E::ONE;
        }
        let [first, second] = biases;
        for (score, &key) in all.scores.iter_mut().zip(&*keys) {
            *score = *score * rest + first.or(second).map_or(E::ZERO, |bias| bias[key]);
        }
        if let (Some(_), Some(bias)) = (first, second) {
            for (score, &key) in all.scores.iter_mut().zip(&*keys) {
                *score += bias[key];
            }
        }
        if all.scores.contains(&-E::INFINITY) {
            let mut kept = all.scores.iter().map(|&score| score != -E::INFINITY);
            keys.retain(|_| kept.next().unwrap_or(true));
            let mut kept = all.scores.iter().map(|&score| score != -E::INFINITY);
            all.slopes.retain(|_| kept.next().unwrap_or(true));
            all.scores.retain(|&score| score != -E::INFINITY);
        }
    }
}

impl<E: Real> ScoredKeys<E> {
    /// Lists the unmasked keys and their scores.
    #[inline(always)]
    pub(super) fn score<S: Simd<E>, T: RowScore<E>>(
        &mut self,
        simd: S,
        attention: &Attention<E, T>,
        head: HeadPair,
        query: usize,
    ) {
        simd.call(Scoring {
            keys: self,
            attention,
            head,
            query,
        });
    }

    /// `weights = e^(scores - largest - log_sum)`, at most 1. Returns their sum.
    #[inline(always)]
    pub(super) fn weigh<S: Simd<E>>(&mut self, simd: S, [largest, log_sum]: [E; 2]) -> E {
        let (largest, log_sum) = (simd.splat(largest), simd.splat(log_sum));
        let log2_e = simd.splat(E::from_f64(std::f64::consts::LOG2_E));
        self.attended.weights.resize(self.scores.len(), E::ZERO);
        let (mut sum, mut rest) = (simd.zero(), E::ZERO);
        let weights = self.attended.weights.chunks_mut(S::LANES);
        for (from, to) in self.scores.chunks(S::LANES).zip(weights) {
            let difference = simd.sub(simd.sub(simd.load_partial(from), largest), log_sum);
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
}
