//! By the products of `attention-kernels`.

use attention_kernels::{Level, ProductStart, column_sums, product};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;

use super::LinearInputs;
use crate::ops::backends::cpu::{
    CpuBackend, CpuReal, elements, matrix, readable, tensor, with_real, zeros,
};

/// The result.
pub(in crate::ops) fn forward<B: CpuBackend>(inputs: &LinearInputs<B>) -> FloatTensor<B> {
    let LinearInputs {
        input,
        weight,
        bias,
    } = readable::<B, _, 3>(inputs.clone());
    let ([rows, _], [_, columns]) = (input.shape().dims(), weight.shape().dims());
    with_real!(input.dtype(), E => {
        let mut output = zeros::<E>(&[rows, columns].into());
        let start = match bias.as_option() {
            Some(bias) => ProductStart::Row(elements::<B, E>(bias)),
            None => ProductStart::Zero,
        };
        let [left, right] = [&input, &weight].map(matrix::<B, E>);
        product(Level::current(), left, right, start, &mut output);
        tensor::<B, E>(output, [rows, columns], E::DTYPE, &input)
    })
}

/// The gradients of input, weight and bias, of those that are wanted.
pub(in crate::ops) fn backward<B: CpuBackend>(
    inputs: LinearInputs<B>,
    gradient: FloatTensor<B>,
    [of_input, of_weight, of_bias]: [bool; 3],
) -> [Option<FloatTensor<B>>; 3] {
    let LinearInputs { input, weight, .. } = readable::<B, _, 3>(inputs);
    let gradient = B::contiguous(gradient);
    let [_, columns] = gradient.shape().dims();
    with_real!(gradient.dtype(), E => {
        let level = Level::current();
        let of_output = matrix::<B, E>(&gradient);
        let of_input = of_input.then(|| {
            let mut elements = zeros::<E>(&input.shape());
            let weight = matrix::<B, E>(&weight).transposed();
            product(level, of_output, weight, ProductStart::Zero, &mut elements);
            tensor::<B, E>(elements, input.shape(), E::DTYPE, &input)
        });
        let of_weight = of_weight.then(|| {
            let mut elements = zeros::<E>(&weight.shape());
            let input = matrix::<B, E>(&input).transposed();
            product(level, input, of_output, ProductStart::Zero, &mut elements);
            tensor::<B, E>(elements, weight.shape(), E::DTYPE, &weight)
        });
        let of_bias = of_bias.then(|| {
            let mut sums = zeros::<E>(&[columns].into());
            column_sums(elements::<B, E>(&gradient), &mut sums);
            tensor::<B, E>(sums, [columns], E::DTYPE, &gradient)
        });
        [of_input, of_weight, of_bias]
    })
}
