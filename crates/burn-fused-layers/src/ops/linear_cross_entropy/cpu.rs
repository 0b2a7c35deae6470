//! Runs in the kernel of `cpu-kernels`.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{TensorMetadata, get_device_settings};
use burn::tensor::{Scalar, TensorData};
use cpu_kernels as kernels;
use cpu_kernels::{CrossEntropyGradients, Float, Level};

use super::LinearCrossEntropyInputs;
use crate::harness::host::{
    CpuBackend, CpuReal, elements, indices, matrix, readable, tensor, unwritten, with_compiled,
};
use crate::harness::kernel::{Asked, Gradient};

/// The requested gradients of input, weight and bias, for a loss gradient of 1.
pub(crate) type Unscaled<B> = [Option<FloatTensor<B>>; 3];

/// The loss and the predictions.
pub(crate) fn infer<B: CpuBackend>(
    inputs: LinearCrossEntropyInputs<B>,
) -> (FloatTensor<B>, IntTensor<B>) {
    let inputs = readable::<B, _, 3>(inputs);
    with_compiled!(inputs.input.dtype(), E => run::<B, E>(&inputs, CrossEntropyGradients::NONE))
}

/// The loss, the predictions and the requested gradients, which are computed here because they need the logits.
pub(crate) fn train<B: CpuBackend>(
    inputs: LinearCrossEntropyInputs<B>,
    wanted: [bool; 3],
) -> ((FloatTensor<B>, IntTensor<B>), Unscaled<B>) {
    let inputs = readable::<B, _, 3>(inputs);
    let bias = inputs.bias.as_option();
    let tensors = [Some(&inputs.input), Some(&inputs.weight), bias];
    with_compiled!(inputs.input.dtype(), E => {
        let mut buffers: [_; 3] = std::array::from_fn(|n| {
            let tensor = tensors[n].filter(|_| wanted[n]);
            tensor.map(|tensor| unwritten::<E>(&tensor.shape()))
        });
        let [input, weight, bias] = buffers.each_mut().map(Option::as_deref_mut);
        let gradients = CrossEntropyGradients { input, weight, bias };
        let results = run::<B, E>(&inputs, gradients);
        let mut gradients = buffers.into_iter().zip(tensors).map(|(buffer, of)| {
            let (buffer, of) = buffer.zip(of)?;
            Some(tensor::<B, E>(buffer, of.shape(), E::DTYPE, of))
        });
        (results, std::array::from_fn(|_| gradients.next().flatten()))
    })
}

fn run<B: CpuBackend, E: CpuReal>(
    inputs: &LinearCrossEntropyInputs<B>,
    gradients: CrossEntropyGradients<E>,
) -> (FloatTensor<B>, IntTensor<B>) {
    let [rows] = inputs.targets.shape().dims();
    let ones;
    let factors = match inputs.factors.as_option() {
        Some(factors) => elements::<B, E>(factors),
        None => {
            ones = vec![E::ONE; rows];
            &ones
        }
    };
    let kernel = kernels::CrossEntropyInputs {
        input: matrix::<B, E>(&inputs.input),
        weight: matrix::<B, E>(&inputs.weight),
        bias: inputs.bias.as_option().map(elements::<B, E>),
        targets: &indices::<B>(inputs.targets.clone()),
        factors,
        label_smoothing: inputs.label_smoothing,
    };
    let mut predictions = vec![0; rows];
    let loss = kernel.compute(Level::current(), &mut predictions, gradients);
    let loss = vec![E::from_f64(loss)];
    let loss = tensor::<B, E>(loss.into(), [1], E::DTYPE, &inputs.input);
    let device = inputs.input.device();
    let predictions: Vec<_> = predictions.into_iter().map(|class| class as i64).collect();
    let dtype = get_device_settings::<B>(&device).int_dtype;
    let predictions = TensorData::new(predictions, [rows]).convert_dtype(dtype.into());
    (loss, B::int_from_data(predictions, &device))
}

/// The requested gradients of input, weight and bias.
pub(crate) fn backward<B: CpuBackend>(
    saved: Unscaled<B>,
    gradient: FloatTensor<B>,
    _: Asked<3>,
) -> [Gradient<B>; 3] {
    let gradient = B::contiguous(gradient);
    let factor = with_compiled!(gradient.dtype(), E => elements::<B, E>(&gradient)[0].to_f64());
    saved.map(|unscaled| match unscaled {
        Some(gradient) if factor == 1.0 => Gradient::Whole(gradient),
        Some(gradient) => Gradient::Whole(B::float_mul_scalar(gradient, Scalar::from(factor))),
        None => Gradient::Absent,
    })
}
