//! Products of matrices larger than a cache: linear layers and their gradients.
//!
//! The right operand is packed into panels, a block of [`PRODUCT_STEPS`](crate::tiles::PRODUCT_STEPS) rows and
//! [`PRODUCT_COLUMNS`](crate::tiles::PRODUCT_COLUMNS) columns at a time. Each task multiplies some rows of the left
//! operand by some of its columns; the left operand is copied if it is a transpose, or one of several. If there are few
//! rows, each task packs its columns itself (`columns`). Each sum follows the order of the blocks' steps, so that the
//! number of threads changes no bit.
//!
//! Time with the crate `gemm`, relative to the time with these, for a training step of 128 examples, of dates, of
//! 30,000 words and a decoding step: 1.14, 1.17, 1.12, 1.13 (`cargo bench -p attention-benches --bench bets`).

mod aligned;
mod columns;
mod compute;
mod left;
mod matrix;
mod pack;
mod packing;
mod parts;
mod start;
mod sums;
mod tile;

pub(crate) use aligned::Aligned;
pub(crate) use compute::compute;
pub use matrix::Matrix;
pub(crate) use pack::Panels;
pub use packing::Packing;
pub use start::ProductStart;
pub(crate) use sums::sum_columns;

use parts::OPERATION;

use crate::LayerReal;
use crate::simd::Level;

/// `out = left right`, plus `start`. The number of threads changes no bit.
///
/// PyTorch equivalent: `torch.mm`, `torch.addmm`.
///
/// # Shapes
/// - left `[rows, steps]`, right `[steps, columns]`
/// - out `[rows, columns]`, contiguous; a row to start from `[columns]`
///
/// # Panics
/// If the shapes do not fit together.
pub fn product<E: LayerReal>(
    level: Level,
    left: Matrix<E>,
    right: Matrix<E>,
    start: ProductStart<E>,
    out: &mut [E],
) {
    E::product(level, &[left], &[right], None, start, out);
}

/// [`product`] with a right operand that many products share: the first packs it into `packing`, and the others use it
/// from there. The results equal [`product`]'s, bit for bit.
///
/// # Panics
/// If the shapes do not fit together, or `packing` is for another shape or for the transpose.
pub fn product_packed<E: LayerReal>(
    level: Level,
    left: Matrix<E>,
    (right, packing): (Matrix<E>, &Packing<E>),
    start: ProductStart<E>,
    out: &mut [E],
) {
    E::product(level, &[left], &[right], Some(packing), start, out);
}

/// `out = sum_n left[n] right[n]`, plus `start`: the gradient of a weight that several products share. The result
/// equals one [`product`] of the operands concatenated along the steps, bit for bit, without concatenating them first.
///
/// # Shapes
/// - left `[rows, steps_n]`, right `[steps_n, columns]`
/// - out `[rows, columns]`, contiguous; a row to start from `[columns]`
///
/// # Panics
/// If the shapes do not fit together, or there are no operands, or not as many left as right ones.
pub fn product_sum<E: LayerReal>(
    level: Level,
    left: &[Matrix<E>],
    right: &[Matrix<E>],
    start: ProductStart<E>,
    out: &mut [E],
) {
    assert!(
        left.len() == right.len() && !left.is_empty(),
        "{OPERATION}: expected some left operands and as many right ones, got {} and {}",
        left.len(),
        right.len()
    );
    E::product(level, left, right, None, start, out);
}

/// Writes the sums of the columns of a contiguous matrix, a column for each of `sums`: the gradient of a linear layer's
/// bias.
///
/// # Panics
/// If the elements do not make whole rows.
pub fn column_sums<E: LayerReal>(matrix: &[E], sums: &mut [E]) {
    E::column_sums(matrix, sums);
}
