//! The loss of logits at the ends of their type's range.

use cpu_kernels::{CrossEntropyGradients, CrossEntropyInputs, LayerReal, Level, Matrix};

/// Losses and gradients of one row whose logits are `logits`.
fn of_logits<E: LayerReal>(level: Level, logits: [f64; 3], target: usize) -> (f64, Vec<f64>) {
    let bias = logits.map(E::from_f64);
    let (input, weight) = ([E::ZERO], [E::ONE; 3]);
    let inputs = CrossEntropyInputs {
        input: Matrix::new(&input, [1, 1]),
        weight: Matrix::new(&weight, [1, 3]),
        bias: Some(&bias),
        targets: &[target],
        factors: &[E::ONE],
        label_smoothing: 0.0,
    };
    let mut of_bias = [E::from_f64(f64::NAN); 3];
    let gradients = CrossEntropyGradients {
        bias: Some(&mut of_bias),
        ..CrossEntropyGradients::NONE
    };
    let loss = inputs.compute(level, &mut [0], gradients);
    (loss, of_bias.iter().map(|x| x.to_f64()).collect())
}

fn logits_at_the_ends_of_the_range<E: LayerReal>(largest: f64, tolerance: f64) {
    for level in Level::available() {
        // Equal logits, however large: neither their size nor its rounding counts.
        let above = [1e20, 0.9 * largest, largest];
        let below = above.map(|logit: f64| -logit);
        for logit in [&below[..], &[0.0], &above].concat() {
            let (loss, gradients) = of_logits::<E>(level, [logit; 3], 1);
            let what = format!("{level:?} {logit:e}");
            assert!((loss - 3_f64.ln()).abs() < tolerance, "{what}: {loss}");
            for (gradient, expected) in gradients.iter().zip([1.0, -2.0, 1.0]) {
                assert!((3.0 * gradient - expected).abs() < tolerance, "{what}");
            }
        }
        // Logits at both ends, as far as the type reaches.
        let logits = [largest, 0.0, -largest];
        for (target, loss) in [0.0, largest, 2.0 * largest].into_iter().enumerate() {
            let mut expected = vec![1.0, 0.0, 0.0];
            expected[target] -= 1.0;
            let got = of_logits::<E>(level, logits, target);
            assert_eq!(got, (loss, expected), "{level:?} target {target}");
        }
    }
}

#[test]
fn logits_at_the_ends_of_each_types_range() {
    logits_at_the_ends_of_the_range::<f32>(f64::from(f32::MAX), 1e-6);
    // Twice the largest is infinite.
    logits_at_the_ends_of_the_range::<f64>(f64::MAX, 1e-14);
}
