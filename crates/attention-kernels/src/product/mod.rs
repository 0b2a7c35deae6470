//! Products of matrices that are larger than a cache, those of linear layers and of their gradients.
//!
//! The right operand is packed into panels, a block of [`PRODUCT_STEPS`] rows and [`PRODUCT_COLUMNS`] columns at a
//! time, and tasks multiply some of its columns with some rows of the left one each, which is copied if it is a
//! transpose, or one of several. If there are not many rows, each task packs its columns itself (`columns`). Each sum
//! is taken in one order, that of the blocks' steps, so that the number of threads changes no bit.

mod aligned;
mod columns;
mod left;
mod matrix;
mod pack;
mod packing;

pub(crate) use aligned::Aligned;
pub use matrix::Matrix;
pub(crate) use pack::Panels;
pub use packing::Packing;

use std::ops::Range;

use crate::checks::{check_len, check_shape};
use crate::simd::gemm::{Product, Start};
use crate::simd::{Block, Job, Level, Simd};
use crate::slices::{PartialSums, add};
use crate::threads::{for_each, for_each_with};
use crate::tiles::{
    OWN_PANEL_ROWS, PACKED_ROWS, PRODUCT_COLUMNS, PRODUCT_DEPTH, PRODUCT_PANEL, PRODUCT_ROWS,
    PRODUCT_STEPS, PRODUCT_TASK_ROWS, PRODUCT_TASKS, SUMMED_COLUMNS, SUMMED_ROWS, TASK_ELEMENTS,
    TRANSPOSED_TILES,
};
use crate::{Buffer, Real};
use left::Left;

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

impl<'a, E> ProductStart<'a, E> {
    /// What the product of some steps with some columns is added to, from where these begin.
    #[inline(always)]
    fn of_block(self, first_step: usize, first_column: usize) -> Start<'a, E> {
        match self {
            _ if first_step > 0 => Start::Sum,
            Self::Zero => Start::Zero,
            Self::Row(row) => Start::Row(&row[first_column..]),
            Self::Sum => Start::Sum,
        }
    }
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
    E::product(level, &[left], &[right], None, start, out);
}

/// [`product`] with a right operand of many products: the first packs it into `packing`, and the others find it there.
/// The results are those of [`product`], bit for bit.
///
/// # Panics
/// If the shapes do not fit together, or `packing` is that of another shape or of the transpose.
pub fn product_packed<E: Real>(
    level: Level,
    left: Matrix<E>,
    (right, packing): (Matrix<E>, &Packing<E>),
    start: ProductStart<E>,
    out: &mut [E],
) {
    E::product(level, &[left], &[right], Some(packing), start, out);
}

