//! Fused attention: the context from projected queries and a memory.

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{DType, Device, Tensor, assert_shape};
use burn_fused_layers::backend::OptionalTensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::wide::widened;
use burn_fused_layers::paths::Operation;

use super::keys_and_values::KeysAndValues;
use super::modifiers::is_finite_in;
use super::options::AttentionOptions;
use super::pairwise::{PairwiseFormula, PairwiseKernel};
use super::score::{additive_score, dot_product_score, pairwise_score};
use super::sizes::Sizes;
use crate::mask::Mask;
use crate::ops::{
    ADDITIVE_ATTENTION, AttentionInputs, AttentionOps, DOT_PRODUCT_ATTENTION, PAIRWISE_ATTENTION,
    PackAdditiveKeysInputs, runs_on_host,
};
use crate::rank::Sequences;

/// A score that kernels compute.
#[allow(
    clippy::large_enum_variant,
    reason = "a call has one; without a backend a tensor is small"
)]
pub(crate) enum FusedScore {
    /// `scale queries . keys`
    DotProduct { scale: f64 },
    /// `sum_h weight[h] tanh(queries[h] + keys[h])`, the weight `[num_hiddens]`.
    Additive { weight: Tensor<1> },
    /// `sum_h weight[h] f(queries[h], keys[h])`, the weight `[num_hiddens]`.
    Pairwise {
        term: Arc<dyn PairwiseFormula>,
        weight: Option<Tensor<1>>,
    },
}

impl FusedScore {
    pub(crate) fn is_dot(&self) -> bool {
        matches!(self, Self::DotProduct { .. })
    }

    /// The device of the score's parameter.
    pub(crate) fn device(&self) -> Option<Device> {
        match self {
            Self::DotProduct { .. } => None,
            Self::Additive { weight } => Some(weight.device()),
            Self::Pairwise { weight, .. } => weight.as_ref().map(Tensor::device),
        }
    }

    /// The operation that computes this score.
    fn operation(&self) -> Operation {
        match self {
            Self::DotProduct { .. } => *DOT_PRODUCT_ATTENTION,
            Self::Additive { .. } => *ADDITIVE_ATTENTION,
            Self::Pairwise { .. } => *PAIRWISE_ATTENTION,
        }
    }

    /// Whether attention of such queries can run the user's own functions, if there are any, in its kernels.
    pub(crate) fn runs(&self, options: &AttentionOptions, queries: &Sequences) -> bool {
        let changes_scores = options.score_mod.is_some();
        if !changes_scores && !matches!(self, Self::Pairwise { .. }) {
            return true;
        }
        let dtype = queries.dtype();
        // Kernels modify scores in f32.
        let has_type = !changes_scores || dtype != DType::F64;
        has_type && runs_on_host(self.operation(), &queries.device(), dtype)
    }

    /// The scores of the pairs that a mask keeps, composed or by a kernel of their own.
    pub(crate) fn scores(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        match self {
            // Scores of half precision are f32, as in the fused kernel.
            Self::DotProduct { scale } => {
                dot_product_score(widened(queries), widened(keys), mask, *scale)
            }
            Self::Additive { weight } => additive_score(queries, keys, weight.clone(), mask),
            Self::Pairwise { term, weight } => {
                pairwise_score(queries, keys, &**term, weight.clone(), mask)
            }
        }
    }
}

/// `context[b,n,i,:] = sum_j softmax_j(score[b,n,i,j]) values[b,n,j,:]` over the keys that query `i` attends to, with
/// modified scores and dropout on the weights; the mask is `rows.mask`. Sizes and options have been checked.
///
/// # Shapes
/// - queries `[batch, heads, queries, size]`, keys `[batch, key_heads, keys, size]`
/// - result `[batch, heads, queries, value_size]`
///
/// # Panics
/// If the size of the keys, the weight of the score or the mask do not fit, or the scale is not finite.
pub(crate) fn attend(
    queries: Sequences,
    rows: &KeysAndValues,
    sizes: Sizes,
    score: FusedScore,
    options: &AttentionOptions,
    dropout: f64,
) -> Sequences {
    let name = score.operation().name();
    let (weight, scale, pairwise) = match score {
        FusedScore::DotProduct { scale } => (None, scale, None),
        FusedScore::Additive { weight } => (Some(weight), 1.0, None),
        FusedScore::Pairwise { term, weight } => (weight, 1.0, Some(term)),
    };
    assert!(
        is_finite_in(scale, queries.dtype()),
        "{name}: scale expected to be finite, got {scale}"
    );
    let size = sizes.compared(name, &queries, rows);
    if let Some(weight) = &weight {
        assert_shape!(weight, [size]);
        let others = [Argument::floats("weight", weight)];
        assert_together(name, queries.argument("queries"), others);
    }
    if sizes.has_no_pairs() {
        return sizes.zeros(rows);
    }
    let device = queries.device();
    let modifiers = options.modifiers(sizes.scores(), (&device, queries.dtype()));
    let mask = rows.mask.resolve(sizes.scores(), &device);
    // Without elements every score is 0, like the product of a single element 0.
    let with_elements = |tensor: Sequences| {
        if size > 0 {
            return tensor;
        }
        let [batch, heads, rows, _] = tensor.dims();
        Tensor::zeros([batch, heads, rows, 1], (&tensor.device(), tensor.dtype())).into()
    };
    let pairwise = pairwise.filter(|_| size > 0);
    let inputs = AttentionInputs {
        queries: with_elements(queries).into_dispatch(),
        keys: with_elements(rows.read_keys()).into_dispatch(),
        values: rows.read_values().into_dispatch(),
        weight: OptionalTensor::of(weight.filter(|_| size > 0)),
        packed_keys: OptionalTensor::of(rows.packed_keys()),
        modifiers,
        mask,
        pairwise: pairwise.map(|term| term as Arc<dyn PairwiseKernel>),
        scale,
        dropout,
        shared: rows.shared_gradients(),
    };
    Sequences::of_dispatch(<Dispatch as AttentionOps>::attention(inputs))
}

/// The keys as the kernel of additive scores reads them, made once for many calls. `mask` is applied as far as that
/// needs no positions of queries. `None` if there are no elements.
///
/// # Shapes
/// - keys `[batch, key_heads, keys, num_hiddens]`, result `[batch, ..]`
pub(crate) fn pack_additive_keys(
    keys: Tensor<4>,
    mask: &Mask,
    [heads, num_queries]: [usize; 2],
) -> Option<Tensor<4>> {
    let [batch, _, num_keys, _] = keys.dims();
    if keys.dims().contains(&0) || heads * num_queries == 0 {
        return None;
    }
    let inputs = PackAdditiveKeysInputs {
        mask: mask.resolve([batch, heads, num_queries, num_keys], &keys.device()),
        keys: keys.into_dispatch(),
        num_queries,
    };
    let packed = <Dispatch as AttentionOps>::pack_additive_keys(inputs);
    Some(Tensor::from_dispatch(packed))
}
