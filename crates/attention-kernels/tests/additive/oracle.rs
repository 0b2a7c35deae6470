//! Additive scores by plain loops, and how near to them the kernels must come.

use attention_kernels::AttentionReal;
use cpu_kernels::Level;

use crate::case::Case;

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

impl Case {
    /// By plain loops, in arithmetic of type `E`: `f64` is the oracle, `f32` the error that a plain composition makes.
    pub(crate) fn solve<E: AttentionReal>(&self) -> Solution {
        let [batch, heads, num_queries, num_keys, units] = self.sizes;
        let e = E::from_f64;
        let mut scores = vec![0.0; self.gradient.len()];
        let mut queries = vec![E::ZERO; self.queries.len()];
        let mut keys = vec![E::ZERO; self.keys.len()];
        let mut weight = vec![E::ZERO; units];
        for (at, to) in scores.iter_mut().enumerate() {
            let (key, row) = (at % num_keys, at / num_keys);
            let (query, head) = (row % num_queries, row / num_queries);
            if !self.attends(head, query, key) {
                continue;
            }
            assert!(head < batch * heads);
            let q = (head * num_queries + query) * units;
            let k = (self.key_head(head) * num_keys + key) * units;
            let g = e(self.gradient[at]);
            let mut score = E::ZERO;
            for unit in 0..units {
                let tanh = (e(self.queries[q + unit]) + e(self.keys[k + unit])).tanh();
                let w = e(self.weight[unit]);
                score += w * tanh;
                let term = g * w * (E::ONE - tanh * tanh);
                queries[q + unit] += term;
                keys[k + unit] += term;
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
}

pub(crate) fn from_f64<E: AttentionReal>(elements: &[f64]) -> Vec<E> {
    elements.iter().map(|x| E::from_f64(*x)).collect()
}

pub(crate) fn to_f64<E: AttentionReal>(elements: &[E]) -> Vec<f64> {
    elements.iter().map(|x| x.to_f64()).collect()
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
pub(crate) fn assert_precise(what: &str, case: &Case) {
    let exact = case.solve::<f64>();
    let plain = case.solve::<f32>();
    for level in Level::available() {
        let single = case.run::<f32>(level);
        let double = case.run::<f64>(level);
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
