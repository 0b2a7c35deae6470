//! The operations of attention, and what runs them on each backend.
//!
//! [`AttentionOps`] is a Burn backend extension, and this file its list of operations. Each operation has a folder, or
//! a file where there is little of it:
//!
//! | part | what it is |
//! | --- | --- |
//! | inputs struct | tensors and options by name, the mask resolved; every layer below passes it on unchanged |
//! | checked function | from `Tensor`s to the inputs struct: checks shapes, answers sizes of 0, dispatches |
//! | `composed` | the definition, in Burn's own operations; it runs everywhere, and kernels are tested against it |
//! | `cpu.rs` | the same by a kernel of `attention-kernels`: forward, what it saves, backward |
//!
//! `backends` says which backend has which kernels, and makes kernels differentiable.
//!
//! To add an operation: its folder, a method here, and a line in the tables of `backends` if it has a kernel. Axes of
//! attention are always `[batch, heads, queries, keys]`.

mod additive_attention;
mod additive_score;
mod backends;
mod chunked;
mod cross_entropy;
mod deferred_gradients;
mod dot_product_attention;
mod dot_product_score;
mod dropout;
mod fill_padding;
mod fused;
#[cfg(feature = "cubecl-backend")]
mod gpu;
mod kernels;
mod key_heads;
mod linear;
mod mask;
mod masked;
mod masked_softmax;
mod optional;
mod pack_additive_keys;
mod recurrent;
mod select_rows;
mod shared_weight;
mod weighted_sum;

pub use additive_attention::additive_attention;
pub use additive_score::additive_score;
#[cfg(feature = "cubecl-backend")]
pub(crate) use backends::cube_device;
pub use backends::is_in_host_memory;
pub use cross_entropy::{cross_entropy, cross_entropy_of_parts};
pub(crate) use deferred_gradients::SharedTensor;
pub use dot_product_attention::dot_product_attention;
pub use dot_product_score::dot_product_score;
pub(crate) use dropout::drop_weights;
pub(crate) use fill_padding::fill_keyless;
pub use fill_padding::fill_padding;
#[cfg(feature = "cubecl-backend")]
pub(crate) use gpu::runs_on;
pub(crate) use key_heads::repeat_key_heads;
pub use linear::linear;
pub(crate) use masked::{fill_masked, lowest};
pub use masked_softmax::masked_softmax;
pub(crate) use pack_additive_keys::pack_additive_keys;
pub use recurrent::recurrent;
pub(crate) use select_rows::select_rows;
pub use weighted_sum::weighted_sum;

pub use additive_attention::AdditiveAttentionInputs;
pub use additive_score::AdditiveScoreInputs;
pub use backends::AttentionBackend;
pub use cross_entropy::CrossEntropyInputs;
pub use deferred_gradients::{GradientSlot, SharedGradients};
pub use dot_product_attention::DotProductAttentionInputs;
pub use dot_product_score::DotProductScoreInputs;
pub use fill_padding::FillPaddingInputs;
pub use linear::LinearInputs;
pub use mask::{HostMask, Intervals, Keep, ResolvedMask};
pub use masked_softmax::MaskedSoftmaxInputs;
pub use optional::OptionalTensor;
pub use pack_additive_keys::PackAdditiveKeysInputs;
pub use recurrent::{CellKind, RecurrentInputs, States, Steps, StepsRead};
pub use select_rows::SelectRowsInputs;
pub use shared_weight::SharedWeight;
pub use weighted_sum::WeightedSumInputs;

use burn::backend::backend_extension;
use burn::backend::tensor::FloatTensor;

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
        match Self::KERNELS.which(Self::KERNELS.additive_score, &inputs.queries) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => additive_score::composed(inputs),
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
        match Self::KERNELS.which(Self::KERNELS.masked_softmax, &inputs.scores) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => masked_softmax::composed(inputs),
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
        match Self::KERNELS.which(Self::KERNELS.dot_product_attention, &inputs.queries) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => dot_product_attention::composed(inputs),
        }
    }

    /// Additive attention, fused: the score, softmax, dropout and weighted sum.
    #[fusion(default)]
    fn additive_attention(
        #[extension_type] inputs: AdditiveAttentionInputs<Self>,
    ) -> FloatTensor<Self> {
        match Self::KERNELS.which(Self::KERNELS.additive_attention, &inputs.queries) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => additive_attention::composed(inputs),
        }
    }

    /// The keys as the kernel of [`additive_attention`](Self::additive_attention) reads them, once for many calls.
    /// Gradients go to the keys, not to this. Without a kernel they stay as they are.
    #[fusion(default)]
    fn pack_additive_keys(
        #[extension_type] inputs: PackAdditiveKeysInputs<Self>,
    ) -> FloatTensor<Self> {
        match Self::KERNELS.pack_additive_keys {
            Some(pack) => pack(inputs),
            None => inputs.keys,
        }
    }

    /// `input weight + bias`
    #[fusion(default)]
    fn linear(#[extension_type] inputs: LinearInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.which(Self::KERNELS.linear, &inputs.input) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => linear::composed(inputs),
        }
    }

    /// `table[indices]`
    #[fusion(default)]
    fn select_rows(#[extension_type] inputs: SelectRowsInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.which(Self::KERNELS.select_rows, &inputs.table) {
            Some(kernel) => (kernel.forward)(inputs).0,
            None => select_rows::composed(inputs),
        }
    }

    /// A linear layer to classes with its cross-entropy: the loss, and after it the greatest class of each row.
    #[fusion(default)]
    fn cross_entropy(#[extension_type] inputs: CrossEntropyInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.cross_entropy {
            Some(kernel) => (kernel.infer)(inputs),
            None => cross_entropy::composed(inputs),
        }
    }

    /// A recurrent layer in one direction: the states after each step.
    #[fusion(default)]
    fn recurrent(#[extension_type] inputs: RecurrentInputs<Self>) -> FloatTensor<Self> {
        match Self::KERNELS.recurrent {
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