/// `out = sum_n left[n] right[n]`, added to what `start` says: the gradient of a weight that several products had. The
/// result is that of one [`product`], of the left operands side by side and the right ones one below the other, bit for
/// bit; they are not put together first.
///
/// # Shapes
/// - left `[rows, steps_n]`, right `[steps_n, columns]`
/// - out `[rows, columns]`, contiguous; a row to start from `[columns]`
///
/// # Panics
/// If the shapes do not fit together, or there are no operands or not as many of both.
pub fn product_sum<E: Real>(
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

/// Writes the sums of the columns of a contiguous matrix, which has as many columns as there are sums: the gradient of
/// a linear layer's bias.
///
/// # Panics
/// If the elements are not whole rows.
pub fn column_sums<E: Real>(matrix: &[E], sums: &mut [E]) {
    E::column_sums(matrix, sums);
}

/// Of one left and one right operand or more, see [`product_sum`]; a packing is of one.
pub(crate) fn compute<E: Real>(
    level: Level,
    left: &[Matrix<E>],
    right: &[Matrix<E>],
    packing: Option<&Packing<E>>,
    start: ProductStart<E>,
    out: &mut [E],
) {
    let ([rows, _], [_, columns]) = (left[0].sizes(), right[0].sizes());
    let mut steps = 0;
    for (left, right) in left.iter().zip(right) {
        let [_, count] = left.sizes();
        check_shape(OPERATION, "left operand", [rows, count], left.sizes());
        check_shape(OPERATION, "right operand", [count, columns], right.sizes());
        steps += count;
    }
    check_len(OPERATION, "result", [rows, columns], out.len());
    if out.is_empty() {
        return;
    }
    if let ProductStart::Row(row) = start {
        check_len(OPERATION, "row to start from", [columns], row.len());
    }
    if steps == 0 {
        match start {
            ProductStart::Zero => out.fill(E::ZERO),
            ProductStart::Row(row) => {
                let out = out.chunks_exact_mut(columns);
                out.for_each(|out| out.copy_from_slice(row));
            }
            ProductStart::Sum => {}
        }
        return;
    }
    if packing.is_none() && (PACKED_ROWS..=OWN_PANEL_ROWS).contains(&rows) {
        return columns::compute(level, left, right, start, out);
    }
    let tile = tile_sizes(rows, columns);
    let left_rows = match Left::is_copied(left) {
        true => tile[0] * TRANSPOSED_TILES,
        false => rows,
    };
    debug_assert!(packing.is_none() || right.len() == 1);
    let packed = packing.map(|packing| packing.of_matrix(level, right[0]));
    let (mut left_buffer, mut buffer) = (Buffer::default(), Aligned::default());
    let mut whole = Block::new(out, [rows, columns], columns);
    for (index, [of_steps, of_columns]) in blocks(steps, columns).enumerate() {
        let block = [of_steps.clone(), of_columns.clone()];
        let panels = match packed {
            Some(packed) => Panels::packed(&packed[index], block),
            None => Panels::new(level, right, block, rows, &mut buffer),
        };
        let start = start.of_block(of_steps.start, of_columns.start);
        for of_rows in parts(0..rows, left_rows) {
            let block = [of_rows.clone(), of_steps.clone()];
            let left = Left::new(level, left, block, &mut left_buffer);
            let tiles = whole.part(of_rows, of_columns.clone()).tiles(tile);
            for_each(tiles.into_iter(), |([first_row, first_column], out)| {
                let task = Task {
                    left,
                    first_row,
                    steps: of_steps.len(),
                    panels,
                    first_column,
                    start,
                    out,
                };
                E::dispatch(level, task);
            });
        }
    }
}

/// The rows and columns of a task. All of its rows multiply each panel of its columns.
fn tile_sizes(rows: usize, columns: usize) -> [usize; 2] {
    let of_rows = rows.div_ceil(rows.div_ceil(PRODUCT_TASK_ROWS));
    let of_rows = of_rows.next_multiple_of(PRODUCT_ROWS);
    let tasks_of_columns = PRODUCT_TASKS.div_ceil(rows.div_ceil(of_rows));
    let of_columns = columns.min(PRODUCT_COLUMNS).div_ceil(tasks_of_columns);
    [of_rows, of_columns.next_multiple_of(PRODUCT_PANEL)]
}

/// The steps and columns of the right operand's blocks, which are multiplied one after the other.
fn blocks(steps: usize, columns: usize) -> impl Iterator<Item = [Range<usize>; 2]> + Clone {
    parts(0..columns, PRODUCT_COLUMNS).flat_map(move |columns| {
        parts(0..steps, PRODUCT_STEPS).map(move |steps| [steps, columns.clone()])
    })
}

/// What of matrices of so many steps each, one after the other, lies within `steps`: the index of the matrix, which of
/// its own steps, and where in `steps` they begin.
#[inline(always)]
fn within(
    counts: impl Iterator<Item = usize>,
    steps: Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
    let ends = counts.scan(0, |end, count| {
        *end += count;
        Some((*end - count, *end))
    });
    ends.enumerate().filter_map(move |(index, (first, end))| {
        let part = first.max(steps.start)..end.min(steps.end);
        let own = || part.start - first..part.end - first;
        (part.start < part.end).then(|| (index, own(), part.start - steps.start))
    })
}

/// Cuts a range into parts of `most`; the last may be shorter.
#[inline(always)]
fn parts(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let end = range.end;
    range
        .step_by(most)
        .map(move |first| first..end.min(first + most))
}

/// The product of some rows with some columns of a packed block.
struct Task<'a, E> {
    /// The steps of the packed block.
    left: Left<'a, E>,
    /// Of the left operand's.
    first_row: usize,
    steps: usize,
    panels: Panels<'a, E>,
    /// The first of the packed block's columns: one where a panel begins.
    first_column: usize,
    /// What the product is added to; a row is that of all columns of the block.
    start: Start<'a, E>,
    out: Block<'a, E>,
}

