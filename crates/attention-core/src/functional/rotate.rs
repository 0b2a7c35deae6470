//! Rows, rotated by the angles of their positions.

use burn::backend::Dispatch;
use burn::tensor::Tensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::wide::wide;

use crate::ops::{AttentionOps, RotaryLayout, RotateInputs};

/// Rotates each pair of features `x`, `y` of a row by an angle: `x cos - y sin` and `y cos + x sin`. The layout says
/// which features form a pair; features after the last pair stay as they are. The angles have no gradient; half
/// precision is rotated in f32.
///
/// [`Rotary`](crate::position::Rotary) calls it with the angles of positions. Su et al. 2021, "RoFormer: Enhanced
/// Transformer with Rotary Position Embedding", section 3.2.
///
/// ONNX's `RotaryEmbedding` (opset 23): caches `[batch, rows, pairs]` are the cosines and sines themselves, caches
/// `[max_positions, pairs]` with `position_ids` go through [`Positions::select`](crate::position::Positions::select),
/// and `rotary_embedding_dim` is twice the number of pairs. Reshape an input of three axes, `[batch, rows, num_heads *
/// size]`, by `reshape([batch, rows, num_heads, size]).swap_dims(1, 2)` before and `swap_dims(1, 2).reshape(..)` after.
///
/// # Shapes
/// - rows and result `[batch, heads, rows, size]`; cosines, sines `[batch or 1, rows, pairs]`, with `2 * pairs <= size`
///
/// # Panics
/// If shapes, types or devices do not fit together: cosines and sines have the type of the rows, or f32 for half
/// precision.
///
/// ```
/// use attention_core::functional::rotate;
/// use attention_core::position::{Positions, RotaryLayout};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let rows = Tensor::<4>::from_floats([[[[1.0, 0.0, 0.0, 1.0]]]], &device);
/// // The first pair by a quarter turn, the second not at all.
/// let cosines = Tensor::<3>::from_floats([[[0.0, 1.0]]], &device);
/// let sines = Tensor::<3>::from_floats([[[1.0, 0.0]]], &device);
/// let turned = rotate(rows, cosines, sines, RotaryLayout::Interleaved);
/// assert_eq!(turned.try_into_vec_as::<f32>().unwrap(), [0.0, 1.0, 0.0, 1.0]);
///
/// // By rows of caches, at a position for each token.
/// let [cosines, sines] = [Tensor::<2>::zeros([9, 2], &device), Tensor::ones([9, 2], &device)];
/// let positions = Positions::per_token(Tensor::from_ints([[7, 8, 0], [3, 4, 5]], &device));
/// let [cosines, sines] = [cosines, sines].map(|cache| positions.select(&cache, [2, 3]));
/// let rows = Tensor::<4>::ones([2, 5, 3, 6], &device);
/// assert_eq!(rotate(rows, cosines, sines, RotaryLayout::HalfSplit).dims(), [2, 5, 3, 6]);
/// ```
pub fn rotate(
    rows: Tensor<4>,
    cosines: Tensor<3>,
    sines: Tensor<3>,
    layout: RotaryLayout,
) -> Tensor<4> {
    const NAME: &str = "rotate";
    let [batch, _, num_rows, size] = rows.dims();
    for (name, table) in [("cosines", &cosines), ("sines", &sines)] {
        let got @ [examples, table_rows, pairs] = table.dims();
        assert!(
            (examples == batch || examples == 1) && table_rows == num_rows && 2 * pairs <= size,
            "{NAME}: {name} expected [{batch} or 1, {num_rows}, at most {}], got {got:?}",
            size / 2
        );
    }
    assert!(
        cosines.dims() == sines.dims(),
        "{NAME}: sines expected {:?}, as the cosines, got {:?}",
        cosines.dims(),
        sines.dims()
    );
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
    if rows.dims().contains(&0) || cosines.dims().contains(&0) {
        return rows;
    }
    let inputs = RotateInputs {
        rows: rows.into_dispatch(),
        cosines: cosines.without_autodiff().into_dispatch(),
        sines: sines.without_autodiff().into_dispatch(),
        layout,
    };
    Tensor::from_dispatch(<Dispatch as AttentionOps>::rotate(inputs))
}
