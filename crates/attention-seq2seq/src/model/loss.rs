//! The targets of a loss, and their weights in it.

use burn::tensor::{DType, Int, Tensor};

use crate::vocab::Vocab;

/// The factor on the cross-entropy of each target, `[targets]`: their sum is the mean over `count` tokens, in which
/// padding does not count. The loss is of parameters of type `dtype`.
pub(super) fn token_factors(targets: &Tensor<1, Int>, count: usize, dtype: DType) -> Tensor<1> {
    let is_token = targets.clone().equal_scalar(Vocab::PAD).bool_not();
    // Not in half precision, in which the share of a token would be rounded.
    let dtype = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    is_token.float().cast(dtype) / count as f64
}
