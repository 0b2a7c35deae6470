//! Cross-entropy after a linear layer, against plain loops in `f64`.

#[path = "support/cross_entropy.rs"]
mod cases;
#[path = "support/random.rs"]
mod random;

use cpu_kernels::{CrossEntropyGradients, CrossEntropyInputs, LayerReal, Level, Matrix};

use cases::{Case, run, view};

fn check<E: LayerReal>(case: Case, tolerance: f64) {
    let inputs = case.inputs::<E>();
    let mut expected = case.expected(&case.inputs::<f64>());
    if !case.has_bias {
        expected.bias.fill(0.0);
    }
    for level in Level::available() {
        let got = run(level, &case, &inputs);
        assert_eq!(got.predictions, expected.predictions, "{case:?} {level:?}");
        let scale = 1.0 + expected.loss.abs();
        assert!(
            (got.loss - expected.loss).abs() <= tolerance * scale,
            "{case:?} {level:?}"
        );
        for (name, got, expected) in [
            ("input", &got.input, &expected.input),
            ("weight", &got.weight, &expected.weight),
            ("bias", &got.bias, &expected.bias),
        ] {
            let most = expected.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            for (got, expected) in got.iter().zip(expected) {
                let difference = (got.to_f64() - expected).abs();
                // Not `>`: NaN is no difference.
                assert!(
                    difference <= tolerance * (1.0 + most),
                    "{case:?} {level:?} {name}"
                );
            }
        }
    }
}

const CASE: Case = Case {
    rows: 21,
    size: 13,
    parts: 1,
    classes: 37,
    has_bias: true,
    spread: 2.0,
    label_smoothing: 0.0,
};

#[test]
fn the_loss_and_its_gradients() {
    for (rows, size, classes) in [
        (1, 1, 1),
        (5, 3, 2),
        (21, 13, 37),
        (200, 64, 129),
        (7, 5, 4099),
    ] {
        for has_bias in [true, false] {
            let case = Case {
                rows,
                size,
                classes,
                has_bias,
                ..CASE
            };
            check::<f32>(case, 2e-6);
            check::<f64>(case, 1e-13);
        }
    }
}

#[test]
fn features_in_parts() {
    for (rows, size, parts) in [
        (1, 2, 2),
        (21, 14, 2),
        (21, 15, 3),
        (200, 130, 2),
        (530, 1400, 2),
    ] {
        for has_bias in [true, false] {
            let case = Case {
                rows,
                size,
                parts,
                has_bias,
                ..CASE
            };
            check::<f32>(case, 2e-6);
            check::<f64>(case, 1e-13);
        }
    }
}

#[test]
fn targets_are_smoothed() {
    for label_smoothing in [0.1, 0.5, 1.0] {
        for classes in [1, 2, 37, 4099] {
            let case = Case {
                classes,
                label_smoothing,
                ..CASE
            };
            check::<f32>(case, 2e-6);
            check::<f64>(case, 1e-13);
        }
    }
}

#[test]
fn parts_may_be_a_transpose() {
    let case = Case {
        size: 14,
        parts: 2,
        ..CASE
    };
    let inputs = case.inputs::<f32>();
    let whole = view(&case, &inputs);
    let [rows, size] = whole.input.sizes();
    let transpose: Vec<f32> = (0..rows * size)
        .map(|at| inputs.input[at % rows * size + at / rows])
        .collect();
    let transposed = CrossEntropyInputs {
        input: Matrix::new(&transpose, [size, rows]).transposed(),
        ..whole
    };
    let loss = |view: CrossEntropyInputs<f32>| {
        let mut predictions = [usize::MAX; 21];
        let gradients = CrossEntropyGradients::NONE;
        let loss = view.compute(Level::current(), &mut predictions, gradients);
        (loss.to_bits(), predictions)
    };
    assert_eq!(loss(transposed), loss(whole));
}

/// More rows than are taken at a time.
#[test]
fn many_rows() {
    for (size, parts) in [(3, 1), (4, 2)] {
        let case = Case {
            rows: 450,
            size,
            parts,
            classes: 11_000,
            ..CASE
        };
        check::<f64>(case, 1e-12);
    }
}

#[test]
fn great_logits() {
    let case = Case {
        spread: 300.0,
        ..CASE
    };
    check::<f64>(case, 1e-10);
    let inputs = case.inputs::<f32>();
    let results = run(Level::current(), &case, &inputs);
    assert!(results.loss.is_finite());
    assert!(results.weight.iter().all(|x| x.is_finite()));
}

/// Elements of rows that do not count may be anything.
#[test]
fn rows_that_do_not_count() {
    let mut inputs = CASE.inputs::<f32>();
    let expected = run(Level::current(), &CASE, &inputs);
    for row in (2..CASE.rows).step_by(3) {
        inputs.targets[row] = CASE.classes - 1;
    }
    assert_eq!(run(Level::current(), &CASE, &inputs), expected);
}

#[test]
fn threads_change_no_bit() {
    let case = Case {
        rows: 450,
        size: 40,
        parts: 2,
        classes: 5_000,
        ..CASE
    };
    let inputs = case.inputs::<f32>();
    let run_on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map(|pool| pool.install(|| run(Level::current(), &case, &inputs)))
            .ok()
    };
    let alone = run_on(1);
    assert!(alone.is_some());
    assert!(run_on(2) == alone && run_on(3) == alone);
}

#[test]
fn no_rows() {
    let case = Case { rows: 0, ..CASE };
    let results = run(Level::current(), &case, &case.inputs::<f32>());
    assert_eq!(results.loss, 0.0);
    assert!(
        results
            .weight
            .iter()
            .chain(&results.bias)
            .all(|&x| x == 0.0)
    );
}

#[test]
#[should_panic(expected = "cross-entropy: targets expected below 37, got 37")]
fn a_target_that_is_no_class_is_refused() {
    let mut inputs = CASE.inputs::<f32>();
    inputs.targets[3] = 37;
    run(Level::current(), &CASE, &inputs);
}

#[test]
#[should_panic(expected = "cross-entropy: factors expected [21], got 20 elements")]
fn factors_of_another_number_of_rows_are_refused() {
    let mut inputs = CASE.inputs::<f32>();
    inputs.factors.pop();
    run(Level::current(), &CASE, &inputs);
}

#[test]
#[should_panic(expected = "cross-entropy: input expected [42, 7], got [21, 7]")]
fn a_part_that_is_missing_is_refused() {
    let case = Case {
        size: 14,
        parts: 2,
        ..CASE
    };
    let inputs = case.inputs::<f32>();
    let input = Matrix::new(&inputs.input[..21 * 7], [21, 7]);
    let view = CrossEntropyInputs {
        input,
        ..view(&case, &inputs)
    };
    let gradients = CrossEntropyGradients::NONE;
    view.compute(Level::current(), &mut [0; 21], gradients);
}
