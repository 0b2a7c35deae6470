//! The start of a product's sums.

use crate::simd::gemm::Start;

/// The summand that a product is added to.
#[derive(Clone, Copy, Debug)]
pub enum ProductStart<'a, E> {
    /// Nothing.
    Zero,
    /// A row, the same for all rows of the result: the bias of a linear layer.
    Row(&'a [E]),
    /// The elements that the result holds.
    Sum,
}

impl<'a, E> ProductStart<'a, E> {
    /// The start of a block of the product that begins at `first_step` and `first_column`.
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
