//! Dot-product attention, fused: no score leaves the kernel.

mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
mod gpu;

pub(super) use composed::composed;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::{DType, Tensor, assert_shape};

use super::backends::{TensorMap, TrackedInputs};
use super::fused::{context_without_pairs, scores_shape};
use super::mask::WithIndicesOf;
use super::{AttentionOps, GradientSlot, OptionalTensor, ResolvedMask, SharedGradients};
use crate::Memory;
use crate::checks::{Argument, assert_together};

/// Inputs of [`AttentionOps::dot_product_attention`].
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct DotProductAttentionInputs<B: Backend> {
    /// `[batch, heads, queries, size]`
    pub queries: FloatTensor<B>,
    /// `[batch, key_heads, keys, size]`
    pub keys: FloatTensor<B>,
    /// `[batch, key_heads, keys, value_size]`
    pub values: FloatTensor<B>,
    /// Added to the scores of each key, `[batch, heads or 1, 1, keys]`.
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
    /// The factor on the products.
    pub scale: f64,
    /// The probability to drop a weight, after softmax; `0.0` when not training.
    pub dropout: f64,
    /// Of keys and values that went through [`AttentionOps::read_shared`].
    pub shared: Option<SharedGradients>,
}

impl<B: Backend> TrackedInputs<B, 4> for DotProductAttentionInputs<B> {
    type On<A: WithIndicesOf<B>> = DotProductAttentionInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.queries
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        DotProductAttentionInputs {
            queries: tensors.tracked(self.queries),
            keys: tensors.tracked(self.keys),
            values: tensors.tracked(self.values),
            bias: tensors.tracked_option(self.bias),
            mask: self.mask.on(),
            scale: self.scale,
            dropout: self.dropout,
            shared: self.shared,
        }
    }

    fn slots(&self) -> [Option<GradientSlot>; 4] {
        SharedGradients::slots(self.shared.as_ref())
    }
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// `score[b,n,i,j] = scale queries[b,n,i,:] . keys[b,n,j,:] + bias[b,n,0,j]`, and dropout on the weights.
///
/// PyTorch equivalent: `torch.nn.functional.scaled_dot_product_attention`, except that a query without any key has the
/// context 0 and that causal masks are aligned bottom-right.
///
/// # Shapes
/// - queries `[batch, heads, queries, size]`, keys of the memory `[batch, key_heads, keys, size]`
/// - bias `[batch or 1, heads or 1, 1, keys]`, of the type of the queries or a more precise one
/// - result `[batch, heads, queries, value_size]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together, the scale is not finite, or the dropout is not in
/// `[0, 1)`.
pub fn dot_product_attention(
    queries: Tensor<4>,
    memory: &Memory,
    scale: f64,
    bias: Option<Tensor<4>>,
    dropout: f64,
) -> Tensor<4> {
    const NAME: &str = "dot_product_attention";
    assert!(
        scale.is_finite(),
        "{NAME}: scale expected to be finite, got {scale}"
    );
    if let Some(context) = context_without_pairs(NAME, &queries, memory, dropout) {
        return context;
    }
    let shape = scores_shape(&queries, memory);
    if let Some(bias) = &bias {
        let others = [Argument::on_device("bias", bias)];
        assert_together(NAME, Argument::on_device("queries", &queries), others);
    }
    let bias = bias.map(|bias| fit_bias(bias, shape, queries.dtype()));
    let mask = memory.mask.resolve(shape, &queries.device());
    // Products of vectors without elements are 0, as those of one element 0 are.
    let with_elements = |tensor: Tensor<4>| match tensor.dims() {
        [batch, heads, rows, 0] => {
            Tensor::zeros([batch, heads, rows, 1], (&tensor.device(), tensor.dtype()))
        }
        _ => tensor,
    };
    let inputs = DotProductAttentionInputs {
        queries: with_elements(queries).into_dispatch(),
        keys: with_elements(memory.read_keys()).into_dispatch(),
        values: memory.read_values().into_dispatch(),
        bias: OptionalTensor::of(bias),
        mask,
        scale,
        dropout,
        shared: memory.shared_gradients(),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::dot_product_attention(inputs))
}

/// The bias of each key, `[batch, heads or 1, 1, keys]`, of a type that goes with queries of type `dtype`.
fn fit_bias(bias: Tensor<4>, shape: [usize; 4], dtype: DType) -> Tensor<4> {
    let [batch, heads, _, num_keys] = shape;
    let [bias_batch, bias_heads, ..] = bias.dims();
    assert_shape!(bias, [bias_batch, bias_heads, 1, num_keys]);
    assert!(
        [1, batch].contains(&bias_batch),
        "dot_product_attention: a bias of {batch} examples or 1 expected, got one of {bias_batch}"
    );
    assert!(
        [1, heads].contains(&bias_heads),
        "dot_product_attention: a bias of {heads} heads expected for as many heads of scores, got one of {bias_heads}"
    );
    let wanted = match (dtype, bias.dtype()) {
        (DType::F64, _) => DType::F64,
        (DType::F32, _) | (_, DType::F64) => DType::F32,
        // Half precision may have a bias of its own type or in f32.
        (_, own) => own,
    };
    bias.cast(wanted).expand([batch, bias_heads, 1, num_keys])
}
