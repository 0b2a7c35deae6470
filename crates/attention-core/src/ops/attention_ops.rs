//! The list of operations, a Burn backend extension.

use burn::backend::backend_extension;
use burn::backend::tensor::FloatTensor;

use super::attention_backend::AttentionBackend;
use super::deferred_gradients::GradientSlot;
use super::paths::Operation;
use super::recurrent::RecurrentInputs;
use super::recurrent::states::StepsRead;
use super::{
    AdditiveAttentionInputs, AdditiveScoreInputs, CrossEntropyInputs, DotProductAttentionInputs,
    DotProductScoreInputs, FillPaddingInputs, LinearInputs, MaskedSoftmaxInputs,
    PackAdditiveKeysInputs, SelectRowsInputs, WeightedSumInputs, additive_attention,
    additive_score, cross_entropy, dot_product_attention, dot_product_score, fill_padding, linear,
    masked_softmax, recurrent, select_rows, weighted_sum,
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
    Autodiff: cfg(feature = "autodiff"),
    Fusion: cfg(feature = "fusion"),
)]
pub trait AttentionOps: AttentionBackend {
    /// Zeros for the padding among keys or values, those that no query attends to.
    #[fusion(default)]
    fn fill_padding(#[extension_type] inputs: FillPaddingInputs<Self>) -> FloatTensor<Self> {
        fill_padding::composed(inputs)
    }

    /// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])`, and 0 where masked.
    #[fusion(default)]
    fn additive_score(#[extension_type] inputs: AdditiveScoreInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.which(
            Operation::AdditiveScore,
            Self::KERNELS.additive_score,
            &inputs.queries,
        ) {
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
        match Self::KERNELS.which(
            Operation::MaskedSoftmax,
            Self::KERNELS.masked_softmax,
            &inputs.scores,
        ) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => masked_softmax::composed::forward(inputs),
        }
    }

    /// `context[b,n,i,:] = sum_j weights[b,n,i,j] values[b,n,j,:]` over the keys that are not masked.
    #[fusion(default)]
    fn weighted_sum(#[extension_type] inputs: WeightedSumInputs<Self>) -> FloatTensor<Self> {
        weighted_sum::composed(inputs)
    }

    /// Dot-product attention, fused: the score, softmax, dropout and weighted sum.
    #[fusion(default)]
    fn dot_product_attention(
        #[extension_type] inputs: DotProductAttentionInputs<Self>,
    ) -> FloatTensor<Self> {
        match Self::KERNELS.which(
            Operation::DotProductAttention,
            Self::KERNELS.dot_product_attention,
            &inputs.queries,
        ) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => dot_product_attention::composed::forward(inputs),
        }
    }

    /// Additive attention, fused: the score, softmax, dropout and weighted sum.
    #[fusion(default)]
    fn additive_attention(
        #[extension_type] inputs: AdditiveAttentionInputs<Self>,
    ) -> FloatTensor<Self> {
        match Self::KERNELS.which(
            Operation::AdditiveAttention,
            Self::KERNELS.additive_attention,
            &inputs.queries,
        ) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => additive_attention::composed::forward(inputs),
        }
    }

    /// The keys as the kernel of [`additive_attention`](Self::additive_attention) reads them, once for many calls.
    /// Gradients go to the keys, not to this. Without a kernel they stay as they are.
    #[fusion(default)]
    fn pack_additive_keys(
        #[extension_type] inputs: PackAdditiveKeysInputs<Self>,
    ) -> FloatTensor<Self> {
        match Self::KERNELS
            .pack_additive_keys
            .filter(|_| Operation::AdditiveAttention.is_on())
        {
            Some(pack) => pack(inputs),
            None => inputs.keys,
        }
    }

    /// `input weight + bias`
    #[fusion(default)]
    fn linear(#[extension_type] inputs: LinearInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.which(Operation::Linear, Self::KERNELS.linear, &inputs.input) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => linear::composed::forward(inputs),
        }
    }

    /// `table[indices]`
    #[fusion(default)]
    fn select_rows(#[extension_type] inputs: SelectRowsInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.which(
            Operation::SelectRows,
            Self::KERNELS.select_rows,
            &inputs.table,
        ) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => select_rows::composed(inputs),
        }
    }

    /// A linear layer to classes with its cross-entropy: the loss, and after it the greatest class of each row.
    #[fusion(default)]
    fn cross_entropy(#[extension_type] inputs: CrossEntropyInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.which(
            Operation::CrossEntropy,
            Self::KERNELS.cross_entropy,
            &inputs.input,
        ) {
            Some(kernel) => (kernel.infer)(inputs),
            None => cross_entropy::composed::forward(inputs),
        }
    }

    /// A recurrent layer in one direction: the states after each step.
    #[fusion(default)]
    fn recurrent(#[extension_type] inputs: RecurrentInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.which(Operation::Recurrent, Self::KERNELS.recurrent, &inputs.gates) {
            Some(kernel) => (kernel.infer)(inputs),
            None => recurrent::steps::composed(inputs),
        }
    }

    /// One of the states that [`recurrent`](Self::recurrent) made, `[1, batch, steps, hidden_size]`, after each step
    /// or after the last alone. In training its gradient may be deposited in `slot`.
    #[fusion(default)]
    fn read_state(
        states: FloatTensor<Self>,
        index: usize,
        steps: StepsRead,
        _slot: GradientSlot,
    ) -> FloatTensor<Self> {
        recurrent::states::read::<Self>(states, index, steps)
    }

    /// `rows` for one reader of several. In training its gradient goes to `source`, of which `rows` is a view of
    /// another shape, or a copy with padding cleared; it may be made from what readers deposit in `slot`.
    #[fusion(default)]
    fn read_shared(
        _source: FloatTensor<Self>,
        rows: FloatTensor<Self>,
        _slot: GradientSlot,
    ) -> FloatTensor<Self> {
        rows
    }
}
