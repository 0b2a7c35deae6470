//! Cross-entropy after a linear layer.

mod case;
mod range;

use cpu_kernels::{CrossEntropyGradients, CrossEntropyInputs, LayerReal, Level, Matrix};

use crate::calls::{on_threads, refuses};
use case::{Case, Results};

const CASE: Case = Case {
    rows: 21,
    size: 13,
    parts: 1,
    classes: 37,
    has_bias: true,
    spread: 2.0,
    label_smoothing: 0.0,
};

/// Two parts of 7 features.
const PARTS: Case = sized(21, 14, 2, 37);

/// [`CASE`] in another size.
const fn sized(rows: usize, size: usize, parts: usize, classes: usize) -> Case {
    Case {
        rows,
        size,
        parts,
        classes,
        ..CASE
    }
}

fn check<E: LayerReal>(case: Case, tolerance: f64) {
    let inputs = case.inputs::<E>();
    let expected = case.expected(&case.inputs());
    for level in Level::available() {
        let what = format!("{case:?} {level:?}");
        let got = case.run(level, &inputs, case.wanted());
        assert_eq!(got.predictions, expected.predictions, "{what}");
        let alone = case.run(level, &inputs, [false; 3]);
        assert!(alone.loss.to_bits() == got.loss.to_bits(), "{what}");
        assert_eq!(alone.predictions, got.predictions, "{what}");
        let difference = (got.loss - expected.loss).abs();
        let holds = difference <= tolerance * (1.0 + expected.loss.abs());
        assert!(holds, "{what}");
        for (n, (got, expected)) in got.gradients.iter().zip(&expected.gradients).enumerate() {
            assert_eq!(got.len(), expected.len(), "{what}: {n}");
            let most = expected.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            for (got, expected) in got.iter().zip(expected) {
                let difference = (got.to_f64() - expected).abs();
                // Not `>`: NaN is no difference.
                assert!(difference <= tolerance * (1.0 + most), "{what}: {n}");
            }
        }
    }
}

/// In both types, with a bias and without.
fn check_all(case: Case) {
    for has_bias in [true, false] {
        let case = Case { has_bias, ..case };
        check::<f32>(case, 2e-6);
        check::<f64>(case, 1e-13);
    }
}

/// On the processor's own level.
fn run<E: LayerReal>(case: &Case, inputs: &case::Inputs<E>) -> Results<E> {
    case.run(Level::current(), inputs, case.wanted())
}

#[test]
fn the_loss_and_its_gradients() {
    for (rows, size, parts, classes) in [
        (1, 1, 1, 1),
        (5, 3, 1, 2),
        (21, 13, 1, 37),
        (200, 64, 1, 129),
        (7, 5, 1, 4099),
        (1, 2, 2, 37),
        (21, 14, 2, 37),
        (21, 15, 3, 37),
        (200, 130, 2, 37),
        (530, 1400, 2, 37),
    ] {
        check_all(sized(rows, size, parts, classes));
    }
}

#[test]
fn targets_are_smoothed() {
    for label_smoothing in [0.1, 0.5, 1.0] {
        for classes in [1, 2, 37, 4099] {
            let mut case = sized(21, 13, 1, classes);
            case.label_smoothing = label_smoothing;
            check::<f32>(case, 2e-6);
            check::<f64>(case, 1e-13);
        }
    }
}

#[test]
fn parts_may_be_a_transpose() {
    let inputs = PARTS.inputs::<f32>();
    let whole = PARTS.view(&inputs);
    let [rows, size] = whole.input.sizes();
    let element = |at: usize| inputs.input[at % rows * size + at / rows];
    let transpose: Vec<f32> = (0..rows * size).map(element).collect();
    let mut transposed = whole;
    transposed.input = Matrix::new(&transpose, [size, rows]).transposed();
    let loss = |view: CrossEntropyInputs<f32>| {
        let mut predictions = [usize::MAX; 21];
        let none = CrossEntropyGradients::NONE;
        let loss = view.compute(Level::current(), &mut predictions, none);
        (loss.to_bits(), predictions)
    };
    assert_eq!(loss(transposed), loss(whole));
}

/// More rows than are taken at a time.
#[test]
fn many_rows() {
    for (size, parts) in [(3, 1), (4, 2)] {
        check::<f64>(sized(450, size, parts, 11_000), 1e-12);
    }
}

#[test]
fn great_logits() {
    let mut case = CASE;
    case.spread = 300.0;
    check::<f64>(case, 1e-10);
    let results = run(&case, &case.inputs::<f32>());
    assert!(results.loss.is_finite());
    assert!(results.gradients[1].iter().all(|x| x.is_finite()));
}

/// Elements of rows that do not count may be anything.
#[test]
fn rows_that_do_not_count() {
    let mut inputs = CASE.inputs::<f32>();
    let expected = run(&CASE, &inputs);
    for row in (2..CASE.rows).step_by(3) {
        inputs.targets[row] = CASE.classes - 1;
    }
    assert_eq!(run(&CASE, &inputs), expected);
}

/// Each has the bits that it has beside all others.
fn check_wanted<E: LayerReal>(case: Case) {
    let inputs = case.inputs::<E>();
    for level in Level::available() {
        let all = case.run(level, &inputs, case.wanted());
        for subset in 0..8 {
            let wanted = [0, 1, 2].map(|n| subset >> n & 1 == 1 && case.wanted()[n]);
            let some = case.run(level, &inputs, wanted);
            let what = format!("{case:?}, {level:?}, {wanted:?}");
            assert!(some.loss.to_bits() == all.loss.to_bits(), "{what}");
            assert!(some.predictions == all.predictions, "{what}");
            for (n, is_wanted) in wanted.into_iter().enumerate() {
                let expected: &[E] = if is_wanted { &all.gradients[n] } else { &[] };
                assert!(some.gradients[n] == expected, "{what}: {n}");
            }
        }
    }
}

#[test]
fn some_gradients_have_the_bits_that_all_have() {
    for case in [CASE, PARTS] {
        for has_bias in [true, false] {
            let case = Case { has_bias, ..case };
            check_wanted::<f32>(case);
            check_wanted::<f64>(case);
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let case = sized(450, 40, 2, 5_000);
    let inputs = case.inputs::<f32>();
    let run_on = |threads| on_threads(threads, || run(&case, &inputs));
    let alone = run_on(1);
    assert!(run_on(2) == alone && run_on(3) == alone);
}

#[test]
fn no_rows() {
    let case = Case { rows: 0, ..CASE };
    let results = run(&case, &case.inputs::<f32>());
    assert_eq!(results.loss, 0.0);
    assert!(results.gradients.iter().flatten().all(|&x| x == 0.0));
}

#[test]
fn what_does_not_fit_is_refused() {
    refuses("cross-entropy: targets expected below 37, got 37", || {
        let mut inputs = CASE.inputs::<f32>();
        inputs.targets[3] = 37;
        run(&CASE, &inputs)
    });
    let expected = "cross-entropy: factors expected [21], got 20 elements";
    refuses(expected, || {
        let mut inputs = CASE.inputs::<f32>();
        inputs.factors.pop();
        run(&CASE, &inputs)
    });
    refuses("cross-entropy: input expected [42, 7], got [21, 7]", || {
        let inputs = PARTS.inputs::<f32>();
        let mut view = PARTS.view(&inputs);
        view.input = Matrix::new(&inputs.input[..21 * 7], [21, 7]);
        view.compute(Level::current(), &mut [0; 21], CrossEntropyGradients::NONE)
    });
}
