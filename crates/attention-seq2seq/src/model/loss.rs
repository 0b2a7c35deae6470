//! The targets of a loss, and their weights.

use burn::tensor::{DType, Int, Tensor};
use burn_fused_layers::ClassTargets;

use crate::text::vocab::Vocab;

/// The target tokens `[targets]`, with factors on their cross-entropy whose sum is the mean over `count` tokens,
/// without padding. The loss is for parameters of type `dtype`.
pub(super) fn class_targets(
    targets: Tensor<1, Int>,
    count: usize,
    dtype: DType,
    label_smoothing: f64,
) -> ClassTargets {
    let is_token = targets.clone().equal_scalar(Vocab::PAD).bool_not();
    // Not in half precision, which would round the factors.
    let dtype = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let factors = is_token.float().cast(dtype) / count as f64;
    ClassTargets::new(targets, factors).with_label_smoothing(label_smoothing)
}
