//! The additive score with a location term.

use burn::backend::Dispatch;
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use super::keys_and_values::KeysAndValues;
use crate::ops::{AttentionOps, LocationScoreInputs};

/// `score[b,j] = sum_h weight[h] tanh(query[b,h] + keys[b,j,h] + sum_ct filters[c,t,h] alignments[b,c, j + t -
/// width/2])` with the keys of a memory: one head, at least one example and one key. Alignments beyond the keys, and
/// scores of masked keys, are 0.
///
/// # Shapes
/// - query `[batch, 1, 1, num_hiddens]`, weight `[num_hiddens]`, alignments `[batch, channels, keys]`, filters
///   `[channels, width, num_hiddens]`, the width odd
/// - result `[batch, 1, 1, keys]`
///
/// # Panics
/// If shapes, types, devices or the mask do not fit together. The alignments may be f32 where the other tensors are in
/// half precision.
pub(crate) fn location_score(
    query: Tensor<4>,
    rows: &KeysAndValues,
    weight: Tensor<1>,
    alignments: Tensor<3>,
    filters: Tensor<3>,
) -> Tensor<4> {
    const NAME: &str = "location_score";
    let keys = rows.read_cleared_keys().into_tensor::<4>();
    let [batch, _, num_keys, num_hiddens] = keys.dims();
    assert_shape!(query, [batch, 1, 1, num_hiddens]);
    assert_shape!(weight, [num_hiddens]);
    let [channels, width, _] = filters.dims();
    assert_shape!(filters, [channels, width, num_hiddens]);
    assert_shape!(alignments, [batch, channels, num_keys]);
    let others = [
        Argument::floats("keys", &keys),
        Argument::floats("weight", &weight),
        Argument::floats_or_wide("alignments", &alignments, keys.dtype()),
        Argument::floats("filters", &filters),
    ];
    assert_together(NAME, Argument::floats("query", &query), others);
    let shape = [batch, 1, 1, num_keys];
    let inputs = LocationScoreInputs {
        mask: rows.mask.resolve(shape, &query.device()),
        queries: query.into_dispatch(),
        keys: keys.into_dispatch(),
        weight: weight.into_dispatch(),
        alignments: alignments.unsqueeze_dim::<4>(1).into_dispatch(),
        filters: filters.unsqueeze_dim::<4>(0).into_dispatch(),
        shared_keys: rows.shared_gradients().map(|shared| shared.keys),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::location_score(inputs))
}
