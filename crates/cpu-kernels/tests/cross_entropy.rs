//! Cross-entropy after a linear layer, against plain loops in `f64`.

#[path = "support/random.rs"]
mod random;

use cpu_kernels::{CrossEntropyGradients, CrossEntropyInputs, LayerReal, Level, Matrix};
use random::Random;

#[derive(Clone, Copy, Debug)]
struct Case {
    rows: usize,
    /// The features of all parts together.
    size: usize,
    /// In how many parts the features of a row come.
    parts: usize,
    classes: usize,
    has_bias: bool,
    /// The factor of the logits.
    spread: f64,
    label_smoothing: f64,
}

struct Inputs<E> {
    input: Vec<E>,
    weight: Vec<E>,
    bias: Vec<E>,
    targets: Vec<usize>,
    factors: Vec<E>,
}

#[derive(Clone, Debug, PartialEq)]
struct Results<E> {
    loss: f64,
    predictions: Vec<usize>,
    input: Vec<E>,
    weight: Vec<E>,
    bias: Vec<E>,
}

impl Case {
    fn inputs<E: LayerReal>(&self) -> Inputs<E> {
        let mut random = Random::new(7);
        // Of f32's precision in both types.
        let mut draw = |len: usize, factor: f64| -> Vec<E> {
            let element = |random: &mut Random| {
                let element: E = random.normal();
                E::from_f64(f64::from((element.to_f64() * factor) as f32))
            };
            (0..len).map(|_| element(&mut random)).collect()
        };
        let of_size = self.spread / (self.size.max(1) as f64).sqrt();
        Inputs {
            input: draw(self.rows * self.size, 1.0),
            weight: draw(self.size * self.classes, of_size),
            bias: draw(self.classes, self.spread),
            targets: (0..self.rows).map(|row| row * 31 % self.classes).collect(),
            // Every third row does not count.
            factors: (0..self.rows)
                .map(|row| {
                    E::from_f64(if row % 3 == 2 {
                        0.0
                    } else {
                        0.5 + row as f64 / 64.0
                    })
                })
                .collect(),
        }
    }

    /// Where a feature of a row is.
    fn place(&self, row: usize, feature: usize) -> usize {
        let size = self.size / self.parts;
        (feature / size * self.rows + row) * size + feature % size
    }

    /// By plain loops.
    fn expected(&self, inputs: &Inputs<f64>) -> Results<f64> {
        let Self {
            rows,
            size,
            classes,
            ..
        } = *self;
        let mut results = Results {
            loss: 0.0,
            predictions: vec![0; rows],
            input: vec![0.0; rows * size],
            weight: vec![0.0; size * classes],
            bias: vec![0.0; classes],
        };
        for row in 0..rows {
            let logit = |class: usize| {
                let products = (0..size)
                    .map(|n| inputs.input[self.place(row, n)] * inputs.weight[n * classes + class]);
                products.sum::<f64>()
                    + if self.has_bias {
                        inputs.bias[class]
                    } else {
                        0.0
                    }
            };
            let logits: Vec<f64> = (0..classes).map(logit).collect();
            let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logits.iter().map(|logit| (logit - greatest).exp()).sum();
            results.predictions[row] = logits.iter().position(|&x| x == greatest).unwrap_or(0);
            let (factor, target) = (inputs.factors[row], inputs.targets[row]);
            let smoothed = |class| {
                let hit = if class == target { 1.0 } else { 0.0 };
                (1.0 - self.label_smoothing) * hit + self.label_smoothing / classes as f64
            };
            let losses = logits.iter().enumerate().map(|(class, logit)| {
                // The logarithm of the probability.
                smoothed(class) * (greatest + sum.ln() - logit)
            });
            results.loss += factor * losses.sum::<f64>();
            for (class, logit) in logits.iter().enumerate() {
                let probability = (logit - greatest).exp() / sum;
                let gradient = factor * (probability - smoothed(class));
                results.bias[class] += gradient;
                for n in 0..size {
                    let (x, w) = (self.place(row, n), n * classes + class);
                    results.input[x] += gradient * inputs.weight[w];
                    results.weight[w] += gradient * inputs.input[x];
                }
            }
        }
        results
    }
}

fn view<'a, E: LayerReal>(case: &Case, inputs: &'a Inputs<E>) -> CrossEntropyInputs<'a, E> {
    CrossEntropyInputs {
        input: Matrix::new(
            &inputs.input,
            [case.parts * case.rows, case.size / case.parts],
        ),
        weight: Matrix::new(&inputs.weight, [case.size, case.classes]),
        bias: case.has_bias.then_some(&inputs.bias),
        targets: &inputs.targets,
        factors: &inputs.factors,
        label_smoothing: case.label_smoothing,
    }
}

fn run<E: LayerReal>(level: Level, case: &Case, inputs: &Inputs<E>) -> Results<E> {
    let nan = |len: usize| vec![E::from_f64(f64::NAN); len];
    let mut results = Results {
        loss: 0.0,
        predictions: vec![usize::MAX; case.rows],
        input: nan(inputs.input.len()),
        weight: nan(inputs.weight.len()),
        bias: nan(inputs.bias.len()),
    };
    let mut bias = case.has_bias.then_some(results.bias.as_mut_slice());
    let gradients = CrossEntropyGradients {
        input: Some(&mut results.input),
        weight: Some(&mut results.weight),
        bias: bias.take(),
    };
    let view = view(case, inputs);
    results.loss = view.compute(level, &mut results.predictions, gradients);
    let mut predictions = vec![usize::MAX; case.rows];
    let loss = view.compute(level, &mut predictions, CrossEntropyGradients::NONE);
    assert!(loss.to_bits() == results.loss.to_bits() && predictions == results.predictions);
    if !case.has_bias {
        results.bias.fill(E::ZERO);
    }
    results
}

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
