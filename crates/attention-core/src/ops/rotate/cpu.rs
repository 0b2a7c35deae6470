//! By the kernel of `attention-kernels`.

use attention_kernels::Rotation;
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::Level;

use super::RotateInputs;
use crate::ops::host::{
    AttentionElement, CpuBackend, elements, readable, rows, tensor, unwritten, whole, with_real,
};

/// Cosines and sines.
type Angles<B> = [FloatTensor<B>; 2];

/// The inputs of the kernel.
fn rotation<B: CpuBackend, E: AttentionElement>([cosines, sines]: &Angles<B>) -> Rotation<'_, E> {
    Rotation {
        cosines: elements::<B, E>(cosines),
        sines: elements::<B, E>(sines),
    }
}

/// The turned rows, and the angles for the backward pass.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: RotateInputs<B>,
) -> (FloatTensor<B>, Angles<B>) {
    let inputs = readable(inputs);
    let (shape, dtype) = (inputs.rows.shape(), inputs.rows.dtype());
    let angles = [inputs.cosines, inputs.sines];
    let turned = with_real!(dtype, E => {
        let mut turned = unwritten::<E>(&shape);
        rotation::<B, E>(&angles).turn(Level::current(), rows::<B, E>(&inputs.rows), &mut turned);
        tensor::<B, E>(turned, shape, dtype, &inputs.rows)
    });
    (turned, angles)
}

/// The gradient of the rows: that of the turned ones, turned back.
pub(in crate::ops) fn backward<B: CpuBackend>(
    angles: Angles<B>,
    gradient: FloatTensor<B>,
    _asked: Asked<1>,
) -> [Gradient<B>; 1] {
    let gradient = B::readable(gradient);
    let dtype = gradient.dtype();
    with_real!(dtype, E => {
        let mut to_rows = unwritten::<E>(&gradient.shape());
        let received = rows::<B, E>(&gradient);
        rotation::<B, E>(&angles).turn_back(Level::current(), received, &mut to_rows);
        [whole::<B, E>(to_rows, dtype, &gradient)]
    })
}
