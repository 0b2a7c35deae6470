//! Masked softmax.

use attention_kernels::Level;
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;

use super::mask::HostMask;
use super::slices::{narrowed, tensor, view, with_real, zeros};
use crate::ops::HostBackend;

/// [`crate::ops::AttentionOps::masked_softmax`]
pub(in crate::ops) fn masked_softmax<B: HostBackend>(
    scores: FloatTensor<B>,
    mask: &HostMask,
) -> FloatTensor<B> {
    let dtype = scores.dtype();
    let shape = scores.shape();
    let weights = with_real!(scores.dtype(), E => {
        let s = view::<B, E>(&scores);
        let mut weights = zeros::<E>(&shape);
        attention_kernels::masked_softmax(Level::current(), &mask.as_mask(), s.rows(), &mut weights);
        tensor::<B, E>(weights, shape, &scores)
    });
    narrowed::<B>(weights, dtype)
}
