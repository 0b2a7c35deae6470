//! Linear layers, rows of a table, and the loss of a linear layer to classes.

use attention_oracle::{CrossEntropy, linear_backward, select_rows_backward};
use burn::tensor::{Int, Tensor, TensorData};
use burn_fused_layers::{
    ClassTargets, EmbeddingTable, PackedLinear, linear, linear_cross_entropy,
    linear_cross_entropy_of_parts,
};

use crate::case::Sizes;
use crate::check::{Check, Input, Outcome, Output, draw};

/// The number of calls that share a weight.
const CALLS: usize = 3;

/// The checks, with as many rows as queries.
pub(crate) fn checks(sizes: Sizes) -> Vec<Check> {
    let [input, weight, bias] = layer_inputs(sizes);
    let inputs = || [input.clone(), weight.clone()];
    let with_bias = || [input.clone(), weight.clone(), bias.clone()];
    let mut checks = vec![
        layer("with bias", with_bias(), sizes, linear),
        layer("without bias", inputs(), sizes, linear),
        layer("several calls", with_bias(), sizes, in_calls),
        embedding("one call", sizes, 1),
        embedding("several calls", sizes, CALLS),
    ];
    let case = Loss::new("weights of classes", sizes);
    let [parts, weight, bias] = case.inputs();
    checks.push(case.check([parts.clone(), weight.clone(), bias]));
    checks.push(Loss::new("without bias", sizes).check([parts, weight]));
    for case in [
        Loss {
            has_ignored_rows: true,
            ..Loss::new("ignored rows", sizes)
        },
        Loss {
            parts: 2,
            ..Loss::new("features in parts", sizes)
        },
    ] {
        checks.push(case.check(case.inputs()));
    }
    checks
}

/// Input, weight and bias of a layer.
fn layer_inputs(sizes: Sizes) -> [Input; 3] {
    let (rows, size, out) = (sizes.queries, sizes.size, sizes.value_size);
    [
        Input::drawn(11, [1, 1, rows, size], 1.0),
        Input::drawn(12, [1, 1, size, out], 0.3),
        Input::drawn(13, [1, 1, 1, out], 0.3),
    ]
}

/// A layer with an input, a weight and an optional bias.
fn layer<const N: usize>(
    case: &'static str,
    inputs: [Input; N],
    sizes: Sizes,
    forward: impl Fn(Tensor<2>, Tensor<2>, Option<Tensor<1>>) -> Tensor<2> + 'static,
) -> Check {
    let (rows, size, out) = (sizes.queries, sizes.size, sizes.value_size);
    Check::new(
        ["linear layer", case],
        inputs,
        draw(14, [1, 1, rows, out], 1.0),
        move |inputs: [&[f64]; N], given| {
            let zeros = vec![0.0; out];
            let bias = inputs.get(2).copied().unwrap_or(&zeros);
            let inputs = [inputs[0], inputs[1], bias];
            let gradients = linear_backward(inputs, given.grad_output);
            let output = attention_oracle::linear(inputs);
            Outcome::new(output, gradients.into_iter().take(N))
        },
        move |inputs: [Tensor<4>; N]| {
            let bias = inputs.get(2).map(|bias| bias.clone().reshape([out]));
            let input = inputs[0].clone().reshape([rows, size]);
            let weight = inputs[1].clone().reshape([size, out]);
            forward(input, weight, bias).reshape([1, 1, rows, out])
        },
    )
}

/// The output of several calls that share the weight, each for some rows.
fn in_calls(input: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let layer = PackedLinear::new(weight, bias);
    let rows = input.chunk(CALLS, 0).into_iter();
    Tensor::cat(rows.map(|rows| layer.forward(rows)).collect(), 0)
}

/// Selects rows of a table of `keys` rows, some of them several times, in `calls` calls.
fn embedding(case: &'static str, sizes: Sizes, calls: usize) -> Check {
    let (count, rows, size) = (sizes.queries, sizes.keys, sizes.size);
    let indices: Vec<usize> = (0..count).map(|at| at * at % rows).collect();
    let on_device = indices.clone();
    Check::new(
        ["embedding", case],
        [Input::drawn(15, [1, 1, rows, size], 1.0)],
        draw(16, [1, 1, count, size], 1.0),
        move |[table], given| {
            let gradient = select_rows_backward(table, size, &indices, given.grad_output);
            let selected = attention_oracle::select_rows(table, size, &indices);
            Outcome::new(selected, [gradient])
        },
        move |[table]| {
            let indices = classes(&on_device, &table);
            let table = EmbeddingTable::new(table.reshape([rows, size]));
            let selected = indices.chunk(calls, 0).into_iter();
            let selected = selected.map(|indices| table.rows(indices)).collect();
            Tensor::cat(selected, 0).reshape([1, 1, count, size])
        },
    )
}

