//! Additive scores by plain loops, and by the kernels.

use attention_kernels::{AdditiveScoreGradients, AdditiveScoreInputs, Level, Real, Rows};

use crate::owned_mask::OwnedMask;

/// Inputs in `f64`, and which pairs are visible.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// batch, heads, queries, keys, units
    pub(crate) sizes: [usize; 5],
    pub(crate) queries: Vec<f64>,
    pub(crate) keys: Vec<f64>,
    pub(crate) weight: Vec<f64>,
    pub(crate) mask: OwnedMask,
    /// The gradient of the scores.
    pub(crate) grad: Vec<f64>,
}

/// The scores and all gradients.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Solution {
    pub(crate) scores: Vec<f64>,
    pub(crate) queries: Vec<f64>,
    pub(crate) keys: Vec<f64>,
    pub(crate) weight: Vec<f64>,
}

impl Solution {
    pub(crate) fn parts(&self) -> [(&'static str, &[f64]); 4] {
        [
            ("scores", &self.scores),
            ("gradient of queries", &self.queries),
            ("gradient of keys", &self.keys),
            ("gradient of weight", &self.weight),
        ]
    }
}

/// Numbers in `-1..1` that look random and are the same every time.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // To `f32` and back, so that both types start from the same numbers.
            f64::from(((state >> 40) as f32) / (1_u64 << 23) as f32 - 1.0)
        })
        .collect()
}

impl Problem {
    pub(crate) fn new(sizes: [usize; 5]) -> Self {
        let [batch, heads, queries, keys, units] = sizes;
        let heads = batch * heads;
        let scaled = |numbers: Vec<f64>, factor| numbers.into_iter().map(|x| x * factor).collect();
        Self {
            sizes,
            queries: scaled(numbers(1, heads * queries * units), 2.0),
            keys: scaled(numbers(2, heads * keys * units), 2.0),
            weight: numbers(3, units),
            mask: OwnedMask::default(),
            grad: numbers(4, heads * queries * keys),
        }
    }

    pub(crate) fn with_intervals(
        mut self,
        shape: [usize; 2],
        f: impl Fn(usize, usize) -> [usize; 2],
    ) -> Self {
        let pairs = (0..shape[0] * shape[1]).map(|at| f(at / shape[1], at % shape[1]));
        self.mask.intervals = Some((pairs.collect(), shape));
        self
    }

    pub(crate) fn with_keep(mut self, shape: [usize; 4], f: impl Fn([usize; 4]) -> bool) -> Self {
        let [_, heads, queries, keys] = shape;
        let flags = (0..shape.iter().product()).map(|at| {
            f([
                at / keys / queries / heads,
                at / keys / queries % heads,
                at / keys % queries,
                at % keys,
            ])
        });
        self.mask.keep = Some((flags.collect(), shape));
        self
    }

    /// By plain loops, in arithmetic of type `E`: `f64` is the oracle, `f32` the error that a plain composition makes.
    pub(crate) fn solve<E: Real>(&self) -> Solution {
        let [batch, heads, num_queries, num_keys, units] = self.sizes;
        let e = E::from_f64;
        let mut scores = vec![0.0; self.grad.len()];
        let mut queries = vec![E::ZERO; self.queries.len()];
        let mut keys = vec![E::ZERO; self.keys.len()];
        let mut weight = vec![E::ZERO; units];
        for (at, to) in scores.iter_mut().enumerate() {
            let (key, row) = (at % num_keys, at / num_keys);
            let (query, head) = (row % num_queries, row / num_queries);
            if !self.mask.sees([head / heads, head % heads, query, key]) {
                continue;
            }
            assert!(head < batch * heads);
            let q = (head * num_queries + query) * units;
            let k = (head * num_keys + key) * units;
            let g = e(self.grad[at]);
            let mut score = E::ZERO;
            for unit in 0..units {
                let tanh = (e(self.queries[q + unit]) + e(self.keys[k + unit])).tanh();
                let w = e(self.weight[unit]);
                score += w * tanh;
                let slope = g * w * (E::ONE - tanh * tanh);
                queries[q + unit] += slope;
                keys[k + unit] += slope;
                weight[unit] += g * tanh;
            }
            *to = score.to_f64();
        }
        Solution {
            scores,
            queries: to_f64(&queries),
            keys: to_f64(&keys),
            weight: to_f64(&weight),
        }
    }