impl<E: Real> Job<E> for Task<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let [row_count, column_count] = self.out.sizes();
        let first_panel = self.first_column / PRODUCT_PANEL;
        let mut edge = Vec::new();
        let (left, left_strides) = self.left.rows_from(self.first_row);
        for (index, columns) in parts(0..column_count, PRODUCT_PANEL).enumerate() {
            for steps in parts(0..self.steps, PRODUCT_DEPTH) {
                let (right, right_stride) = self.panels.panel(first_panel + index, steps.start);
                let left = &left[steps.start * left_strides[1]..];
                let start = match self.start {
                    _ if steps.start > 0 => Start::Sum,
                    Start::Row(row) => Start::Row(&row[self.first_column + columns.start..]),
                    start => start,
                };
                let whole = columns.len() / S::LANES * S::LANES;
                if whole > 0 {
                    let of_whole = columns.start..columns.start + whole;
                    Product {
                        sizes: [row_count, steps.len(), whole],
                        left,
                        left_strides,
                        right,
                        right_stride,
                        out: self.out.part(0..row_count, of_whole),
                        start,
                    }
                    .compute(simd);
                }
                let rest = columns.start + whole..columns.end;
                if rest.is_empty() {
                    continue;
                }
                // Less than a vector: by way of one.
                edge.clear();
                edge.resize(row_count * S::LANES, E::ZERO);
                Product {
                    sizes: [row_count, steps.len(), S::LANES],
                    left,
                    left_strides,
                    right: &right[whole..],
                    right_stride,
                    out: Block::new(&mut edge, [row_count, S::LANES], S::LANES),
                    start: Start::Zero,
                }
                .compute(simd);
                for (row, edge) in edge.chunks_exact(S::LANES).enumerate() {
                    let out = &mut self.out.row(row)[rest.clone()];
                    for (column, (out, &edge)) in out.iter_mut().zip(edge).enumerate() {
                        *out = match start {
                            Start::Row(row) => row[whole + column] + edge,
                            Start::Sum => *out + edge,
                            _ => edge,
                        };
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
    sums.fill(E::ZERO);
    // In parts, so that what is added is not small beside the sum; and of long pieces of rows, which are read as they
    // lie.
    let rows = matrix.chunks(columns * SUMMED_ROWS);
    let mut partial = PartialSums::new(sums, rows.len());
    let tasks = partial.split(1).into_iter().zip(rows);
    let tasks = tasks.flat_map(|(sums, rows)| {
        let parts = sums.chunks_mut(SUMMED_COLUMNS).enumerate();
        parts.map(move |(part, sums)| (part * SUMMED_COLUMNS, sums, rows))
    });
    let tasks: Vec<_> = tasks.collect();
    let least = TASK_ELEMENTS.div_ceil(columns.min(SUMMED_COLUMNS) * SUMMED_ROWS);
    for_each_with(
        tasks.into_iter(),
        least,
        || (),
        |(), (first, sums, rows)| {
            for row in rows.chunks_exact(columns) {
                add(&row[first..first + sums.len()], sums);
            }
        },
    );
    partial.add_up(1);
}
