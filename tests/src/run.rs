//! A problem given to the library.

use attention_core::score::DotProductScoreConfig;
use attention_core::{AdditiveScore, Attention, Mask, ScoringFunction};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Device, Tensor};

use crate::{Array, Outcome, Problem, parameters};

/// A check of any attention: closures cannot be generic.
pub trait Check {
    /// Checks `attention`, which `problem` describes.
    fn check<S: ScoringFunction>(
        &self,
        attention: Attention<S>,
        problem: &Problem,
        device: &Device,
    );
}

/// A [`Check`] of this name, by the body of a closure.
#[macro_export]
macro_rules! check {
    ($name:ident, |$attention:ident, $problem:ident, $device:ident| $body:block) => {
        struct $name;

        impl $crate::Check for $name {
            #[rustfmt::skip]
            fn check<S: ScoringFunction>(&self, $attention: Attention<S>, $problem: &Problem, $device: &Device) $body
        }
    };
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
    /// that is the same for all queries means the same as in one call.
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
    /// Paths that know queries and mask when the keys are projected.
    pub const DIRECT: [Self; 2] = [Self::Forward, Self::ForwardWithWeights];

    /// Context, and weights where this call has them, of queries, keys and values.
    pub fn call<S: ScoringFunction, const D: usize>(
        self,
        attention: &Attention<S>,
        [q, k, v]: [Tensor<D>; 3],
        mask: &Mask,
    ) -> (Tensor<D>, Option<Tensor<D>>) {
        match self {
            Self::Forward => (attention.forward(q, k, v, mask), None),
            Self::ForwardWithWeights => {
                let output = attention.forward_with_weights(q, k, v, mask);
                (output.context, Some(output.weights))
            }
            Self::Attend => {
                let memory = attention.prepare(k, v, mask.clone());
                (attention.attend(q, &memory, Mask::none()), None)
            }
            Self::AttendWithWeights => {
                let memory = attention.prepare(k, v, mask.clone());
                let output = attention.attend_with_weights(q, &memory, Mask::none());
                (output.context, Some(output.weights))
            }
            Self::Steps => {
                let memory = attention.prepare(k, v, mask.clone());
                let axis = D - 2;
                let with_weights =
                    |query| attention.attend_with_weights(query, &memory, Mask::none());
                let step = |at: usize| {
                    let query = q.clone().narrow(axis, at, 1);
                    match at % 3 {
                        1 => with_weights(query).context,
                        _ => attention.attend(query, &memory, Mask::none()),
                    }
                };
                let steps = (0..q.dims()[axis]).map(step).collect();
                (Tensor::cat(steps, axis), None)
            }
        }
    }
}

impl Problem {
    /// The library's results, with gradients if `device` trains.
    pub fn run(&self, device: &Device, dtype: DType, path: Path) -> Outcome {
        if self.inputs.contains_key("W_q") {
            let attention = Attention::new(self.additive_score(device, dtype), 0.0);
            let outcome = self.run_with(&attention, device, dtype, path);
            outcome.into_iter().map(renamed).collect()
        } else {
            let score = DotProductScoreConfig::new().with_scale(self.scale).init();
            self.run_with(&Attention::new(score, 0.0), device, dtype, path)
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

    /// The results of `attention`, with parameters of type `dtype`, for this problem's queries, keys and values; if
    /// `device` trains, with their gradients and the parameters' gradients, `grad <path in the module>`.
    pub fn run_with<S: ScoringFunction>(
        &self,
        attention: &Attention<S>,
        device: &Device,
        dtype: DType,
        path: Path,
    ) -> Outcome {
        match self.inputs["queries"].shape.len() {
            3 => self.run_axes::<S, 3>(attention, device, dtype, path),
            _ => self.run_axes::<S, 4>(attention, device, dtype, path),
        }
    }

    fn run_axes<S: ScoringFunction, const D: usize>(
        &self,
        attention: &Attention<S>,
        device: &Device,
        dtype: DType,
        path: Path,
    ) -> Outcome {
        let mask = self.mask.mask(device);
        let input = |name: &str| self.inputs[name].leaf::<D>(device, dtype);
        let tensors = ["queries", "keys", "values"].map(input);
        self.pool(attention, tensors, &mask, path)
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
            gain: None,
        }
    }

    fn pool<S: ScoringFunction, const D: usize>(
        &self,
        attention: &Attention<S>,
        [queries, keys, values]: [Tensor<D>; 3],
        mask: &Mask,
        path: Path,
    ) -> Outcome {
        let tensors = [queries.clone(), keys.clone(), values.clone()];
        let (context, weights) = path.call(attention, tensors, mask);
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
            outcome.extend(gradients(&loss, &inputs, attention));
        }
        outcome
    }
}

/// The gradients of `loss`; zeros where it does not depend on a tensor.
fn gradients<S: ScoringFunction, const D: usize>(
    loss: &Tensor<1>,
    inputs: &[(&str, Tensor<D>)],
    attention: &Attention<S>,
) -> Outcome {
    let gradients = loss.is_tracked().then(|| loss.backward());
    let gradients = gradients.as_ref();
    let mut found = parameters::gradients(attention, gradients);
    for (name, tensor) in inputs {
        found.insert(name.to_string(), parameters::gradient(tensor, gradients));
    }
    let named = |(name, gradient)| (format!("grad {name}"), gradient);
    found.into_iter().map(named).collect()
}

/// The gradients of additive attention's parameters by the names that problems have for them.
fn renamed((name, array): (String, Array)) -> (String, Array) {
    let name = match name.as_str() {
        "grad score.query.weight" => "grad W_q".to_string(),
        "grad score.key.weight" => "grad W_k".to_string(),
        "grad score.value.weight" => "grad w_v".to_string(),
        _ => name,
    };
    (name, array)
}