    /// By the kernels.
    pub(crate) fn run<E: Real>(&self, level: Level) -> Solution {
        let [batch, heads, num_queries, num_keys, units] = self.sizes;
        let (queries, keys) = (from_f64::<E>(&self.queries), from_f64::<E>(&self.keys));
        let (weight, grad) = (from_f64::<E>(&self.weight), from_f64::<E>(&self.grad));
        let score = AdditiveScoreInputs {
            queries: Rows::contiguous(&queries, [batch, heads, num_queries, units]),
            keys: Rows::contiguous(&keys, [batch, heads, num_keys, units]),
            weight: &weight,
            mask: self.mask.mask(),
        };
        // NaN shows what is not written.
        let nan = E::from_f64(f64::NAN);
        let mut scores = vec![nan; grad.len()];
        score.forward(level, &mut scores);
        let mut to_queries = vec![E::ZERO; queries.len()];
        let mut to_keys = vec![E::ZERO; keys.len()];
        let mut to_weight = vec![E::ZERO; units];
        let gradients = AdditiveScoreGradients {
            queries: &mut to_queries,
            keys: &mut to_keys,
            weight: &mut to_weight,
        };
        let grad = Rows::contiguous(&grad, [batch, heads, num_queries, num_keys]);
        score.backward(level, grad, gradients);
        let mut alone = vec![E::ZERO; keys.len()];
        score.backward_keys(level, grad, &mut alone);
        let bits =
            |numbers: &[E]| -> Vec<u64> { to_f64(numbers).iter().map(|x| x.to_bits()).collect() };
        assert_eq!(bits(&alone), bits(&to_keys), "the keys alone");
        Solution {
            scores: to_f64(&scores),
            queries: to_f64(&to_queries),
            keys: to_f64(&to_keys),
            weight: to_f64(&to_weight),
        }
    }
}

pub(crate) fn from_f64<E: Real>(numbers: &[f64]) -> Vec<E> {
    numbers.iter().map(|x| E::from_f64(*x)).collect()
}

pub(crate) fn to_f64<E: Real>(numbers: &[E]) -> Vec<f64> {
    numbers.iter().map(|x| x.to_f64()).collect()
}

/// The largest distance, and the largest magnitude of `exact`.
pub(crate) fn error(actual: &[f64], exact: &[f64]) -> (f64, f64) {
    assert_eq!(actual.len(), exact.len());
    let mut error: f64 = 0.0;
    let mut magnitude: f64 = 0.0;
    for (a, e) in actual.iter().zip(exact) {
        assert!(a.is_finite() && e.is_finite(), "{a} and {e}");
        error = error.max((a - e).abs());
        magnitude = magnitude.max(e.abs());
    }
    (error, magnitude)
}

/// The precision policy: at most twice the error of plain `f32` loops in the scores and three times in gradients, with
/// a floor of 1e-6 of the magnitude; `f64` within 1e-14 of the magnitude and a little.
pub(crate) fn assert_precise(what: &str, problem: &Problem) {
    let exact = problem.solve::<f64>();
    let plain = problem.solve::<f32>();
    for level in Level::available() {
        let single = problem.run::<f32>(level);
        let double = problem.run::<f64>(level);
        for (index, (name, exact)) in exact.parts().into_iter().enumerate() {
            let (plain, magnitude) = error(plain.parts()[index].1, exact);
            let factor = if index == 0 { 2.0 } else { 3.0 };
            let bound = (factor * plain).max(1e-6 * magnitude);
            let (found, _) = error(single.parts()[index].1, exact);
            assert!(
                found <= bound,
                "{what}: {level:?}: {name}: error {found:e} above {bound:e}"
            );
            let (found, _) = error(double.parts()[index].1, exact);
            let bound = 1e-14 * (magnitude + 0.1);
            assert!(
                found <= bound,
                "{what}: {level:?}: f64 {name}: error {found:e} above {bound:e}"
            );
        }
    }
}

/// The same bits, or NaN in both.
pub(crate) fn assert_same(what: &str, actual: &Solution, expected: &Solution) {
    for ((name, actual), (_, expected)) in actual.parts().into_iter().zip(expected.parts()) {
        for (at, (a, e)) in actual.iter().zip(expected).enumerate() {
            assert!(
                a.to_bits() == e.to_bits() || (a.is_nan() && e.is_nan()),
                "{what}: {name}[{at}]: {a:e}, not {e:e}"
            );
        }
    }
}
