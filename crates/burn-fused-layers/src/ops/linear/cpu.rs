//! Runs in the products of `cpu-kernels`.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use cpu_kernels::{Level, Matrix, Packing, ProductStart, column_sums, product, product_packed};

use super::{LinearInputs, rows, with_last};
use crate::harness::deferred_gradients::Deferral;
use crate::harness::host::{
    CpuBackend, CpuReal, elements, matrix, readable, tensor, unwritten, whole, with_compiled,
};
use crate::harness::kernel::{Asked, Gradient};
use crate::ops::deferred_rows::DeferredRows;

/// The result, and the inputs for the backward pass.
pub(crate) fn forward<B: CpuBackend>(inputs: LinearInputs<B>) -> (FloatTensor<B>, LinearInputs<B>) {
    let shape = inputs.input.shape();
    let inputs = readable::<B, _, 3>(LinearInputs {
        input: rows::<B>(inputs.input),
        ..inputs
    });
    let [_, columns] = inputs.weight.shape().dims();
    let shape = with_last(shape, columns);
    let output = with_compiled!(inputs.input.dtype(), E => {
        let mut output = unwritten::<E>(&shape);
        let start = match inputs.bias.as_option() {
            Some(bias) => ProductStart::Row(elements::<B, E>(bias)),
            None => ProductStart::Zero,
        };
        let [left, right] = [&inputs.input, &inputs.weight].map(matrix::<B, E>);
        let packing = inputs.shared.as_ref().map(|shared| &shared.packings()[0]);
        multiply(left, (right, packing), start, &mut output);
        tensor::<B, E>(output, shape, E::DTYPE, &inputs.input)
    });
    (output, inputs)
}

/// The gradients of input, weight and bias.
pub(crate) fn backward<B: CpuBackend>(
    inputs: LinearInputs<B>,
    gradient: FloatTensor<B>,
    asked: Asked<3>,
) -> [Gradient<B>; 3] {
    let (weight, shared) = (inputs.weight, inputs.shared);
    let [of_input, of_weight, of_bias] = asked.wanted;
    let [from, columns] = weight.shape().dims();
    let shape = with_last(gradient.shape(), from);
    let [input, gradient] = [inputs.input, B::contiguous(gradient)].map(rows::<B>);
    with_compiled!(gradient.dtype(), E => {
        let of_output = matrix::<B, E>(&gradient);
        let of_input = of_input.then(|| {
            let mut elements = unwritten::<E>(&shape);
            let weight = matrix::<B, E>(&weight).transposed();
            let packing = shared.as_ref().map(|shared| &shared.packings()[1]);
            multiply(of_output, (weight, packing), ProductStart::Zero, &mut elements);
            Gradient::Whole(tensor::<B, E>(elements, shape, E::DTYPE, &gradient))
        });
        let of_bias = of_bias.then(|| {
            let mut sums = unwritten::<E>(&[columns].into());
            column_sums(elements::<B, E>(&gradient), &mut sums);
            Gradient::Whole(tensor::<B, E>(sums, [columns], E::DTYPE, &gradient))
        });
        let of_weight = of_weight.then(|| {
            if asked.deferral == Deferral::Allowed {
                let (input, gradient) = (input.clone(), gradient.clone());
                return Gradient::Deferred(Box::new(DeferredRows::Product { input, gradient }));
            }
            let mut elements = unwritten::<E>(&weight.shape());
            let input = matrix::<B, E>(&input).transposed();
            product(Level::current(), input, of_output, ProductStart::Zero, &mut elements);
            whole::<B, E>(elements, E::DTYPE, &weight)
        });
        [of_input, of_weight, of_bias].map(Option::unwrap_or_default)
    })
}

/// A product with a weight, or with its transpose, and its packing, if there is one.
fn multiply<E: CpuReal>(
    left: Matrix<E>,
    (weight, packing): (Matrix<E>, Option<&Packing<E>>),
    start: ProductStart<E>,
    out: &mut [E],
) {
    let level = Level::current();
    match packing {
        Some(packing) => product_packed(level, left, (weight, packing), start, out),
        None => product(level, left, weight, start, out),
    }
}
