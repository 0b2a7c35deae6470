//! The attributes of the suites' cases, by the suites' own names. One that is not here is an error.

use serde::Deserialize;

use super::Attributes;

/// The attributes of ONNX's `Attention`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OnnxAttention {
    /// 1 if query `i` attends to the keys up to its own position.
    pub is_causal: u8,
    /// The heads in the features of queries, which have three axes then.
    pub q_num_heads: Option<usize>,
    /// Those in the features of keys and values.
    pub kv_num_heads: Option<usize>,
    /// How many keys before its own position a query attends to; -1 is unlimited.
    pub left_window_size: i64,
    /// How many after.
    pub right_window_size: i64,
    /// The step from scores to weights that is an output.
    pub qk_matmul_output_mode: u8,
    /// The factor on dot products, by default `1 / sqrt(size)`.
    pub scale: Option<f64>,
    /// The soft-cap; 0 is none.
    pub softcap: f64,
    /// ONNX's number of the type of the softmax.
    pub softmax_precision: Option<u8>,
}

impl Default for OnnxAttention {
    fn default() -> Self {
        Self {
            is_causal: 0,
            q_num_heads: None,
            kv_num_heads: None,
            left_window_size: -1,
            right_window_size: -1,
            qk_matmul_output_mode: 0,
            scale: None,
            softcap: 0.0,
            softmax_precision: None,
        }
    }
}

/// The attributes of ONNX's `RotaryEmbedding`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OnnxRotaryEmbedding {
    /// 1 if pairs are neighbouring features, 0 if they are of both halves.
    pub interleaved: u8,
    /// The heads in the features, which have three axes then.
    pub num_heads: Option<usize>,
    /// The number of features that are turned; 0 is all.
    pub rotary_embedding_dim: usize,
}

/// The arguments of PyTorch's `scaled_dot_product_attention`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TorchAttention {
    /// Whether query `i` attends to the keys `0 ..= i`.
    pub is_causal: bool,
    /// A causal mask as a tensor subclass.
    pub attn_bias: Option<CausalBias>,
    /// The factor on dot products, by default `1 / sqrt(size)`.
    pub scale: Option<f64>,
    /// Whether there may be fewer heads of keys and values.
    pub enable_gqa: bool,
    /// The probability to drop a weight.
    pub dropout_p: f64,
}

/// The corner in which the diagonal of a causal mask ends.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CausalBias {
    /// The first query stands at the first key.
    UpperLeft,
    /// The last query stands at the last key.
    LowerRight,
}

/// The arguments of PyTorch's `nn.MultiheadAttention` and its `forward`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TorchMultiHead {
    /// The number of heads.
    pub num_heads: usize,
    /// Whether examples come before positions.
    pub batch_first: bool,
    /// Whether projections have a bias.
    pub bias: bool,
    /// Whether a learned key and value, `bias_k` and `bias_v`, are attended to.
    pub add_bias_kv: bool,
    /// Whether a key and value of zeros are attended to.
    pub add_zero_attn: bool,
    /// Whether weights are an output.
    pub need_weights: bool,
    /// Whether they are averaged over the heads.
    pub average_attn_weights: bool,
    /// Whether the mask is known to be causal.
    pub is_causal: bool,
    /// The probability to drop a weight.
    pub dropout: f64,
}

impl Default for TorchMultiHead {
    fn default() -> Self {
        Self {
            num_heads: 1,
            batch_first: false,
            bias: true,
            add_bias_kv: false,
            add_zero_attn: false,
            need_weights: true,
            average_attn_weights: true,
            is_causal: false,
            dropout: 0.0,
        }
    }
}

impl Attributes for OnnxAttention {
    const SUITE: &'static str = "onnx_attention";
}

impl Attributes for OnnxRotaryEmbedding {
    const SUITE: &'static str = "onnx_rotary_embedding";
}

impl Attributes for TorchAttention {
    const SUITE: &'static str = "torch_attention";
}

impl Attributes for TorchMultiHead {
    const SUITE: &'static str = "torch_multi_head";
}
