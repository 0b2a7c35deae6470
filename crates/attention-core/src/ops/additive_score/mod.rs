//! Additive scores of all pairs.

mod composed;
pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

pub(super) use composed::composed;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::{Tensor, assert_shape};

use super::backends::{TensorMap, TrackedInputs};
use super::key_heads::assert_divides;
use super::mask::WithIndicesOf;
use super::{AttentionOps, ResolvedMask};
use crate::Mask;
use crate::checks::{Argument, assert_together};

/// Inputs of [`AttentionOps::additive_score`].
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct AdditiveScoreInputs<B: Backend> {
    /// `[batch, heads, queries, num_hiddens]`
    pub queries: FloatTensor<B>,
    /// `[batch, key_heads, keys, num_hiddens]`
    pub keys: FloatTensor<B>,
    /// `[num_hiddens]`
    pub weight: FloatTensor<B>,
    /// Which keys each query attends to.
    #[extension_type]
    pub mask: ResolvedMask<B>,
}

impl<B: Backend> TrackedInputs<B, 3> for AdditiveScoreInputs<B> {
    type On<A: WithIndicesOf<B>> = AdditiveScoreInputs<A>;

    fn first(&self) -> &FloatTensor<B> {
        &self.queries
    }

    fn map<A: WithIndicesOf<B>>(self, tensors: &mut impl TensorMap<B, A>) -> Self::On<A> {
        AdditiveScoreInputs {
            queries: tensors.tracked(self.queries),
            keys: tensors.tracked(self.keys),
            weight: tensors.tracked(self.weight),
            mask: self.mask.on(),
        }
    }
}

/// `score[b,n,i,j] = sum_h weight[h] tanh(queries[b,n,i,h] + keys[b,n,j,h])`, and 0 where masked.
///
/// # Shapes
/// - queries `[batch, heads, queries, num_hiddens]`, keys `[batch, key_heads, keys, num_hiddens]`, weight
///   `[num_hiddens]`
/// - result `[batch, heads, queries, keys]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together.
pub fn additive_score(
    queries: Tensor<4>,
    keys: Tensor<4>,
    weight: Tensor<1>,
    mask: &Mask,
) -> Tensor<4> {
    const NAME: &str = "additive_score";
    let [batch, heads, num_queries, num_hiddens] = queries.dims();
    let [_, key_heads, num_keys, _] = keys.dims();
    assert_shape!(keys, [batch, key_heads, num_keys, num_hiddens]);
    assert_divides(NAME, key_heads, heads);
    assert_shape!(weight, [num_hiddens]);
    let others = [
        Argument::floats("keys", &keys),
        Argument::floats("weight", &weight),
    ];
    assert_together(NAME, Argument::floats("queries", &queries), others);
    let shape = [batch, heads, num_queries, num_keys];
    if shape.contains(&0) || num_hiddens == 0 {
        return Tensor::zeros(shape, (&queries.device(), queries.dtype()));
    }
    let inputs = AdditiveScoreInputs {
        mask: mask.resolve(shape, &queries.device()),
        queries: queries.into_dispatch(),
        keys: keys.into_dispatch(),
        weight: weight.into_dispatch(),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::additive_score(inputs))
}
