//! Attention by plain loops, and how far the results of a kernel are from theirs.

use attention_kernels::{AttentionReal, Dropout, HeadIndex};
use attention_oracle::{Attention, Axes, Bias, Modifiers, Pairs, Real, Score};

use crate::modifiers::OwnedModifiers;

/// Context, log-sum-exp and gradients, by name.
pub(crate) type Outcome = Vec<(&'static str, Vec<f64>)>;

/// Inputs of attention in `f64`.
pub(crate) struct Plain<'a> {
    pub(crate) axes: Axes,
    pub(crate) attends: &'a dyn Fn([usize; 4]) -> bool,
    pub(crate) score: Score<'a, f64>,
    pub(crate) queries: &'a [f64],
    pub(crate) keys: &'a [f64],
    pub(crate) values: &'a [f64],
    pub(crate) value_size: usize,
    pub(crate) modifiers: &'a OwnedModifiers<f64>,
    pub(crate) dropout: Option<Dropout>,
    pub(crate) context_gradient: &'a [f64],
}

impl Plain<'_> {
    /// In arithmetic of type `E`: `f64` is the oracle, `f32` the error that a plain composition makes.
    pub(crate) fn solve<E: AttentionReal + Real>(&self) -> Outcome {
        let pairs = Pairs::new(self.axes, self.attends);
        let modifiers = self.modifiers.map(<E as Real>::of);
        let weight = match self.score {
            Score::Additive { weight } => narrow::<E>(weight),
            _ => Vec::new(),
        };
        fn view<E>(bias: &crate::modifiers::Bias<E>) -> Bias<'_, E> {
            let (elements, shape) = (&bias.elements, bias.shape);
            Bias { elements, shape }
        }
        let attention = Attention {
            pairs: &pairs,
            score: match self.score {
                Score::Dot { scale } => Score::Dot {
                    scale: E::of(scale),
                },
                _ => Score::Additive { weight: &weight },
            },
            queries: &narrow(self.queries),
            keys: &narrow(self.keys),
            values: &narrow(self.values),
            value_size: self.value_size,
            modifiers: Modifiers {
                soft_cap: modifiers.soft_cap,
                bias: modifiers.bias.as_ref().map(view),
                relative_bias: modifiers.relative_bias.as_ref().map(view),
                sinks: modifiers.sinks.as_deref(),
            },
            factors: Some(&self.factors::<E>()),
        };
        let outputs = attention.forward();
        let gradients = attention.backward(&outputs, &narrow(self.context_gradient));
        let mut outcome = vec![
            ("context", wide(&outputs.context)),
            ("log-sum-exp", outputs.log_sum_exp.clone()),
            ("gradient of queries", wide(&gradients.queries)),
            ("gradient of keys", wide(&gradients.keys)),
            ("gradient of values", wide(&gradients.values)),
        ];
        if let Score::Additive { .. } = self.score {
            outcome.push(("gradient of weight", wide(&gradients.weight)));
        }
        outcome.extend([
            ("gradient of bias", wide(&gradients.bias)),
            ("gradient of relative bias", wide(&gradients.relative_bias)),
            ("gradient of sinks", wide(&gradients.sinks)),
        ]);
        outcome
    }

    /// The factor of each weight, of all queries of all heads.
    fn factors<E: AttentionReal + Real>(&self) -> Vec<E> {
        let (heads, queries, keys) = (self.axes.heads, self.axes.queries, self.axes.keys);
        let mut factors = vec![<E as Real>::ONE; self.axes.batch * heads * queries * keys];
        let Some(dropout) = self.dropout else {
            return factors;
        };
        for (row, factors) in factors.chunks_mut(keys.max(1)).enumerate() {
            let at = HeadIndex {
                batch: row / queries / heads,
                head: row / queries % heads,
            };
            dropout.factors(at, row % queries, 0, factors);
        }
        factors
    }
}

pub(crate) fn narrow<E: Real>(elements: &[f64]) -> Vec<E> {
    elements.iter().map(|x| E::of(*x)).collect()
}

pub(crate) fn wide<E: Real>(elements: &[E]) -> Vec<f64> {
    elements.iter().map(|x| x.wide()).collect()
}

/// The precision policy: in `f32` the error is at most `factor` times that of plain loops, with a floor of 1e-6 of the
/// magnitude; in `f64` it is within `rounding` of the magnitude and a little.
pub(crate) fn assert_precise(
    what: &str,
    [exact, plain, single, double]: [&[f64]; 4],
    factor: f64,
    rounding: f64,
) {
    let (plain, magnitude) = error(plain, exact);
    let of_single = (factor * plain).max(1e-6 * magnitude);
    let of_double = rounding * (magnitude + 0.1);
    for (found, bound, precision) in [(single, of_single, "f32"), (double, of_double, "f64")] {
        let (found, _) = error(found, exact);
        let what = format!("{what}, {precision}");
        assert!(found <= bound, "{what}: error {found:e} above {bound:e}");
    }
}

/// The largest distance, and the largest magnitude of `exact`. A log-sum-exp of minus infinity is met.
pub(crate) fn error(actual: &[f64], exact: &[f64]) -> (f64, f64) {
    assert_eq!(actual.len(), exact.len());
    let (mut error, mut magnitude) = (0.0_f64, 0.0_f64);
    for (a, e) in actual.iter().zip(exact) {
        if *e == f64::NEG_INFINITY && a == e {
            continue;
        }
        assert!(a.is_finite() && e.is_finite(), "{a} and {e}");
        error = error.max((a - e).abs());
        magnitude = magnitude.max(e.abs());
    }
    (error, magnitude)
}
