//! Additive attention, fused: no score of a pair leaves the kernel, nor do its hidden units.

mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
mod gpu;

pub(super) use composed::composed;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::{Tensor, assert_shape};

use super::backends::{TensorMap, TrackedInputs};
use super::fused::{context_without_pairs, scores_shape};
use super::mask::WithIndicesOf;
use super::{AttentionOps, GradientSlot, OptionalTensor, ResolvedMask, SharedGradients};
use crate::Memory;
use crate::checks::{Argument, assert_together};

/// Inputs of [`AttentionOps::additive_attention`].
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct AdditiveAttentionInputs<B: Backend> {
    /// `[batch, heads, queries, num_hiddens]`
    pub queries: FloatTensor<B>,
    /// `[batch, key_heads, keys, num_hiddens]`
    pub keys: FloatTensor<B>,
    /// `[batch, key_heads, keys, value_size]`
    pub values: FloatTensor<B>,
    /// `[num_hiddens]`
    pub weight: FloatTensor<B>,
    /// The keys as [`AttentionOps::pack_additive_keys`] returned them.
    #[extension_type]
    pub packed_keys: OptionalTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
    /// The probability to drop a weight, after softmax; `0.0` when not training.
    pub dropout: f64,
    /// Of keys and values that went through [`AttentionOps::read_shared`].
    pub shared: Option<SharedGradients>,
}

impl<B: Backend> TrackedInputs<B, 4> for AdditiveAttentionInputs<B> {
    type On<A: WithIndicesOf<B>> = AdditiveAttentionInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.queries
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        AdditiveAttentionInputs {
            queries: tensors.tracked(self.queries),
            keys: tensors.tracked(self.keys),
            values: tensors.tracked(self.values),
            weight: tensors.tracked(self.weight),
            packed_keys: tensors.constant(self.packed_keys),
            mask: self.mask.on(),
            dropout: self.dropout,
            shared: self.shared,
        }
    }

    fn slots(&self) -> [Option<GradientSlot>; 4] {
        SharedGradients::slots(self.shared.as_ref())
    }
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])`, and dropout on the weights.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys of the memory `[batch, key_heads, keys, num_hiddens]`,
///   weight `[num_hiddens]`
/// - result `[batch, heads, queries, value_size]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together, or the dropout is not in `[0, 1)`.
pub fn additive_attention(
    queries: Tensor<4>,
    memory: &Memory,
    weight: Tensor<1>,
    dropout: f64,
) -> Tensor<4> {
    const NAME: &str = "additive_attention";
    let [_, _, _, num_hiddens] = queries.dims();
    assert_shape!(weight, [num_hiddens]);
    let others = [Argument::floats("weight", &weight)];
    assert_together(NAME, Argument::floats("queries", &queries), others);
    if let Some(context) = context_without_pairs(NAME, &queries, memory, dropout) {
        return context;
    }
    if num_hiddens == 0 {
        // All scores are 0, as those of dot products are.
        return super::dot_product_attention(queries, memory, 1.0, None, dropout);
    }
    let shape = scores_shape(&queries, memory);
    let inputs = AdditiveAttentionInputs {
        mask: memory.mask.resolve(shape, &queries.device()),
        queries: queries.into_dispatch(),
        keys: memory.read_keys().into_dispatch(),
        values: memory.read_values().into_dispatch(),
        weight: weight.into_dispatch(),
        packed_keys: OptionalTensor::of(memory.packed_keys()),
        dropout,
        shared: memory.shared_gradients(),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::additive_attention(inputs))
}
