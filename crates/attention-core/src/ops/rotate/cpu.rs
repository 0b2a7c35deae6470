//! Runs in the kernel of `attention-kernels`.

use attention_kernels::{PairLayout, Rotation};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use cpu_kernels::Level;

use super::{RotaryLayout, RotateInputs};
use crate::ops::host::{
    AttentionElement, CpuBackend, elements, readable, rows, tensor, unwritten, whole, with_compiled,
};

/// The angles of a call, for its backward pass.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Angles<B: Backend> {
    cosines: FloatTensor<B>,
    sines: FloatTensor<B>,
    layout: RotaryLayout,
}

/// The inputs of the kernel.
fn rotation<B: CpuBackend, E: AttentionElement>(angles: &Angles<B>) -> Rotation<'_, E> {
    Rotation {
        cosines: elements::<B, E>(&angles.cosines),
        sines: elements::<B, E>(&angles.sines),
        shape: angles.cosines.shape().dims(),
        layout: match angles.layout {
            RotaryLayout::Interleaved => PairLayout::Interleaved,
            RotaryLayout::HalfSplit => PairLayout::HalfSplit,
        },
    }
}

/// The rotated rows, and the angles for the backward pass.
pub(in crate::ops) fn forward<B: CpuBackend>(
    inputs: RotateInputs<B>,
) -> (FloatTensor<B>, Angles<B>) {
    let inputs = readable(inputs);
    let given = inputs.rows;
    let (shape, dtype) = (given.shape(), given.dtype());
    let angles = Angles {
        cosines: inputs.cosines,
        sines: inputs.sines,
        layout: inputs.layout,
    };
    let turned = with_compiled!(dtype, E => {
        let mut turned = unwritten::<E>(&shape);
        rotation::<B, E>(&angles).turn(Level::current(), rows::<B, E>(&given), &mut turned);
        tensor::<B, E>(turned, shape, dtype, &given)
    });
    (turned, angles)
}

/// The gradient of the rows: the gradient of the rotated rows, rotated back.
pub(in crate::ops) fn backward<B: CpuBackend>(
    angles: Angles<B>,
    gradient: FloatTensor<B>,
    _asked: Asked<1>,
) -> [Gradient<B>; 1] {
    let gradient = B::readable(gradient);
    let dtype = gradient.dtype();
    with_compiled!(dtype, E => {
        let mut to_rows = unwritten::<E>(&gradient.shape());
        let received = rows::<B, E>(&gradient);
        rotation::<B, E>(&angles).turn_back(Level::current(), received, &mut to_rows);
        [whole::<B, E>(to_rows, dtype, &gradient)]
    })
}
