//! Cases of the cross-entropy after a linear layer.

use attention_oracle::{CrossEntropy, linear, linear_backward};
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

/// A call's results and the gradients of input, weight and bias, each empty if it is not wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results<E> {
    pub(crate) loss: f64,
    pub(crate) predictions: Vec<usize>,
    pub(crate) gradients: [Vec<E>; 3],
}

impl Case {
    pub(crate) fn inputs<E: LayerReal>(&self) -> Inputs<E> {
        let mut random = Random::new(7);
        // In f32's precision for both types.
        let mut draw = |len: usize, factor: f64| -> Vec<E> {
            let element = |_| f64::from((random.normal::<f64>() * factor) as f32);
            (0..len).map(element).map(E::from_f64).collect()
        };
        let of_size = self.spread / (self.size as f64).sqrt();
        // Every third row does not count.
        let factor = |row| match row % 3 {
            2 => 0.0,
            _ => 0.5 + row as f64 / 64.0,
        };
        Inputs {
            input: draw(self.rows * self.size, 1.0),
            weight: draw(self.size * self.classes, of_size),
            bias: draw(self.classes, self.spread),
            targets: (0..self.rows).map(|row| row * 31 % self.classes).collect(),
            factors: (0..self.rows).map(|row| E::from_f64(factor(row))).collect(),
        }
    }

    /// All gradients that there are.
    pub(crate) fn wanted(&self) -> [bool; 3] {
        [true, true, self.has_bias]
    }

    /// By plain loops.
    pub(crate) fn expected(&self, inputs: &Inputs<f64>) -> Results<f64> {
        let part = self.size / self.parts;
        let place = |at: usize| {
            let (row, feature) = (at / self.size, at % self.size);
            (feature / part * self.rows + row) * part + feature % part
        };
        let places: Vec<usize> = (0..inputs.input.len()).map(place).collect();
        let input: Vec<f64> = places.iter().map(|&place| inputs.input[place]).collect();
        let zeros = vec![0.0; self.classes];
        let bias = if self.has_bias { &inputs.bias } else { &zeros };
        let layer = [&input[..], &inputs.weight, bias];
        let logits = linear(layer);
        let loss = CrossEntropy {
            targets: &inputs.targets,
            factors: &inputs.factors,
            label_smoothing: self.label_smoothing,
        };
        let [of_rows, of_weight, of_bias] = linear_backward(layer, &loss.backward(&logits, 1.0));
        let of_bias = if self.has_bias { of_bias } else { Vec::new() };
        let mut of_input = vec![0.0; of_rows.len()];
        for (gradient, place) in of_rows.into_iter().zip(places) {
            of_input[place] = gradient;
        }
        Results {
            loss: loss.loss(&logits),
            predictions: loss.predictions(&logits),
            gradients: [of_input, of_weight, of_bias],
        }
    }

    pub(crate) fn view<'a, E: LayerReal>(&self, of: &'a Inputs<E>) -> CrossEntropyInputs<'a, E> {
        let input = [self.parts * self.rows, self.size / self.parts];
        CrossEntropyInputs {
            input: Matrix::new(&of.input, input),
            weight: Matrix::new(&of.weight, [self.size, self.classes]),
            bias: self.has_bias.then_some(&of.bias),
            targets: &of.targets,
            factors: &of.factors,
            label_smoothing: self.label_smoothing,
        }
    }

    /// By the kernel.
    pub(crate) fn run<E: LayerReal>(
        &self,
        level: Level,
        inputs: &Inputs<E>,
        wanted: [bool; 3],
    ) -> Results<E> {
        let lens = [inputs.input.len(), inputs.weight.len(), inputs.bias.len()];
        let nan = |n: usize| vec![E::from_f64(f64::NAN); if wanted[n] { lens[n] } else { 0 }];
        let mut predictions = vec![usize::MAX; self.rows];
        let mut gradients = [0, 1, 2].map(nan);
        let [input, weight, bias] = &mut gradients;
        let of = CrossEntropyGradients {
            input: wanted[0].then_some(input),
            weight: wanted[1].then_some(weight),
            bias: wanted[2].then_some(bias),
        };
        Results {
            loss: self.view(inputs).compute(level, &mut predictions, of),
            predictions,
            gradients,
        }
    }
}
