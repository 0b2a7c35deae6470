//! Products of matrices that are larger than a cache, those of linear layers and of their gradients.
//!
//! The right operand is packed into panels, a block of [`PRODUCT_STEPS`] rows and [`PRODUCT_COLUMNS`] columns at a
//! time, and tasks multiply it with some rows of the left one each. What a task takes depends on the sizes alone, and
//! each sum is taken in one order, so that the number of threads changes no bit.

mod matrix;
mod pack;
mod packing;

pub use matrix::Matrix;
pub(crate) use pack::Panels;
pub use packing::Packing;

use std::ops::Range;

use rayon::prelude::*;

use crate::Real;
use crate::checks::{check_len, check_shape};
use crate::simd::gemm::{Product, Start};
use crate::simd::{Job, Level, MAX_LANES, Simd};
use crate::slices::add;
use crate::tiles::{
    PRODUCT_COLUMNS, PRODUCT_DEPTH, PRODUCT_PANEL, PRODUCT_ROWS, PRODUCT_STEPS, PRODUCT_TASKS,
    SUMMED_ROWS,
};

const OPERATION: &str = "product";

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum ProductStart<'a, E> {
    /// Nothing.
    Zero,
    /// A row, the same for all rows of the result: the bias of a linear layer.
    Row(&'a [E]),
    /// What the result holds.
    Sum,
}

/// `out = left right`, added to what `start` says. The number of threads changes no bit.
///
/// PyTorch: `torch.mm`, `torch.addmm`.
///
/// # Shapes
/// - left `[rows, steps]`, right `[steps, columns]`
/// - out `[rows, columns]`, contiguous; a row to start from `[columns]`
///
/// # Panics
/// If the shapes do not fit together.
pub fn product<E: Real>(
    level: Level,
    left: Matrix<E>,
    right: Matrix<E>,
    start: ProductStart<E>,
    out: &mut [E],
) {
    E::product(level, left, right, None, start, out);
}

/// [`product`] with a right operand of many products: the first packs it into `packing`, and the others find it there.
/// The results are those of [`product`], bit for bit.
///
/// # Panics
/// If the shapes do not fit together, or `packing` is that of another shape.
pub fn product_packed<E: Real>(
    level: Level,
    left: Matrix<E>,
    (right, packing): (Matrix<E>, &Packing<E>),
    start: ProductStart<E>,
    out: &mut [E],
) {
    E::product(level, left, right, Some(packing), start, out);
}

/// Writes the sums of the columns of a contiguous matrix, which has as many columns as there are sums: the gradient of
/// a linear layer's bias.
///
/// # Panics
/// If the elements are not whole rows.
pub fn column_sums<E: Real>(matrix: &[E], sums: &mut [E]) {
    E::column_sums(matrix, sums);
}

pub(crate) fn compute<E: Real>(
    level: Level,
    left: Matrix<E>,
    right: Matrix<E>,
    packing: Option<&Packing<E>>,
    start: ProductStart<E>,
    out: &mut [E],
) {
    let ([rows, steps], [_, columns]) = (left.sizes(), right.sizes());
    check_shape(OPERATION, "right operand", [steps, columns], right.sizes());
    check_len(OPERATION, "result", [rows, columns], out.len());
    if out.is_empty() {
        return;
    }
    match start {
        ProductStart::Zero if steps == 0 => out.fill(E::ZERO),
        ProductStart::Row(row) => {
            check_len(OPERATION, "row to start from", [columns], row.len());
            out.par_chunks_mut(columns)
                .with_min_len(PRODUCT_PANEL)
                .for_each(|out| out.copy_from_slice(row));
        }
        ProductStart::Zero | ProductStart::Sum => {}
    }
    let is_sum = !matches!(start, ProductStart::Zero);
    let rows_of_task = rows
        .div_ceil(PRODUCT_TASKS)
        .next_multiple_of(PRODUCT_ROWS)
        .clamp(2 * PRODUCT_ROWS, 32 * PRODUCT_ROWS);
    let packed = packing.map(|packing| packing.of_matrix(level, right));
    let mut buffer = Vec::new();
    let mut blocks = 0..;
    for of_columns in parts(0..columns, PRODUCT_COLUMNS) {
        for of_steps in parts(0..steps, PRODUCT_STEPS) {
            let block = [of_steps.clone(), of_columns.clone()];
            let panels = match packed.zip(blocks.next()) {
                Some((packed, index)) => Panels::packed(&packed[index], block),
                None => Panels::new(level, right, block, rows, &mut buffer),
            };
            let tasks = out.par_chunks_mut(rows_of_task * columns).enumerate();
            tasks.for_each(|(task, out)| {
                let task = Task {
                    left,
                    first_row: task * rows_of_task,
                    steps: of_steps.clone(),
                    panels,
                    is_sum: is_sum || of_steps.start > 0,
                    out,
                    columns: of_columns.clone(),
                    stride: columns,
                };
                E::dispatch(level, task);
            });
        }
    }
}

