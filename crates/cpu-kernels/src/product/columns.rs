//! Products with few rows: each task packs its columns of the right operand itself, and processes all steps, or those
//! in the copy of the left operand.
//!
//! Gradients of weights are such products: a row for each input of a layer, a step for each token.

use std::ops::Range;

use super::aligned::Aligned;
use super::left::Left;
use super::matrix::Matrix;
use super::pack::{PackPanels, Panels};
use super::parts::parts;
use super::start::ProductStart;
use super::tile::Tile;
use crate::simd::{Block, Job, Level, Simd};
use crate::threads::for_each_with;
use crate::tiles::{
    OWN_PANEL_LEFT, OWN_PANELS, PRODUCT_PANEL, PRODUCT_ROWS, PRODUCT_STEPS, PRODUCT_TASK_ROWS,
};
use crate::{Buffer, Real};

/// As [`compute`](super::compute()), with the same bits, for operands that fit together and have at least one step.
pub(super) fn compute<E: Real>(
    level: Level,
    left: &[Matrix<E>],
    right: &[Matrix<E>],
    start: ProductStart<E>,
    out: &mut [E],
) {
    let ([rows, _], [_, columns]) = (left[0].sizes(), right[0].sizes());
    let steps = right.iter().map(|right| right.sizes()[0]).sum();
    let tile = tile_sizes(rows, columns, rayon::current_num_threads());
    let steps_at_once = match Left::is_copied(left) {
        true => (OWN_PANEL_LEFT / rows / PRODUCT_STEPS).max(1) * PRODUCT_STEPS,
        false => steps,
    };
    let mut buffer = Buffer::default();
    let mut whole = Block::new(out, [rows, columns], columns);
    for steps in parts(0..steps, steps_at_once) {
        let left = Left::new(level, left, [0..rows, steps.clone()], &mut buffer);
        let tiles = whole.part(0..rows, 0..columns).tiles(tile);
        for_each_with(
            tiles.into_iter(),
            1,
            Aligned::default,
            |buffer, ([first_row, first_column], out)| {
                let task = Task {
                    left,
                    first_row,
                    right,
                    steps: steps.clone(),
                    first_column,
                    start,
                    out,
                    buffer,
                };
                E::dispatch(level, task);
            },
        );
    }
}

/// The rows and columns of a task: several tasks for each thread, if there are enough panels, or enough rows to pack
/// each panel more than once. Tiles share no sums, so the division changes no bit.
fn tile_sizes(rows: usize, columns: usize, threads: usize) -> [usize; 2] {
    let panels = columns.div_ceil(PRODUCT_PANEL);
    let of_columns = (panels / (3 * threads)).clamp(1, OWN_PANELS);
    let parts = (2 * threads).div_ceil(panels);
    let parts = parts.min(rows.div_ceil(PRODUCT_TASK_ROWS));
    let of_rows = rows.div_ceil(parts).next_multiple_of(PRODUCT_ROWS);
    [of_rows, of_columns * PRODUCT_PANEL]
}

/// The product of some rows with some columns.
struct Task<'a, E> {
    /// The steps.
    left: Left<'a, E>,
    /// The first of the task's rows in the left operand.
    first_row: usize,
    right: &'a [Matrix<'a, E>],
    /// The rows of the right operand.
    steps: Range<usize>,
    /// The first of the task's columns in the right operand.
    first_column: usize,
    /// The addend of the first steps; a row covers all columns.
    start: ProductStart<'a, E>,
    out: Block<'a, E>,
    /// Space for packing.
    buffer: &'a mut Aligned<E>,
}

impl<E: Real> Job<E> for Task<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let [rows, columns] = self.out.sizes();
        let panels = columns.div_ceil(PRODUCT_PANEL);
        for steps in parts(self.steps.clone(), PRODUCT_STEPS) {
            let count = steps.len();
            let packed = self.buffer.of_len(panels * count * PRODUCT_PANEL);
            PackPanels {
                matrices: self.right,
                steps: steps.clone(),
                columns: self.first_column..self.first_column + columns,
                to: packed,
            }
            .run(simd);
            let left = self.left.steps_from(steps.start - self.steps.start);
            for of_rows in parts(0..rows, PRODUCT_TASK_ROWS) {
                Tile {
                    left,
                    first_row: self.first_row + of_rows.start,
                    steps: count,
                    panels: Panels::packed(packed, [0..count, 0..columns]),
                    first_column: 0,
                    start: self.start.of_block(steps.start, self.first_column),
                    out: self.out.part(of_rows, 0..columns),
                }
                .run(simd);
            }
        }
    }
}
