//! A problem given to the library.

use attention_core::{AdditiveScore, Attention, DotProductScoreConfig, Mask, ScoringFunction};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Device, Tensor};

use crate::{Array, Outcome, Problem};

/// A check of any attention: closures cannot be generic.
pub trait Check {
    /// Checks `attention`, which is that of `problem`.
    fn check<S: ScoringFunction>(
        &self,
        attention: Attention<S>,
        problem: &Problem,
        device: &Device,
    );
}

/// Which of the equivalent calls computes the context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Path {
    /// `forward`.
    Forward,
    /// `forward_with_weights`.
    ForwardWithWeights,
    /// `prepare`, then `attend`.
    Attend,
    /// `prepare`, then `attend_with_weights`.
    AttendWithWeights,
    /// `prepare`, then one call for each query as a decoder makes them, every third one `attend_with_weights`. A mask
    /// with one row for all queries means the same as in one call.
    Steps,
}

impl Path {
    /// All that take any mask.
    pub const ALL: [Self; 4] = [
        Self::Forward,
        Self::ForwardWithWeights,
        Self::Attend,
        Self::AttendWithWeights,
    ];
    /// Those that know queries and mask when the keys are projected.
    pub const DIRECT: [Self; 2] = [Self::Forward, Self::ForwardWithWeights];
}

impl Problem {
    /// What the library computes, with gradients if `device` trains.
    pub fn run(&self, device: &Device, dtype: DType, path: Path) -> Outcome {
        match self.inputs["queries"].shape.len() {
            3 => self.run_axes::<3>(device, dtype, path),
            _ => self.run_axes::<4>(device, dtype, path),
        }
    }

    /// Runs a check on the attention of this problem, in f32.
    pub fn with_attention(&self, device: &Device, dropout: f64, check: &impl Check) {
        if self.inputs.contains_key("W_q") {
            let score = self.additive_score(device, DType::F32);
            check.check(Attention::new(score, dropout), self, device);
        } else {
            let score = DotProductScoreConfig::new().with_scale(self.scale).init();
            check.check(Attention::new(score, dropout), self, device);
        }
    }

    fn run_axes<const D: usize>(&self, device: &Device, dtype: DType, path: Path) -> Outcome {
        if self.inputs.contains_key("W_q") {
            let score = self.additive_score(device, dtype);
            let parameters = [
                ("W_q", score.query.weight.val()),
                ("W_k", score.key.weight.val()),
                ("w_v", score.value.weight.val()),
            ];
            let attention = Attention::new(score, 0.0);
            self.run_with::<_, D>(&attention, &parameters, (device, dtype), path)
        } else {
            let score = DotProductScoreConfig::new().with_scale(self.scale).init();
            let attention = Attention::new(score, 0.0);
            self.run_with::<_, D>(&attention, &[], (device, dtype), path)
        }
    }

    /// What any `attention` makes of the queries, keys and values, with gradients if `device` trains, those of
    /// `parameters` included.
    pub fn run_with<S: ScoringFunction, const D: usize>(
        &self,
        attention: &Attention<S>,
        parameters: &[(&str, Tensor<2>)],
        (device, dtype): (&Device, DType),
        path: Path,
    ) -> Outcome {
        let input = |name: &str| {
            let tensor = self.inputs[name].tensor::<D>(device, dtype);
            if device.is_autodiff() {
                tensor.require_grad()
            } else {
                tensor
            }
        };
        let tensors = ["queries", "keys", "values"].map(input);
        self.pool(
            attention,
            tensors,
            parameters,
            &self.mask.mask(device),
            path,
        )
    }

    /// The score with this problem's parameters.
    pub fn additive_score(&self, device: &Device, dtype: DType) -> AdditiveScore {
        let linear = |name: &str| Linear {
            weight: Param::from_tensor(self.inputs[name].tensor(device, dtype)),
            bias: None,
        };
        AdditiveScore {
            query: linear("W_q"),
            key: linear("W_k"),
            value: linear("w_v"),
        }
    }

    fn pool<S: ScoringFunction, const D: usize>(
        &self,
        attention: &Attention<S>,
        [queries, keys, values]: [Tensor<D>; 3],
        parameters: &[(&str, Tensor<2>)],
        mask: &Mask,
        path: Path,
    ) -> Outcome {
        let (q, k, v) = (queries.clone(), keys.clone(), values.clone());
        let (context, weights) = match path {
            Path::Forward => (attention.forward(q, k, v, mask), None),
            Path::ForwardWithWeights => {
                let output = attention.forward_with_weights(q, k, v, mask);
                (output.context, Some(output.weights))
            }
            Path::Attend => (
                attention.attend(q, &attention.prepare(k, v, mask.clone())),
                None,
            ),
            Path::AttendWithWeights => {
                let memory = attention.prepare(k, v, mask.clone());
                let output = attention.attend_with_weights(q, &memory);
                (output.context, Some(output.weights))
            }
            Path::Steps => {
                let memory = attention.prepare(k, v, mask.clone());
                let axis = D - 2;
                let step = |at: usize| {
                    let query = q.clone().narrow(axis, at, 1);
                    match at % 3 {
                        1 => attention.attend_with_weights(query, &memory).context,
                        _ => attention.attend(query, &memory),
                    }
                };
                (
                    Tensor::cat((0..q.dims()[axis]).map(step).collect(), axis),
                    None,
                )
            }
        };
        let mut outcome = Outcome::from([("context".into(), Array::read(context.clone()))]);
        if let Some(weights) = &weights {
            outcome.insert("weights".into(), Array::read(weights.clone()));
        }
        if context.device().is_autodiff() {
            let weighted = |output: Tensor<D>, gradient: &Array| {
                let gradient = gradient.tensor::<D>(&output.device(), output.dtype());
                (output * gradient).sum()
            };
            let ones = Array::full(&context.dims(), 1.0);
            let mut loss = weighted(context, self.grad_context.as_ref().unwrap_or(&ones));
            if let (Some(weights), Some(gradient)) = (weights, &self.grad_weights) {
                loss = loss + weighted(weights, gradient);
            }
            let inputs = [("queries", queries), ("keys", keys), ("values", values)];
            outcome.extend(gradients(&loss, &inputs, parameters));
        }
        outcome
    }
}

/// The gradients of `loss`; zeros where it does not depend on a tensor.
fn gradients<const D: usize>(
    loss: &Tensor<1>,
    inputs: &[(&str, Tensor<D>)],
    parameters: &[(&str, Tensor<2>)],
) -> Outcome {
    fn entry<const D: usize>(
        name: &str,
        tensor: &Tensor<D>,
        gradient: Option<Tensor<D>>,
    ) -> (String, Array) {
        let array = match gradient {
            Some(gradient) => Array::read(gradient),
            None => Array::full(&tensor.dims(), 0.0),
        };
        (format!("grad {name}"), array)
    }
    let gradients = loss.is_tracked().then(|| loss.backward());
    let of = gradients.as_ref();
    let inputs = inputs.iter().map(|(name, tensor)| {
        entry(
            name,
            tensor,
            of.and_then(|gradients| tensor.grad(gradients)),
        )
    });
    let parameters = parameters.iter().map(|(name, tensor)| {
        entry(
            name,
            tensor,
            of.and_then(|gradients| tensor.grad(gradients)),
        )
    });
    inputs.chain(parameters).collect()
}
