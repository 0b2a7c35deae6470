//! Rows, turned by the angles of their positions.

use burn::backend::Dispatch;
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use crate::ops::{AttentionOps, RotateInputs};
use crate::score::wide;

/// Each pair of neighbouring elements of a row, `2 n` and `2 n + 1`, turned by an angle: `(x cos - y sin, y cos + x
/// sin)`. The angles have no gradient; half precision is turned in f32.
///
/// [`Rotary`](crate::Rotary) calls it with the angles of positions. Su et al. 2021, "RoFormer: Enhanced Transformer
/// with Rotary Position Embedding", section 3.2.
///
/// # Shapes
/// - rows and result `[batch, heads, rows, size]`; cosines, sines `[rows, size / 2]`
///
/// # Panics
/// If `size` is odd, or shapes, types or devices do not fit together: cosines and sines are of the type of the rows, or
/// f32 where that is half precision.
///
/// ```
/// use attention_core::functional::rotate;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let rows = Tensor::<4>::from_floats([[[[1.0, 0.0, 0.0, 1.0]]]], &device);
/// // The first pair by a quarter turn, the second not at all.
/// let cosines = Tensor::<2>::from_floats([[0.0, 1.0]], &device);
/// let sines = Tensor::<2>::from_floats([[1.0, 0.0]], &device);
/// let turned = rotate(rows, cosines, sines).try_into_vec_as::<f32>().unwrap();
/// assert_eq!(turned, [0.0, 1.0, 0.0, 1.0]);
/// ```
pub fn rotate(rows: Tensor<4>, cosines: Tensor<2>, sines: Tensor<2>) -> Tensor<4> {
    const NAME: &str = "rotate";
    let [_, _, num_rows, size] = rows.dims();
    assert!(
        size.is_multiple_of(2),
        "{NAME}: size expected even, got {size}"
    );
    assert_shape!(cosines, [num_rows, size / 2]);
    assert_shape!(sines, [num_rows, size / 2]);
    let first = Argument::on_device("rows", &rows);
    assert_together(NAME, first, [Argument::on_device("cosines", &cosines)]);
    let others = [Argument::floats("sines", &sines)];
    assert_together(NAME, Argument::floats("cosines", &cosines), others);
    let (expected, dtype) = (wide(rows.dtype()), cosines.dtype());
    assert!(
        dtype == expected,
        "{NAME}: cosines expected {expected:?} beside rows of {:?}, got {dtype:?}",
        rows.dtype()
    );
    if rows.dims().contains(&0) {
        return rows;
    }
    let inputs = RotateInputs {
        rows: rows.into_dispatch(),
        cosines: cosines.without_autodiff().into_dispatch(),
        sines: sines.without_autodiff().into_dispatch(),
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::rotate(inputs))
}
