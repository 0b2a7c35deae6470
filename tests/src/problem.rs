//! Everything that goes into one attention, and its results by plain loops.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};

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

impl Sizes {
    /// The sizes of axes, and of features.
    pub const fn new(
        [batch, heads, queries, keys]: [usize; 4],
        [query_size, key_size, hiddens, value_size]: [usize; 4],
    ) -> Self {
        Self {
            batch,
            heads,
            queries,
            keys,
            query_size,
            key_size,
            hiddens,
            value_size,
        }
    }
}

/// One size changed.
macro_rules! with {
    ($($method:ident: $field:ident;)*) => {
        #[allow(missing_docs)]
        impl Sizes {
            $(#[must_use]
            pub const fn $method(mut self, $field: usize) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

with! {
    with_batch: batch;
    with_heads: heads;
    with_queries: queries;
    with_keys: keys;
    with_query_size: query_size;
    with_key_size: key_size;
    with_hiddens: hiddens;
    with_value_size: value_size;
}

/// Unequal and mostly prime.
pub const SIZES: Sizes = Sizes::new([2, 3, 5, 7], [17, 19, 11, 13]);

/// One attention: additive if the inputs include `W_q`, `W_k` and `w_v`, dot-product otherwise.
#[derive(Clone, Debug)]
pub struct Problem {
    /// `queries`, `keys`, `values`, and the parameters in Burn's layout, `[in, out]`.
    pub inputs: BTreeMap<String, Array>,
    /// The factor on dot products, where it is not the default.
    pub scale: Option<f64>,
    /// The keys that queries attend to.
    pub mask: MaskSpec,
    /// The gradient that the context receives; ones by default.
    pub grad_context: Option<Array>,
    /// The gradient that the weights receive, where they are asked for; none by default.
    pub grad_weights: Option<Array>,
}

impl Problem {
    /// Additive attention on drawn inputs.
    pub fn additive(sizes: Sizes, mask: MaskSpec) -> Self {
        let mut problem = Self::drawn(sizes, sizes.key_size, mask);
        // Small enough that tanh is not flat.
        let parameter = |seed, shape: [usize; 2]| Array::draw(seed, &shape).map(|x| x / 4.0);
        problem.set("W_q", parameter(11, [sizes.query_size, sizes.hiddens]));
        problem.set("W_k", parameter(12, [sizes.key_size, sizes.hiddens]));
        problem.set("w_v", Array::draw(13, &[sizes.hiddens, 1]));
        problem
    }

    /// Dot-product attention on drawn inputs; the keys are of `query_size`.
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

    /// Drawn queries, keys of `key_size` and values, for an attention of any kind.
    pub fn drawn(sizes: Sizes, key_size: usize, mask: MaskSpec) -> Self {
        let shape = |len, size| match sizes.heads {
            0 => vec![sizes.batch, len, size],
            heads => vec![sizes.batch, heads, len, size],
        };
        let mut problem = Self {
            inputs: BTreeMap::new(),
            scale: None,
            mask,
            grad_context: Some(Array::draw(4, &shape(sizes.queries, sizes.value_size))),
            grad_weights: None,
        };
        for (name, seed, len, size) in [
            ("queries", 1, sizes.queries, sizes.query_size),
            ("keys", 2, sizes.keys, key_size),
            ("values", 3, sizes.keys, sizes.value_size),
        ] {
            problem.set(name, Array::draw(seed, &shape(len, size)));
        }
        problem
    }

    /// Replaces an input.
    pub fn set(&mut self, name: &str, array: Array) {
        self.inputs.insert(name.to_string(), array);
    }

    /// Queries, keys and values of type f32.
    pub fn f32<const D: usize>(&self, device: &Device) -> [Tensor<D>; 3] {
        ["queries", "keys", "values"].map(|name| self.inputs[name].f32(device))
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

    /// Replaces the keys or values, `name`, where `chosen`, `[batch, heads, keys]`, is not 0.
    pub fn with_rows(&self, name: &str, chosen: &Array, number: f64) -> Self {
        let mut problem = self.clone();
        let input = &self.inputs[name];
        let rows = input.with_heads();
        let poisoned = rows.masked_fill(number, |at| chosen.at(&at[..3]) != 0.0);
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

    /// The scores, by plain loops in f64, with a heads axis.
    pub fn scores(&self) -> Array {
        let [queries, keys] = ["queries", "keys"].map(|name| self.inputs[name].with_heads());
        match self.inputs.get("W_q") {
            Some(w_q) => {
                let [w_k, w_v] = ["W_k", "w_v"].map(|name| &self.inputs[name]);
                oracle::additive_scores([&queries, &keys, w_q, w_k, w_v])
            }
            None => {
                let scale = self.scale.unwrap_or(1.0 / (queries.shape[3] as f64).sqrt());
                oracle::dot_product_scores(&queries, &keys, scale)
            }
        }
    }

    /// Context and weights, by plain loops in f64.
    pub fn solve(&self) -> Outcome {
        let values = self.inputs["values"].with_heads();
        let weights = oracle::masked_softmax(&self.scores(), &self.mask);
        let context = oracle::weighted_sum(&weights, &values);
        let rank = self.inputs["queries"].shape.len();
        let shaped = |array: Array| match rank {
            3 => array.reshape(&[array.shape[0], array.shape[2], array.shape[3]]),
            _ => array,
        };
        let outputs = [("context", context), ("weights", weights)];
        Outcome::from(outputs.map(|(name, array)| (name.to_string(), shaped(array))))
    }
}
