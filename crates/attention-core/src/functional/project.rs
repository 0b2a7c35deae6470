//! Linear layers on rows of queries, keys or values.

use burn::tensor::Tensor;
use burn_fused_layers::linear;

use crate::checks::assert_fits;

/// `input weight + bias` along the last axis of `name`; see [`linear`].
///
/// # Shapes
/// - weight `[in, out]`, bias `[out]`
/// - input `[batch, heads, rows, in]`, result `[batch, heads, rows, out]`
///
/// # Panics
/// If size, type or device of `name` differ from the weight's.
pub(crate) fn project(
    name: &str,
    (weight, bias): (Tensor<2>, Option<Tensor<1>>),
    input: Tensor<4>,
) -> Tensor<4> {
    assert_fits(name, &input, &weight);
    linear(input, weight, bias)
}
