//! Linear layers on rows of queries, keys or values.

use burn::tensor::Tensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::linear;

/// `input weight + bias` along the last axis of `name`; see [`linear`].
///
/// # Shapes
/// - weight `[in, out]`, bias `[out]`
/// - input `[batch, .., rows, in]`, result `[batch, .., rows, out]`
///
/// # Panics
/// If size, type or device of `name` differ from the weight's.
pub(crate) fn project<const D: usize>(
    name: &str,
    (weight, bias): (Tensor<2>, Option<Tensor<1>>),
    input: Tensor<D>,
) -> Tensor<D> {
    let dims = input.dims();
    let ([expected, _], got) = (weight.dims(), dims[D - 1]);
    assert!(
        got == expected,
        "{name}: last axis expected {expected}, got {got} ([batch, .., rows, size] is {dims:?})"
    );
    let parameters = Argument::floats("parameters", &weight);
    assert_together("linear layer", parameters, [Argument::floats(name, &input)]);
    linear(input, weight, bias)
}
