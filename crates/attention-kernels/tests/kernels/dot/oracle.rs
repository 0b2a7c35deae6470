//! How near to plain loops the kernels must come.

use attention_kernels::AttentionReal;
use attention_oracle::{Axes, Score};

use super::case::{Case, Inputs};
use crate::oracle::{Plain, error};
use crate::run::Results;

/// The precision policy: the error is at most twice (gradients: three times) the composition's error in the same
/// arithmetic, with a floor relative to the magnitude.
pub(crate) fn assert_precise<E: AttentionReal>(
    what: &str,
    case: &Case,
    got: &Results<E>,
    inputs: &Inputs<E>,
    attends: &dyn Fn([usize; 4]) -> bool,
) {
    let widen = |elements: &[E]| elements.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let plain = Plain {
        axes: Axes {
            batch: case.batch,
            heads: case.heads,
            key_heads: case.key_heads,
            queries: case.queries,
            keys: case.keys,
        },
        attends,
        // The kernels' scale, whatever it was rounded to.
        score: Score::Dot {
            scale: E::from_f64(case.scale()).to_f64(),
        },
        queries: &widen(&inputs.queries),
        keys: &widen(&inputs.keys),
        values: &widen(&inputs.values),
        value_size: case.value_size,
        modifiers: &inputs.modifiers.map(E::to_f64),
        dropout: case.dropout,
        context_gradient: &widen(&inputs.context_gradient),
    };
    let is_single = size_of::<E>() == 4;
    let oracle = plain.solve::<f64>();
    let composition = if is_single {
        plain.solve::<f32>()
    } else {
        oracle.clone()
    };
    let fields = got.outcome().into_iter().zip(oracle).zip(composition);
    for (index, (((name, got), (_, oracle)), (_, composition))) in fields.enumerate() {
        let (error_got, magnitude) = error(&got, &oracle);
        let (error_plain, _) = error(&composition, &oracle);
        // A gradient of the score is the difference of two sums of `value_size` products, which may cancel.
        let difference = (case.value_size as f64).sqrt();
        let terms = match name {
            "gradient of queries" | "gradient of keys" => difference * case.scale() * 3.0,
            "gradient of bias" | "gradient of relative bias" | "gradient of sinks" => difference,
            _ => 0.0,
        };
        // In `f64` the composition is the oracle itself: what remains is the rounding of the scores.
        let unit = if is_single {
            1e-6
        } else {
            1e-14 * case.spread.max(1.0)
        };
        let floor = magnitude.max(terms) * unit;
        let allowed = error_plain * if index < 2 { 2.0 } else { 3.0 };
        assert!(
            error_got <= allowed.max(floor),
            "{what}: {name}: error {error_got:e}, composition {error_plain:e}, magnitude {magnitude:e}"
        );
    }
}
