//! Rows of a matrix that belong to a tile.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The place of a tile's rows in a matrix.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct RowsAt {
    /// The index of the first row's first element.
    pub(crate) first: usize,
    /// The number of rows in the matrix, which is smaller for a tile at its end.
    pub(crate) valid: usize,
    /// The number of elements of a row.
    pub(crate) size: usize,
}

#[cube]
impl RowsAt {
    /// `valid` rows of `size` elements, the first of which has the index `row`.
    pub(crate) fn new(row: usize, valid: usize, size: usize) -> RowsAt {
        RowsAt {
            first: row * size,
            valid,
            size,
        }
    }
}

/// The rows of a tile, to read.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Rows<'a, F: Float> {
    pub(crate) elements: &'a [F],
    pub(crate) at: RowsAt,
}

#[cube]
impl<'a, F: Float> Rows<'a, F> {
    pub(crate) fn new(elements: &'a [F], at: RowsAt) -> Rows<'a, F> {
        Rows::<'a, F> { elements, at }
    }

    /// One element; 0 beyond the rows.
    pub(crate) fn element(&self, row: usize, column: usize) -> f32 {
        let mut x = 0.0f32;
        if row < self.at.valid {
            x = f32::cast_from(self.elements[self.at.first + row * self.at.size + column]);
        }
        x
    }
}
