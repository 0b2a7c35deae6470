//! A tile of a product, computed panel by panel.

use super::left::Left;
use super::pack::Panels;
use super::parts::parts;
use crate::Real;
use crate::simd::gemm::{Product, Start};
use crate::simd::{Block, Job, Simd};
use crate::tiles::{PRODUCT_DEPTH, PRODUCT_PANEL};

/// The product of some rows with some columns of a packed block.
pub(super) struct Tile<'a, E> {
    /// The steps of the packed block.
    pub(super) left: Left<'a, E>,
    /// The first of the tile's rows in the left operand.
    pub(super) first_row: usize,
    pub(super) steps: usize,
    pub(super) panels: Panels<'a, E>,
    /// The first of the tile's columns in the packed block, at the beginning of a panel.
    pub(super) first_column: usize,
    /// The addend of the product; a row covers all columns of the block.
    pub(super) start: Start<'a, E>,
    pub(super) out: Block<'a, E>,
}

impl<E: Real> Job<E> for Tile<'_, E> {
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
                // Less than a vector, so by way of a buffer.
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
