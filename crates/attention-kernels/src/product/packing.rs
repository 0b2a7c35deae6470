//! Matrices that many products share, packed once.

use std::ops::Range;
use std::sync::OnceLock;

use super::pack::pack;
use super::{Matrix, parts};
use crate::checks::check_shape;
use crate::tiles::{PRODUCT_COLUMNS, PRODUCT_STEPS};
use crate::{Level, Real};

/// What the packing of a matrix made, for all products with that matrix: empty at first, filled by the first of them.
#[derive(Debug)]
pub struct Packing<E>(OnceLock<Packed<E>>);

#[derive(Debug)]
struct Packed<E> {
    /// Of the matrix.
    sizes: [usize; 2],
    blocks: Vec<Vec<E>>,
}

impl<E> Default for Packing<E> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<E: Real> Packing<E> {
    /// The blocks of which [`product`](super::product()) multiplies one after the other.
    pub(super) fn of_matrix(&self, level: Level, matrix: Matrix<E>) -> &[Vec<E>] {
        let [steps, columns] = matrix.sizes();
        let blocks = parts(0..columns, PRODUCT_COLUMNS).flat_map(|columns| {
            parts(0..steps, PRODUCT_STEPS).map(move |steps| [steps, columns.clone()])
        });
        self.of_blocks(level, matrix, blocks)
    }

    /// These blocks, each of steps and columns.
    ///
    /// # Panics
    /// If the packing is that of another shape.
    pub(crate) fn of_blocks(
        &self,
        level: Level,
        matrix: Matrix<E>,
        blocks: impl Iterator<Item = [Range<usize>; 2]>,
    ) -> &[Vec<E>] {
        let packed = self.0.get().unwrap_or_else(|| {
            let blocks = blocks.map(|block| {
                let mut buffer = Vec::new();
                pack(level, matrix, block, &mut buffer);
                buffer
            });
            let packed = Packed {
                sizes: matrix.sizes(),
                blocks: blocks.collect(),
            };
            // Packed before, and not inside: it waits for other threads, which may want this packing, too.
            self.0.get_or_init(|| packed)
        });
        check_shape("packing", "matrix", packed.sizes, matrix.sizes());
        &packed.blocks
    }
}
