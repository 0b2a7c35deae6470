//! The list of operations, a Burn backend extension.

use burn::backend::backend_extension;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::paths::Operation;

use super::attention_backend::AttentionBackend;
use super::{
    AdditiveScoreInputs, AttentionInputs, DotProductScoreInputs, FillPaddingInputs,
    MaskedSoftmaxInputs, PackAdditiveKeysInputs, RotateInputs, WeightedSumInputs, additive_score,
    attention, dot_product_score, fill_padding, masked_softmax, rotate, weighted_sum,
};

/// The operations of attention pooling. Each default body runs the backend's kernel, or else the definition.
///
/// A masked pair of query and key contributes nothing, whatever its key and value hold.
///
/// Keys and values may have fewer heads than queries, `key_heads`, which divides `heads`: query head `h` reads key head
/// `h * key_heads / heads`.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "cubecl-backend"),
    Remote: cfg(feature = "remote"),
    Autodiff: cfg(feature = "autodiff"),
    Fusion: cfg(feature = "fusion"),
)]
pub trait AttentionOps: AttentionBackend {
    /// Each pair of features, turned by its angle: `(x cos - y sin, y cos + x sin)`.
    #[fusion(default)]
    fn rotate(#[extension_type] inputs: RotateInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.which::<Self, _>(Operation::Rotate, Self::KERNELS.rotate, &inputs.rows)
        {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => rotate::composed::forward(inputs),
        }
    }

    /// Zeros for the padding among keys or values, those that no query attends to.
    #[fusion(default)]
    fn fill_padding(#[extension_type] inputs: FillPaddingInputs<Self>) -> FloatTensor<Self> {
        fill_padding::composed(inputs)
    }

    /// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])`, and 0 where masked.
    #[fusion(default)]
    fn additive_score(#[extension_type] inputs: AdditiveScoreInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::KERNELS.additive_score;
        match Self::KERNELS.which::<Self, _>(Operation::AdditiveScore, kernel, &inputs.queries) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => additive_score::composed::forward(inputs),
        }
    }

    /// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:]`, and 0 where masked.
    #[fusion(default)]
    fn dot_product_score(
        #[extension_type] inputs: DotProductScoreInputs<Self>,
    ) -> FloatTensor<Self> {
        dot_product_score::composed(inputs)
    }

    /// Softmax over the keys that each query attends to; masked weights are 0, and so is a row without any key.
    #[fusion(default)]
    fn masked_softmax(#[extension_type] inputs: MaskedSoftmaxInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::KERNELS.masked_softmax;
        match Self::KERNELS.which::<Self, _>(Operation::MaskedSoftmax, kernel, &inputs.scores) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => masked_softmax::composed::forward(inputs),
        }
    }

    /// `context[b,n,i,:] = sum_j weights[b,n,i,j] values[b,n,j,:]` over the keys that are not masked.
    #[fusion(default)]
    fn weighted_sum(#[extension_type] inputs: WeightedSumInputs<Self>) -> FloatTensor<Self> {
        weighted_sum::composed(inputs)
    }

    /// Attention, fused: scores, softmax, dropout and weighted sum.
    #[fusion(default)]
    fn attention(#[extension_type] inputs: AttentionInputs<Self>) -> FloatTensor<Self> {
        let kernel = Self::KERNELS.attention;
        match Self::KERNELS.which::<Self, _>(inputs.operation(), kernel, &inputs.queries) {
            Some(kernel) => (kernel.infer)(inputs),
            None => attention::composed::forward(inputs),
        }
    }

    /// The keys as the kernel of additive [`attention`](Self::attention) reads them, once for many calls.
    /// Gradients go to the keys, not to this. Without a kernel they stay as they are.
    #[fusion(default)]
    fn pack_additive_keys(
        #[extension_type] inputs: PackAdditiveKeysInputs<Self>,
    ) -> FloatTensor<Self> {
        match Self::KERNELS.packs::<Self>(&inputs.keys) {
            Some(pack) => pack(inputs),
            None => inputs.keys,
        }
    }
}
