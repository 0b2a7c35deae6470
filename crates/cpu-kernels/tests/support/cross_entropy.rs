//! Cases of the cross-entropy after a linear layer, and its definition by plain loops in `f64`.

use cpu_kernels::{CrossEntropyGradients, CrossEntropyInputs, LayerReal, Level, Matrix};

use crate::random::Random;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) rows: usize,
    /// The features of all parts together.
    pub(crate) size: usize,
    /// In how many parts the features of a row come.
    pub(crate) parts: usize,
    pub(crate) classes: usize,
    pub(crate) has_bias: bool,
    /// The factor of the logits.
    pub(crate) spread: f64,
    pub(crate) label_smoothing: f64,
}

pub(crate) struct Inputs<E> {
    pub(crate) input: Vec<E>,
    pub(crate) weight: Vec<E>,
    pub(crate) bias: Vec<E>,
    pub(crate) targets: Vec<usize>,
    pub(crate) factors: Vec<E>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results<E> {
    pub(crate) loss: f64,
    pub(crate) predictions: Vec<usize>,
    pub(crate) input: Vec<E>,
    pub(crate) weight: Vec<E>,
    pub(crate) bias: Vec<E>,
}

impl Case {
    pub(crate) fn inputs<E: LayerReal>(&self) -> Inputs<E> {
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
    pub(crate) fn place(&self, row: usize, feature: usize) -> usize {
        let size = self.size / self.parts;
        (feature / size * self.rows + row) * size + feature % size
    }

    /// By plain loops.
    pub(crate) fn expected(&self, inputs: &Inputs<f64>) -> Results<f64> {
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

pub(crate) fn view<'a, E: LayerReal>(
    case: &Case,
    inputs: &'a Inputs<E>,
) -> CrossEntropyInputs<'a, E> {
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

pub(crate) fn run<E: LayerReal>(level: Level, case: &Case, inputs: &Inputs<E>) -> Results<E> {
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
