//! Products whose right operand is packed once for all tasks.

use super::aligned::Aligned;
use super::columns;
use super::left::Left;
use super::matrix::Matrix;
use super::pack::Panels;
use super::packing::Packing;
use super::parts::{OPERATION, blocks, parts};
use super::start::ProductStart;
use super::tile::Tile;
use crate::checks::{check_len, check_shape};
use crate::simd::{Block, Level};
use crate::threads::for_each;
use crate::tiles::{
    OWN_PANEL_ROWS, PACKED_ROWS, PRODUCT_COLUMNS, PRODUCT_PANEL, PRODUCT_ROWS, PRODUCT_TASK_ROWS,
    PRODUCT_TASKS, TRANSPOSED_TILES,
};
use crate::{Buffer, Real};

/// The product of one or more left and right operands, see [`product_sum`](super::product_sum); a packing is of one.
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
                let tile = Tile {
                    left,
                    first_row,
                    steps: of_steps.len(),
                    panels,
                    first_column,
                    start,
                    out,
                };
                E::dispatch(level, tile);
            });
        }
    }
}

/// The rows and columns of a task. All its rows multiply each panel of its columns.
fn tile_sizes(rows: usize, columns: usize) -> [usize; 2] {
    let of_rows = rows
        .div_ceil(rows.div_ceil(PRODUCT_TASK_ROWS))
        .next_multiple_of(PRODUCT_ROWS);
    let tasks_of_columns = PRODUCT_TASKS.div_ceil(rows.div_ceil(of_rows));
    let of_columns = columns.min(PRODUCT_COLUMNS).div_ceil(tasks_of_columns);
    [of_rows, of_columns.next_multiple_of(PRODUCT_PANEL)]
}
