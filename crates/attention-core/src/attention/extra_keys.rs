//! Learned keys and values beside the keys and values of a call.

use burn::module::{Module, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::parameter::value;

/// Learned keys and values that every query attends to, PyTorch's `bias_k` and `bias_v`, where a call has none; see
/// [`AttentionOptions::extra_keys`](crate::AttentionOptions::extra_keys).
#[derive(Module, Debug)]
pub struct ExtraKeys {
    /// The keys as the score compares them, `[key_heads, n, size]`.
    pub keys: Param<Tensor<3>>,
    /// Their values, `[key_heads, n, value_size]`.
    pub values: Param<Tensor<3>>,
}

impl ExtraKeys {
    /// `number` extra keys and values for each of `heads` key heads, drawn as PyTorch draws them (Glorot & Bengio
    /// 2010).
    ///
    /// # Panics
    /// If a size or a number is 0.
    pub fn new(heads: usize, number: usize, sizes: [usize; 2], device: &Device) -> Self {
        let [keys, values] = sizes.map(|size| {
            let shape = [heads, number, size];
            assert!(
                !shape.contains(&0),
                "ExtraKeys: [key_heads, n, size] of at least 1 each expected, got {shape:?}"
            );
            let all = heads * size;
            Initializer::XavierNormal { gain: 1.0 }.init_with(shape, Some(all), Some(all), device)
        });
        Self { keys, values }
    }

    /// The extra keys and values as a call's options hold them.
    pub(crate) fn of_a_call(&self) -> [Tensor<4>; 2] {
        [&self.keys, &self.values].map(|rows| value(rows).unsqueeze())
    }
}
