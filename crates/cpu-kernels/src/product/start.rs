//! The initial value of a product's sums.

use crate::simd::gemm::Start;

/// The addend of a product.
#[derive(Clone, Copy, Debug)]
pub enum ProductStart<'a, E> {
    /// Nothing.
    Zero,
    /// A row, added to all rows of the result: the bias of a linear layer.
    Row(&'a [E]),
    /// The elements already in the result.
    Sum,
}

impl<'a, E> ProductStart<'a, E> {
    /// The start for a block of the product that begins at `first_step` and `first_column`.
    #[inline(always)]
    pub(super) fn of_block(self, first_step: usize, first_column: usize) -> Start<'a, E> {
        match self {
            _ if first_step > 0 => Start::Sum,
            Self::Zero => Start::Zero,
            Self::Row(row) => Start::Row(&row[first_column..]),
            Self::Sum => Start::Sum,
        }
    }
}
