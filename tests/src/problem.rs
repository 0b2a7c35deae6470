//! Everything that goes into one attention, and everything that comes out.

use std::collections::BTreeMap;

use attention_core::{
    AdditiveScore, Attention, DotProductScoreConfig, Mask, ScoringFunction,
};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Device, Tensor};

use crate::{Array, MaskSpec, oracle};

/// Named results: `context`, perhaps `weights`, and on a training device `grad <input>` for each input.
pub type Outcome = BTreeMap<String, Array>;

/// The sizes of a problem, all different where it matters.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Sizes {
    pub batch: usize,
    /// 0 for tensors without a heads axis.
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub query_size: usize,
    pub key_size: usize,
    pub hiddens: usize,
    pub value_size: usize,
}

/// Unequal and mostly prime.
pub const SIZES: Sizes = Sizes {
    batch: 2,
    heads: 3,
    queries: 5,
    keys: 7,
    query_size: 17,
    key_size: 19,
    hiddens: 11,
    value_size: 13,
};

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
}

impl Path {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Forward, Self::ForwardWithWeights, Self::Attend, Self::AttendWithWeights];
    /// Those that know queries and mask when the keys are projected.
    pub const DIRECT: [Self; 2] = [Self::Forward, Self::ForwardWithWeights];
}

/// One attention: additive if the inputs include `W_q`, `W_k` and `w_v`, dot-product otherwise.
#[derive(Clone, Debug)]
pub struct Problem {
    /// `queries`, `keys`, `values`, and the parameters in Burn's layout, `[in, out]`.
    pub inputs: BTreeMap<String, Array>,
    /// The factor on dot products, where it is not the default.
    pub scale: Option<f64>,
    /// Which keys queries see.
    pub mask: MaskSpec,
    /// The gradient that the context receives; ones by default.
    pub grad_context: Option<Array>,
    /// The gradient that the weights receive, where they are asked for; none by default.
    pub grad_weights: Option<Array>,
}

impl Problem {
    /// Additive attention on drawn numbers.
    pub fn additive(sizes: Sizes, mask: MaskSpec) -> Self {
        let mut problem = Self::drawn(sizes, sizes.key_size, mask);
        // Small enough that tanh is not flat.
        let parameter = |seed, shape: [usize; 2]| Array::draw(seed, &shape).map(|number| number / 4.0);
        problem.set("W_q", parameter(11, [sizes.query_size, sizes.hiddens]));
        problem.set("W_k", parameter(12, [sizes.key_size, sizes.hiddens]));
        problem.set("w_v", Array::draw(13, &[sizes.hiddens, 1]));
        problem
    }

    /// Dot-product attention on drawn numbers; the keys are of `query_size`.
    pub fn dot_product(sizes: Sizes, mask: MaskSpec) -> Self {
        Self::drawn(sizes, sizes.query_size, mask)
    }

