//! Recurrent layers in plain loops.

use attention_oracle::Recurrent;
use cpu_kernels::LayerReal;

use super::case::{Case, Inputs, Results};

/// In the arithmetic of `E`.
pub(crate) fn plain<E: LayerReal + attention_oracle::Real>(
    case: &Case,
    inputs: &Inputs<E>,
) -> Results<E> {
    let lens = case.lens();
    let layer = Recurrent {
        cell: case.kind,
        sizes: [case.batch, case.steps, case.hidden_size],
        lens: lens.as_deref(),
        is_reversed: case.is_reversed,
        gates: &inputs.gates,
        weight: &inputs.hidden_weight,
        bias: &inputs.hidden_bias,
        initial: &inputs.initial,
    };
    let gradients = layer.backward(&inputs.gradient);
    Results {
        states: layer.forward(),
        gates: gradients.gates,
        hidden_weight: gradients.weight,
        hidden_bias: gradients.bias,
        initial: gradients.initial,
    }
}

/// The precision policy: the error is at most twice (gradients: three times) the plain loops' error in the same
/// arithmetic, with a floor relative to the magnitude.
pub(crate) fn assert_precise<E: LayerReal + attention_oracle::Real>(
    case: &Case,
    got: &Results<E>,
    inputs: &Inputs<E>,
) {
    let widen = |elements: &[E]| elements.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let wide = Inputs {
        gates: widen(&inputs.gates),
        hidden_weight: widen(&inputs.hidden_weight),
        hidden_bias: widen(&inputs.hidden_bias),
        initial: widen(&inputs.initial),
        gradient: widen(&inputs.gradient),
    };
    let (oracle, composition) = (plain(case, &wide), plain(case, inputs));
    // A slope errs by the rounding of a gate near 1, that is of terms of size 1, however small the slope is.
    let unit = if size_of::<E>() == 4 { 6e-7 } else { 1e-14 };
    let exact = oracle.fields().into_iter().zip(composition.fields());
    for ((name, got), ((_, oracle), (_, plain))) in got.fields().into_iter().zip(exact) {
        assert_eq!(got.len(), oracle.len());
        let error = |elements: &[E]| {
            let pairs = elements.iter().zip(oracle);
            pairs.fold(0.0_f64, |most, (got, oracle)| {
                let difference = (got.to_f64() - oracle).abs();
                assert!(!difference.is_nan(), "{case:?}: {name}: {got} for {oracle}");
                most.max(difference)
            })
        };
        let magnitude = oracle.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let allowed = error(plain) * if name == "states" { 2.0 } else { 3.0 };
        let error = error(got);
        let text = format!("error {error:e}, allowed {allowed:e}, magnitude {magnitude:e}");
        let is_precise = error <= allowed.max(magnitude.max(1.0) * unit);
        assert!(is_precise, "{case:?}: {name}: {text}");
    }
}
