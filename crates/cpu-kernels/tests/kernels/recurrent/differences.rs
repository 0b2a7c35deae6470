//! Gradients of recurrent layers against finite differences of their own forward pass.

use cpu_kernels::Level;

use super::case::{Case, Inputs, kernels};

#[test]
fn gradients_are_the_differences() {
    for case in Case::SMALL.variants() {
        let inputs = case.inputs::<f64>(7);
        let level = Level::current();
        let objective = |moved: &Inputs<f64>| -> f64 {
            let states = kernels(level, &case, moved).states;
            let terms = states.iter().zip(&inputs.gradient);
            terms.map(|(state, gradient)| state * gradient).sum()
        };
        let results = kernels(level, &case, &inputs);
        type Field = fn(&mut Inputs<f64>) -> &mut Vec<f64>;
        let fields: [(&str, &[f64], Field); 4] = [
            ("gates", &results.gates, |inputs| &mut inputs.gates),
            ("weight", &results.hidden_weight, |i| &mut i.hidden_weight),
            ("bias", &results.hidden_bias, |i| &mut i.hidden_bias),
            ("initial", &results.initial, |inputs| &mut inputs.initial),
        ];
        for (name, gradient, field) in fields {
            for at in (0..gradient.len()).step_by(gradient.len().div_ceil(40)) {
                let moved = |by: f64| {
                    let mut inputs = inputs.clone();
                    field(&mut inputs)[at] += by;
                    objective(&inputs)
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let (what, got) = (format!("{case:?}: {name} {at}"), gradient[at]);
                let is_close = (difference - got).abs() < 1e-7 * (1.0 + difference.abs());
                assert!(is_close, "{what}: {got} instead of {difference}");
            }
        }
    }
}
