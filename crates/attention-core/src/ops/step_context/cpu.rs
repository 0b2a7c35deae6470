//! The definition, with a backward pass that defers the gradient of the values to the end of all steps.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::deferred_gradients::Deferral;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use burn_fused_layers::harness::wide::wide;

use super::StepContextInputs;
use crate::ops::deferred_pairs::DeferredPairs;
use crate::ops::fill_padding::fill_rows_without_key;
use crate::ops::host::{CpuBackend, readable};
use crate::ops::masked::Masked;

/// The context, and the inputs for the backward pass.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: StepContextInputs<B>,
) -> (FloatTensor<B>, StepContextInputs<B>) {
    let inputs = readable(inputs);
    (super::composed::<B>(inputs.clone()), inputs)
}

/// The requested gradients of weights and values.
pub(in crate::ops) fn backward<B: CpuBackend>(
    inputs: StepContextInputs<B>,
    gradient: FloatTensor<B>,
    asked: Asked<2>,
) -> [Gradient<B>; 2] {
    let (weights, values, mask) = (inputs.weights, inputs.values, inputs.mask);
    let [_, _, num_keys, _] = values.shape().dims();
    let masked = Masked::<B>::new(mask.clone(), num_keys, &weights);
    let gradient = fill_rows_without_key::<B>(gradient, &mask, num_keys);
    let transposed = |tensor: &FloatTensor<B>| B::float_swap_dims(tensor.clone(), 2, 3);
    let of_weights = match asked.wanted[0] {
        true => {
            let products = B::float_matmul(gradient.clone(), transposed(&values));
            Gradient::Whole(masked.fill(products, 0.0))
        }
        false => Gradient::Absent,
    };
    let weights = masked.fill(weights, 0.0);
    let of_values = match (asked.wanted[1], asked.deferral) {
        (false, _) => Gradient::Absent,
        (true, Deferral::Allowed) => {
            let dtype = wide(weights.dtype());
            Gradient::Deferred(Box::new(DeferredPairs::Products {
                factor: 1.0,
                pairs: B::contiguous(B::float_cast(weights, dtype.into())),
                queries: B::readable(gradient),
            }))
        }
        // The gradient of a masked key's weight is 0, whatever it holds.
        (true, _) => {
            let products = B::float_matmul(transposed(&weights), gradient);
            Gradient::Whole(masked.fill_padding(products))
        }
    };
    [of_weights, of_values]
}
