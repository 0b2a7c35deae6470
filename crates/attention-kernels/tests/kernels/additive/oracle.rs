//! Additive scores by plain loops, and how near to them the kernels must come.

use attention_oracle::{Pairs, Real, Score};
use cpu_kernels::Level;

use super::case::Case;
use crate::oracle::{self, narrow, wide};

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
    pub(crate) fn solve<E: Real>(&self) -> Solution {
        let pairs = Pairs::new(self.axes(), |at| self.mask.attends(at));
        let weight = narrow::<E>(&self.weight);
        let score = Score::Additive { weight: &weight };
        let inputs = [&narrow(&self.queries)[..], &narrow(&self.keys)];
        let [queries, keys, weight] = score.backward(&pairs, inputs, &narrow(&self.gradient));
        Solution {
            scores: wide(&score.forward(&pairs, inputs)),
            queries: wide(&queries),
            keys: wide(&keys),
            weight: wide(&weight),
        }
    }
}

/// At most twice the error of plain `f32` loops in the scores and three times in gradients, `f64` within 1e-14, as
/// [`oracle::assert_precise`] says.
pub(crate) fn assert_precise(what: &str, case: &Case) {
    let (exact, plain) = (case.solve::<f64>(), case.solve::<f32>());
    for level in Level::available() {
        let (single, double) = (case.run::<f32>(level), case.run::<f64>(level));
        let all = [&exact, &plain, &single, &double].map(Solution::parts);
        for (index, (name, _)) in all[0].iter().enumerate() {
            let factor = if index == 0 { 2.0 } else { 3.0 };
            let what = format!("{what}: {level:?}: {name}");
            oracle::assert_precise(&what, all.map(|parts| parts[index].1), factor, 1e-14);
        }
    }
}

/// The same bits, or NaN in both.
pub(crate) fn assert_same(what: &str, actual: &Solution, expected: &Solution) {
    for ((name, actual), (_, expected)) in actual.parts().into_iter().zip(expected.parts()) {
        for (at, (a, e)) in actual.iter().zip(expected).enumerate() {
            let is_same = a.to_bits() == e.to_bits() || a.is_nan() && e.is_nan();
            assert!(is_same, "{what}: {name}[{at}]: {a:e}, not {e:e}");
        }
    }
}
