//! The composed definition, with a gradient of its own.
//!
//! Differentiated operation by operation, it would store several tensors of the size of the input.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Slice;

use super::{NormalizeInputs, Normalized};
use crate::harness::kernel::{Asked, Gradient, Kernel};
use crate::ops::linear::rows;

/// The definition in training, as a single node.
pub(crate) const fn kernel<B: Backend>()
-> Kernel<B, NormalizeInputs<B>, FloatTensor<B>, Normalized<B>, 3> {
    Kernel {
        infer: |inputs| forward(inputs).0,
        train: |inputs, _| forward(inputs),
        backward,
    }
}

/// `h gain + bias` with `h = (x - mean) / sqrt(variance + epsilon)`, where the mean is 0 for the root mean square; and
/// the state for [`backward`].
pub(crate) fn forward<B: Backend>(inputs: NormalizeInputs<B>) -> (FloatTensor<B>, Normalized<B>) {
    let shape = inputs.input.shape();
    let input = rows::<B>(inputs.input.clone());
    let [num_rows, size] = input.shape().dims();
    let mean = if inputs.is_centered {
        B::float_mean_dim(input.clone(), 1)
    } else {
        B::float_zeros([num_rows, 1].into(), &input.device(), input.dtype().into())
    };
    let centered = B::float_sub(input, mean.clone());
    let variance = B::float_mean_dim(B::float_mul(centered.clone(), centered.clone()), 1);
    let deviation = B::float_sqrt(B::float_add_scalar(variance, inputs.epsilon.into()));
    let scale = B::float_recip(deviation);
    let normal = B::float_mul(centered, scale.clone());
    let vector = |tensor| B::float_reshape(tensor, [1, size].into());
    let output = B::float_mul(normal, vector(inputs.gain.clone()));
    let output = match inputs.bias.clone().into_option() {
        Some(bias) => B::float_add(output, vector(bias)),
        None => output,
    };
    let statistics = B::float_cat(vec![mean, scale], 1);
    (
        B::float_reshape(output, shape),
        Normalized { inputs, statistics },
    )
}

/// The gradients of input, gain and bias. With the result's gradient `g` and `d = g gain`, a row's gradient is
/// `(d - mean(d) - h mean(d h)) / sqrt(variance + epsilon)`.
fn backward<B: Backend>(
    saved: Normalized<B>,
    gradient: FloatTensor<B>,
    asked: Asked<3>,
) -> [Gradient<B>; 3] {
    let Normalized { inputs, statistics } = saved;
    let [of_input, of_gain, of_bias] = asked.wanted;
    let shape = inputs.input.shape();
    let [input, gradient] = [inputs.input, gradient].map(rows::<B>);
    let [num_rows, size] = input.shape().dims();
    let statistic = |n: usize| {
        let slices = [0..num_rows, n..n + 1].map(Slice::from);
        B::float_slice(statistics.clone(), &slices)
    };
    let (mean, scale) = (statistic(0), statistic(1));
    let normal = B::float_mul(B::float_sub(input, mean), scale.clone());
    let sum_of_rows = |tensor| {
        let sum = B::float_sum_dim(tensor, 0);
        Gradient::Whole(B::float_reshape(sum, [size].into()))
    };
    let of_bias = of_bias.then(|| sum_of_rows(gradient.clone()));
    let of_gain = of_gain.then(|| sum_of_rows(B::float_mul(gradient.clone(), normal.clone())));
    let of_input = of_input.then(|| {
        let gain = B::float_reshape(inputs.gain, [1, size].into());
        let d = B::float_mul(gradient, gain);
        let product = B::float_mean_dim(B::float_mul(d.clone(), normal.clone()), 1);
        let along = B::float_mul(normal, product);
        let rest = if inputs.is_centered {
            B::float_sub(d.clone(), B::float_mean_dim(d, 1))
        } else {
            d
        };
        let gradient = B::float_mul(B::float_sub(rest, along), scale);
        Gradient::Whole(B::float_reshape(gradient, shape))
    });
    [of_input, of_gain, of_bias].map(Option::unwrap_or_default)
}
