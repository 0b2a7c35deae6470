//! By the kernel of `cpu-kernels`.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Scalar;
use cpu_kernels as kernels;
use cpu_kernels::{CrossEntropyGradients, Level};

use super::CrossEntropyInputs;
use crate::ops::host::{
    CpuBackend, CpuReal, elements, indices, matrix, readable, tensor, unwritten, with_real,
};
use crate::ops::kernel::{Asked, Gradient};

/// The gradients of input, weight and bias, where that of the loss is 1.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Unscaled<B: Backend> {
    gradients: [Option<FloatTensor<B>>; 3],
}

/// The loss, and after it the predictions as floats: `[1 + rows]`.
pub(in crate::ops) fn infer<B: CpuBackend>(inputs: CrossEntropyInputs<B>) -> FloatTensor<B> {
    let inputs = readable::<B, _, 3>(inputs);
    with_real!(inputs.input.dtype(), E => run::<B, E>(&inputs, None))
}

/// The same, and the gradients, which need the logits that are there now.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: CrossEntropyInputs<B>,
) -> (FloatTensor<B>, Unscaled<B>) {
    let inputs = readable::<B, _, 3>(inputs);
    let CrossEntropyInputs {
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
        let results = run::<B, E>(&inputs, Some(gradients));
        let of = |gradient, of: &FloatTensor<B>| tensor::<B, E>(gradient, of.shape(), E::DTYPE, of);
        let gradients = [
            Some(of(of_input, input)),
            Some(of(of_weight, weight)),
            of_bias.zip(bias).map(|(gradient, bias)| of(gradient, bias)),
        ];
        (results, Unscaled { gradients })
    })
}

fn run<B: CpuBackend, E: CpuReal>(
    inputs: &CrossEntropyInputs<B>,
    gradients: Option<CrossEntropyGradients<E>>,
) -> FloatTensor<B> {
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
    let predictions = predictions.into_iter().map(|class| class as f64);
    let results = [loss].into_iter().chain(predictions);
    let results: Vec<_> = results.map(E::from_f64).collect();
    tensor::<B, E>(results.into(), [1 + rows], E::DTYPE, &inputs.input)
}

/// The first element.
fn first<B: CpuBackend, E: CpuReal>(tensor: &FloatTensor<B>) -> f64 {
    elements::<B, E>(tensor)[0].to_f64()
}

/// The gradients of input, weight and bias.
pub(in crate::ops) fn backward<B: CpuBackend>(
    saved: Unscaled<B>,
    gradient: FloatTensor<B>,
    asked: Asked<3>,
) -> [Gradient<B>; 3] {
    let gradient = B::contiguous(gradient);
    // Of the loss; predictions have none.
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