    /// Both attentions, by name.
    pub fn both(sizes: Sizes, mask: &MaskSpec) -> [(&'static str, Self); 2] {
        [
            ("additive", Self::additive(sizes, mask.clone())),
            ("dot-product", Self::dot_product(sizes, mask.clone())),
        ]
    }

    fn drawn(sizes: Sizes, key_size: usize, mask: MaskSpec) -> Self {
        let shape = |rows, size| match sizes.heads {
            0 => vec![sizes.batch, rows, size],
            heads => vec![sizes.batch, heads, rows, size],
        };
        let mut problem = Self {
            inputs: BTreeMap::new(),
            scale: None,
            mask,
            grad_context: Some(Array::draw(4, &shape(sizes.queries, sizes.value_size))),
            grad_weights: None,
        };
        problem.set("queries", Array::draw(1, &shape(sizes.queries, sizes.query_size)));
        problem.set("keys", Array::draw(2, &shape(sizes.keys, key_size)));
        problem.set("values", Array::draw(3, &shape(sizes.keys, sizes.value_size)));
        problem
    }

    /// Replaces an input.
    pub fn set(&mut self, name: &str, array: Array) {
        self.inputs.insert(name.to_string(), array);
    }

    /// With another gradient for the weights.
    pub fn with_grad_weights(mut self, seed: u64) -> Self {
        let mut shape = self.inputs["queries"].shape.clone();
        let rank = shape.len();
        shape[rank - 1] = self.inputs["keys"].shape[rank - 2];
        self.grad_weights = Some(Array::draw(seed, &shape));
        self
    }

    /// `[batch, heads, queries, keys]`.
    pub fn scores_shape(&self) -> [usize; 4] {
        let queries = self.inputs["queries"].with_heads().shape;
        let keys = self.inputs["keys"].with_heads().shape;
        [queries[0], queries[1], queries[2], keys[2]]
    }

    /// Replaces the rows of `name` (keys or values) where `chosen`, `[batch, heads, keys]`, is not 0.
    pub fn with_rows(&self, name: &str, chosen: &Array, number: f64) -> Self {
        let mut problem = self.clone();
        let input = &self.inputs[name];
        let rows = input.with_heads();
        let poisoned = Array::from_fn(&rows.shape, |at| match chosen.at(&at[..3]) != 0.0 {
            true => number,
            false => rows.at(at),
        });
        problem.set(name, poisoned.reshape(&input.shape));
        problem
    }

    /// The sum over outputs times the gradients they receive, of a finished run.
    pub fn loss(&self, outcome: &Outcome) -> f64 {
        let part = |name: &str, gradient: &Option<Array>| match (gradient, outcome.get(name)) {
            (Some(gradient), Some(output)) => output.dot(gradient),
            _ => 0.0,
        };
        part("context", &self.grad_context) + part("weights", &self.grad_weights)
    }

    /// What the library computes, with gradients if `device` trains.
    pub fn run(&self, device: &Device, dtype: DType, path: Path) -> Outcome {
        match self.inputs["queries"].shape.len() {
            3 => self.run_axes::<3>(device, dtype, path),
            _ => self.run_axes::<4>(device, dtype, path),
        }
    }

    /// Context and weights, by plain loops in f64.
    pub fn solve(&self) -> Outcome {
        let [queries, keys, values] =
            ["queries", "keys", "values"].map(|name| self.inputs[name].with_heads());
        let scores = match self.inputs.get("W_q") {
            Some(w_q) => {
                let [w_k, w_v] = ["W_k", "w_v"].map(|name| &self.inputs[name]);
                oracle::additive_scores(&queries, &keys, w_q, w_k, w_v)
            }
            None => {
                let scale = self.scale.unwrap_or(1.0 / (queries.shape[3] as f64).sqrt());
                oracle::dot_product_scores(&queries, &keys, scale)
            }
        };
        let weights = oracle::masked_softmax(&scores, &self.mask);
        let context = oracle::weighted_sum(&weights, &values);
        let rank = self.inputs["queries"].shape.len();
        let shaped = |array: Array| match rank {
            3 => array.reshape(&[array.shape[0], array.shape[2], array.shape[3]]),
            _ => array,
        };
        let outputs = [("context", context), ("weights", weights)];
        outputs.map(|(name, array)| (name.to_string(), shaped(array))).into()
    }

    fn run_axes<const D: usize>(&self, device: &Device, dtype: DType, path: Path) -> Outcome {
        let mask = self.mask.mask(device);
        let input = |name: &str| {
            let tensor = self.inputs[name].tensor::<D>(device, dtype);
            if device.is_autodiff() { tensor.require_grad() } else { tensor }
        };
        let tensors = ["queries", "keys", "values"].map(input);
        if self.inputs.contains_key("W_q") {
            let score = self.additive_score(device, dtype);
            let parameters = [
                ("W_q", score.query.weight.val()),
                ("W_k", score.key.weight.val()),
                ("w_v", score.value.weight.val()),
            ];
            self.pool(&Attention::new(score, 0.0), tensors, &parameters, &mask, path)
        } else {
            let score = DotProductScoreConfig::new().with_scale(self.scale).init();
            self.pool(&Attention::new(score, 0.0), tensors, &[], &mask, path)
        }
    }

    /// The score with this problem's parameters.
    pub fn additive_score(&self, device: &Device, dtype: DType) -> AdditiveScore {
        let linear = |name: &str| Linear {
            weight: Param::from_tensor(self.inputs[name].tensor(device, dtype)),
            bias: None,
        };
        AdditiveScore { query: linear("W_q"), key: linear("W_k"), value: linear("w_v") }
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
            Path::Attend => (attention.attend(q, &attention.prepare(k, v, mask.clone())), None),
            Path::AttendWithWeights => {
                let memory = attention.prepare(k, v, mask.clone());
                let output = attention.attend_with_weights(q, &memory);
                (output.context, Some(output.weights))
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
    fn entry<const D: usize>(name: &str, tensor: &Tensor<D>, gradient: Option<Tensor<D>>) -> (String, Array) {
        let array = match gradient {
            Some(gradient) => Array::read(gradient),
            None => Array::full(&tensor.dims(), 0.0),
        };
        (format!("grad {name}"), array)
    }
    let gradients = loss.is_tracked().then(|| loss.backward());
    let of = gradients.as_ref();
    let inputs = inputs
        .iter()
        .map(|(name, tensor)| entry(name, tensor, of.and_then(|gradients| tensor.grad(gradients))));
    let parameters = parameters
        .iter()
        .map(|(name, tensor)| entry(name, tensor, of.and_then(|gradients| tensor.grad(gradients))));
    inputs.chain(parameters).collect()
}
