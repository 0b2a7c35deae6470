//! The definition.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};

use super::RotateInputs;

/// Each pair times the cosine, and the pair with its elements exchanged times the sine, which is negative for the
/// first; half precision is turned in f32.
pub(in crate::ops) fn forward<B: Backend>(inputs: RotateInputs<B>) -> FloatTensor<B> {
    let RotateInputs {
        rows,
        cosines,
        sines,
    } = inputs;
    let (shape, dtype) = (rows.shape(), rows.dtype());
    let [batch, heads, num_rows, size] = shape.dims();
    let wide = cosines.dtype();
    let rows = if dtype == wide {
        rows
    } else {
        B::float_cast(rows, wide.into())
    };
    let angles = |table| B::float_reshape(table, [1, 1, num_rows, size / 2, 1].into());
    let (cosines, sines) = (angles(cosines), angles(sines));
    let signed = B::float_cat(vec![B::float_neg(sines.clone()), sines], 4);
    let pairs = B::float_reshape(rows, [batch, heads, num_rows, size / 2, 2].into());
    let exchanged = B::float_flip(pairs.clone(), &[4]);
    let turned = B::float_add(
        B::float_mul(pairs, cosines),
        B::float_mul(exchanged, signed),
    );
    let turned = B::float_reshape(turned, shape);
    if dtype == wide {
        turned
    } else {
        B::float_cast(turned, dtype.into())
    }
}
