//! Matrices that many products share, packed once.

use std::ops::Range;
use std::sync::OnceLock;

use super::aligned::Aligned;
use super::matrix::Matrix;
use super::pack::pack;
use super::parts::blocks;
use crate::checks::check_shape;
use crate::{Level, Real};

/// A packed matrix for all products with that matrix: empty at first, filled by the first product. The transpose needs
/// a packing of its own.
#[derive(Debug)]
pub struct Packing<E>(OnceLock<Packed<E>>);

#[derive(Debug)]
struct Packed<E> {
    /// The sizes of the matrix.
    sizes: [usize; 2],
    is_transposed: bool,
    /// The steps and columns of each block.
    ranges: Vec<[Range<usize>; 2]>,
    blocks: Vec<Aligned<E>>,
}

impl<E> Default for Packing<E> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<E: Real> Packing<E> {
    /// The blocks that [`product`](super::product()) multiplies one after the other.
    pub(super) fn of_matrix(&self, level: Level, matrix: Matrix<E>) -> &[Aligned<E>] {
        let [steps, columns] = matrix.sizes();
        self.of_blocks(level, matrix, blocks(steps, columns))
    }

    /// These blocks, each given by its steps and columns.
    ///
    /// # Panics
    /// If the packing is for another shape, for the transpose, or for other blocks.
    pub(crate) fn of_blocks(
        &self,
        level: Level,
        matrix: Matrix<E>,
        blocks: impl Iterator<Item = [Range<usize>; 2]> + Clone,
    ) -> &[Aligned<E>] {
        let (_, _, is_transposed) = matrix.lines();
        let packed = self.0.get().unwrap_or_else(|| {
            let ranges: Vec<_> = blocks.clone().collect();
            let blocks = ranges.iter().map(|block| {
                let mut buffer = Aligned::default();
                pack(level, &[matrix], block.clone(), &mut buffer);
                buffer
            });
            let packed = Packed {
                sizes: matrix.sizes(),
                is_transposed,
                blocks: blocks.collect(),
                ranges,
            };
            // Packed outside the closure, because packing waits for other threads, which may request this packing.
            self.0.get_or_init(|| packed)
        });
        check_shape("packing", "matrix", packed.sizes, matrix.sizes());
        assert!(
            packed.is_transposed == is_transposed && blocks.eq(packed.ranges.iter().cloned()),
            "packing: expected of products of one kind, with a matrix or its transpose, got both"
        );
        &packed.blocks
    }
}
