//! The definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Slice;
use burn_fused_layers::harness::wide::cast;

use super::{RotaryLayout, RotateInputs};

/// Each pair times the cosine, plus the pair with its elements exchanged times the sine, negative for the first
/// element; half precision is rotated in f32.
pub(in crate::ops) fn forward<B: Backend>(inputs: RotateInputs<B>) -> FloatTensor<B> {
    let (rows, cosines, sines) = (inputs.rows, inputs.cosines, inputs.sines);
    let (shape, dtype) = (rows.shape(), rows.dtype());
    let [batch, heads, num_rows, size] = shape.dims();
    let [examples, _, pairs] = cosines.shape().dims();
    let features = |from: usize, to: usize| {
        let slices = [0..batch, 0..heads, 0..num_rows, from..to].map(Slice::from);
        B::float_slice(rows.clone(), &slices)
    };
    let (rows, kept) = if 2 * pairs < size {
        (features(0, 2 * pairs), Some(features(2 * pairs, size)))
    } else {
        (rows, None)
    };
    let rows = cast::<B>(rows, cosines.dtype());
    // The axis along which the two features of a pair lie, and the shape of the angles, one for each pair.
    let (axis, split, angles) = match inputs.layout {
        RotaryLayout::Interleaved => (4, [pairs, 2], [pairs, 1]),
        RotaryLayout::HalfSplit => (3, [2, pairs], [1, pairs]),
    };
    let reshaped = |tensor, [batch, heads]: [usize; 2], [outer, inner]: [usize; 2]| {
        B::float_reshape(tensor, [batch, heads, num_rows, outer, inner].into())
    };
    let [cosines, sines] = [cosines, sines].map(|table| reshaped(table, [examples, 1], angles));
    let signed = B::float_cat(vec![B::float_neg(sines.clone()), sines], axis);
    let pairs_of = reshaped(rows, [batch, heads], split);
    let exchanged = B::float_flip(pairs_of.clone(), &[axis]);
    let turned = B::float_mul(pairs_of, cosines);
    let turned = B::float_add(turned, B::float_mul(exchanged, signed));
    let turned = B::float_reshape(turned, [batch, heads, num_rows, 2 * pairs].into());
    let turned = cast::<B>(turned, dtype);
    match kept {
        Some(kept) => B::float_cat(vec![turned, kept], 3),
        None => turned,
    }
}
