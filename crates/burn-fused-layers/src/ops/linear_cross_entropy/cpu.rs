//! By the kernel of `cpu-kernels`.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use burn::tensor::{Scalar, TensorData};
use cpu_kernels as kernels;
use cpu_kernels::{CrossEntropyGradients, Level};

use super::LinearCrossEntropyInputs;
use crate::harness::host::{
    CpuBackend, CpuReal, elements, indices, matrix, readable, tensor, unwritten, with_real,
};
use crate::harness::kernel::{Asked, Gradient};

/// The predictions, and the gradients of input, weight and bias where that of the loss is 1.
#[derive(Clone, Debug)]
pub(crate) struct Unscaled<B: Backend> {
    pub(crate) predictions: IntTensor<B>,
    gradients: [Option<FloatTensor<B>>; 3],
}

/// The loss and the predictions.
pub(crate) fn infer<B: CpuBackend>(
    inputs: LinearCrossEntropyInputs<B>,
) -> (FloatTensor<B>, IntTensor<B>) {
    let inputs = readable::<B, _, 3>(inputs);
    with_real!(inputs.input.dtype(), E => run::<B, E>(&inputs, None))
}

/// The loss, the predictions and the gradients, which need the logits that are there now.
pub(crate) fn forward<B: CpuBackend>(
    inputs: LinearCrossEntropyInputs<B>,
) -> (FloatTensor<B>, Unscaled<B>) {
    let inputs = readable::<B, _, 3>(inputs);
    let LinearCrossEntropyInputs {
        input,
        weight,
        bias,
        ..
    } = &inputs;
    with_real!(input.dtype(), E => {
        let [mut of_input, mut of_weight] = [input, weight].map(|of| unwritten::<E>(&of.shape()));
        let bias = bias.as_option();
        let mut of_bias = bias.map(|bias| unwritten::<E>(&bias.shape()));
        let gradients = CrossEntropyGradients {
            input: &mut of_input,
            weight: &mut of_weight,
            bias: of_bias.as_deref_mut(),
        };
        let (loss, predictions) = run::<B, E>(&inputs, Some(gradients));
        let of = |gradient, of: &FloatTensor<B>| tensor::<B, E>(gradient, of.shape(), E::DTYPE, of);
        let gradients = [
            Some(of(of_input, input)),
            Some(of(of_weight, weight)),
            of_bias.zip(bias).map(|(gradient, bias)| of(gradient, bias)),
        ];
        (loss, Unscaled { predictions, gradients })
    })
}

fn run<B: CpuBackend, E: CpuReal>(
    inputs: &LinearCrossEntropyInputs<B>,
    gradients: Option<CrossEntropyGradients<E>>,
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

/// The first element.
fn first<B: CpuBackend, E: CpuReal>(tensor: &FloatTensor<B>) -> f64 {
    elements::<B, E>(tensor)[0].to_f64()
}

/// The gradients of input, weight and bias.
pub(crate) fn backward<B: CpuBackend>(
    saved: Unscaled<B>,
    gradient: FloatTensor<B>,
    asked: Asked<3>,
) -> [Gradient<B>; 3] {
    let gradient = B::contiguous(gradient);
    let factor = with_real!(gradient.dtype(), E => first::<B, E>(&gradient));
    let mut gradients = saved.gradients.into_iter().zip(asked.wanted);
    std::array::from_fn(|_| match gradients.next() {
        Some((Some(gradient), true)) if factor == 1.0 => Gradient::Whole(gradient),
        Some((Some(gradient), true)) => {
            Gradient::Whole(B::float_mul_scalar(gradient, Scalar::from(factor)))
        }
        _ => Gradient::Absent,
    })
}