/// Cuts a range into parts of `most`; the last may be shorter.
#[inline(always)]
fn parts(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(most)
        .map(move |first| first..end.min(first + most))
}

/// The product of some rows with a packed block.
struct Task<'a, E> {
    left: Matrix<'a, E>,
    first_row: usize,
    /// Those of the packed block.
    steps: Range<usize>,
    panels: Panels<'a, E>,
    /// Whether `out` holds what the product is added to.
    is_sum: bool,
    /// Whole rows of the result.
    out: &'a mut [E],
    /// Those of the packed block.
    columns: Range<usize>,
    /// The elements of a row of the result.
    stride: usize,
}

impl<E: Real> Job<E> for Task<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let rows = self.first_row..self.first_row + self.out.len() / self.stride;
        let mut columns_of_left = Vec::new();
        let mut edge = Vec::new();
        for steps in parts(self.steps.clone(), PRODUCT_DEPTH) {
            let first_step = steps.start - self.steps.start;
            let is_sum = self.is_sum || first_step > 0;
            let (left, left_strides) =
                self.left
                    .block(rows.clone(), steps.clone(), &mut columns_of_left);
            for (index, columns) in parts(self.columns.clone(), PRODUCT_PANEL).enumerate() {
                let (right, right_stride) = self.panels.panel(index, first_step);
                let whole = columns.len() / S::LANES * S::LANES;
                if whole > 0 {
                    Product {
                        sizes: [rows.len(), steps.len(), whole],
                        left,
                        left_strides,
                        right,
                        right_stride,
                        out: &mut self.out[columns.start..],
                        out_stride: self.stride,
                        start: if is_sum { Start::Sum } else { Start::Zero },
                    }
                    .compute(simd);
                }
                let rest = columns.start + whole..columns.end;
                if rest.is_empty() {
                    continue;
                }
                // Less than a vector: by way of one.
                edge.clear();
                edge.resize(rows.len() * MAX_LANES, E::ZERO);
                Product {
                    sizes: [rows.len(), steps.len(), S::LANES],
                    left,
                    left_strides,
                    right: &right[whole..],
                    right_stride,
                    out: &mut edge,
                    out_stride: MAX_LANES,
                    start: Start::Zero,
                }
                .compute(simd);
                let out = self.out.chunks_exact_mut(self.stride);
                for (out, edge) in out.zip(edge.chunks_exact(MAX_LANES)) {
                    for (out, &edge) in out[rest.clone()].iter_mut().zip(edge) {
                        *out = if is_sum { *out + edge } else { edge };
                    }
                }
            }
        }
    }
}

pub(crate) fn compute_column_sums<E: Real>(matrix: &[E], sums: &mut [E]) {
    let columns = sums.len();
    if columns == 0 {
        return;
    }
    check_len(
        OPERATION,
        "summed matrix",
        [matrix.len() / columns, columns],
        matrix.len(),
    );
    sums.par_chunks_mut(PRODUCT_PANEL)
        .enumerate()
        .for_each(|(index, sums)| {
            sums.fill(E::ZERO);
            let first = index * PRODUCT_PANEL;
            // In parts, so that what is added is not small beside the sum.
            for rows in matrix.chunks(columns * SUMMED_ROWS) {
                let mut part = [E::ZERO; PRODUCT_PANEL];
                for row in rows.chunks_exact(columns) {
                    add(&row[first..first + sums.len()], &mut part);
                }
                add(&part, sums);
            }
        });
}