/// A case of cross-entropy, with as many classes as keys.
#[derive(Clone, Copy)]
struct Loss {
    name: &'static str,
    sizes: Sizes,
    /// The number of parts in which the features of a row come.
    parts: usize,
    has_ignored_rows: bool,
}

impl Loss {
    fn new(name: &'static str, sizes: Sizes) -> Self {
        Self {
            name,
            sizes,
            parts: 1,
            has_ignored_rows: false,
        }
    }

    /// Features, weight and bias.
    fn inputs(&self) -> [Input; 3] {
        let (parts, size, classes) = (self.parts, self.sizes.size, self.sizes.keys);
        [
            Input::drawn(17, [1, parts, self.sizes.queries, size], 1.0),
            Input::drawn(18, [1, 1, parts * size, classes], 0.3),
            Input::drawn(19, [1, 1, 1, classes], 0.3),
        ]
    }

    fn targets(&self) -> Vec<usize> {
        let rows = 0..self.sizes.queries;
        rows.map(|row| (row * 7 + 3) % self.sizes.keys).collect()
    }

    /// The factor on the loss of each row: a weight of its class, or 0 if the row is ignored.
    fn factors(&self) -> Vec<f64> {
        let factor = |(row, class): (usize, usize)| {
            if self.has_ignored_rows && row % 3 == 1 {
                0.0
            } else {
                0.25 * (1 + class % 4) as f64
            }
        };
        self.targets().into_iter().enumerate().map(factor).collect()
    }

    /// The check with features, weight and an optional bias.
    fn check<const N: usize>(self, inputs: [Input; N]) -> Check {
        let (rows, size) = (self.sizes.queries, self.sizes.size);
        let (width, num_classes) = (self.parts * size, self.sizes.keys);
        Check::new(
            ["cross-entropy", self.name],
            inputs,
            vec![0.5],
            move |inputs: [&[f64]; N], given| {
                let zeros = vec![0.0; num_classes];
                let bias = inputs.get(2).copied().unwrap_or(&zeros);
                let inputs = [&self.joined(inputs[0])[..], inputs[1], bias];
                let logits = attention_oracle::linear(inputs);
                let loss = CrossEntropy {
                    targets: &self.targets(),
                    factors: &self.factors(),
                    label_smoothing: 0.0,
                };
                let grad_logits = loss.backward(&logits, given.grad_output[0]);
                let [grad_features, grad_weight, grad_bias] = linear_backward(inputs, &grad_logits);
                let gradients = [self.split(&grad_features), grad_weight, grad_bias];
                let predictions = loss.predictions(&logits).into_iter();
                Outcome {
                    exact: predictions.map(|class| class as f64).collect(),
                    ..Outcome::new(vec![loss.loss(&logits)], gradients.into_iter().take(N))
                }
            },
            move |inputs: [Tensor<4>; N]| {
                let parts = inputs[0].clone();
                let targets = classes(&self.targets(), &parts);
                let factors = TensorData::new(self.factors(), [rows]);
                let factors = Tensor::from_data(factors, (&parts.device(), parts.dtype()));
                let targets = ClassTargets::new(targets, factors);
                let weight = inputs[1].clone().reshape([width, num_classes]);
                let bias = inputs.get(2).cloned();
                let bias = bias.map(|bias| bias.reshape([num_classes]));
                let (loss, predictions) = match self.parts {
                    1 => {
                        let input = parts.reshape([rows, size]);
                        linear_cross_entropy(input, weight, bias, targets)
                    }
                    count => {
                        let parts = parts.reshape([count, rows, size]);
                        linear_cross_entropy_of_parts(parts, weight, bias, targets)
                    }
                };
                Output {
                    tensor: loss.reshape([1, 1, 1, 1]),
                    exact: Some(predictions),
                }
            },
        )
    }

    /// Features `[parts, rows, size]` as `[rows, parts * size]`.
    fn joined(&self, parts: &[f64]) -> Vec<f64> {
        let mut joined = vec![0.0; parts.len()];
        for (at, place) in self.places().enumerate() {
            joined[place] = parts[at];
        }
        joined
    }

    /// The reverse of [`joined`](Self::joined).
    fn split(&self, joined: &[f64]) -> Vec<f64> {
        self.places().map(|place| joined[place]).collect()
    }

    /// The index in `[rows, parts * size]` of each element of `[parts, rows, size]`.
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { parts, sizes, .. } = *self;
        let (rows, size) = (sizes.queries, sizes.size);
        (0..parts * rows * size).map(move |at| {
            let (part, row, s) = (at / (rows * size), at / size % rows, at % size);
            (row * parts + part) * size + s
        })
    }
}

/// Indices on the device of `like`.
fn classes(indices: &[usize], like: &Tensor<4>) -> Tensor<1, Int> {
    let indices: Vec<i64> = indices.iter().map(|&index| index as i64).collect();
    let len = indices.len();
    Tensor::from_data(TensorData::new(indices, [len]), &like.device())
}
