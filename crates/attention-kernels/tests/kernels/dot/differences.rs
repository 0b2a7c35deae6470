//! Gradients of dot-product attention against finite differences of its own forward pass.

use attention_kernels::{Dropout, Mask};
use cpu_kernels::Level;

use super::case::{Case, Inputs, kernels};
use crate::modifiers::{Bias, Modifiers};

/// `sum context . gradient`, whose gradients `kernels` computes.
fn objective(level: Level, case: &Case, inputs: &Inputs<f64>, mask: Mask) -> f64 {
    let results = kernels(level, case, inputs, mask);
    let terms = results.context.iter().zip(&inputs.context_gradient);
    terms.map(|(c, g)| c * g).sum()
}

fn check(case: &Case, mask: Mask) {
    let inputs = case.inputs::<f64>(5);
    for level in Level::available() {
        let results = kernels(level, case, &inputs, mask);
        type Field = fn(&mut Inputs<f64>) -> &mut Vec<f64>;
        let [bias, relative_bias, sinks] = results.modifiers.parts();
        fn elements(bias: &mut Option<Bias<f64>>) -> &mut Vec<f64> {
            &mut bias.as_mut().unwrap().elements
        }
        let fields: [(&str, &[f64], Field); 6] = [
            ("query", &results.queries, |inputs| &mut inputs.queries),
            ("key", &results.keys, |inputs| &mut inputs.keys),
            ("value", &results.values, |inputs| &mut inputs.values),
            ("bias", bias, |inputs| elements(&mut inputs.modifiers.bias)),
            ("relative bias", relative_bias, |inputs| {
                elements(&mut inputs.modifiers.relative_bias)
            }),
            ("sink", sinks, |inputs| {
                inputs.modifiers.sinks.as_mut().unwrap()
            }),
        ];
        for (name, gradient, field) in fields {
            let is_long = gradient.len() > 40;
            let step = if is_long { gradient.len() / 23 } else { 1 };
            for at in (0..gradient.len()).step_by(step) {
                let moved = |by: f64| {
                    let mut inputs = inputs.clone();
                    field(&mut inputs)[at] += by;
                    objective(level, case, &inputs, mask)
                };
                let h = 1e-5;
                let difference = (moved(h) - moved(-h)) / (2.0 * h);
                assert!(
                    (difference - gradient[at]).abs() < 1e-7 * (1.0 + difference.abs()),
                    "{level:?} {case:?}: {name} {at}: {} instead of {difference}",
                    gradient[at]
                );
            }
        }
    }
}

#[test]
fn gradients_are_the_differences() {
    let grouped = Case::SMALL
        .with_heads(4, 2)
        .with_modifiers(Modifiers::KEY_BIAS);
    let capped = Case::SMALL.with_modifiers(Modifiers::SOFT_CAP);
    let modified = grouped.with_modifiers(Modifiers::ALL);
    for case in [
        Case::SMALL,
        grouped,
        capped,
        modified,
        modified.with_queries(2),
        modified.with_pairs(50, 131).with_batch(1),
        grouped.with_pairs(50, 131).with_batch(1),
    ] {
        check(&case, Mask::none());
        let dropped = case.with_dropout(Some(Dropout::new(0.4, 9)));
        check(&dropped, Mask::none());
        let bounds: Vec<[usize; 2]> = (0..case.queries).map(|i| [i / 2, i + 3]).collect();
        let mask = Mask::none().with_intervals(&bounds, [1, case.queries]);
        check(&dropped, mask);
    }
}
