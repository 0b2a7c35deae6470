//! The targets of a loss, and their weights in it.

use burn::tensor::{DType, Int, Tensor};
use burn_fused_layers::ClassTargets;

use crate::text::vocab::Vocab;

/// The target tokens `[targets]`, with a factor on the cross-entropy of each: the sum is the mean over `count` tokens,
/// in which padding does not count. The loss is of parameters of type `dtype`.
pub(super) fn class_targets(
    targets: Tensor<1, Int>,
    count: usize,
    dtype: DType,
    label_smoothing: f64,
) -> ClassTargets {
    let is_token = targets.clone().equal_scalar(Vocab::PAD).bool_not();
    // Not in half precision, in which the share of a token would be rounded.
    let dtype = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let factors = is_token.float().cast(dtype) / count as f64;
    ClassTargets::new(targets, factors).with_label_smoothing(label_smoothing)
}
