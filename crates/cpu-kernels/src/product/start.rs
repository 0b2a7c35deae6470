//! What the sums of a product begin with.

use crate::simd::gemm::Start;

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
    pub(super) fn of_block(self, first_step: usize, first_column: usize) -> Start<'a, E> {
        match self {
            _ if first_step > 0 => Start::Sum,
            Self::Zero => Start::Zero,
            Self::Row(row) => Start::Row(&row[first_column..]),
            Self::Sum => Start::Sum,
        }
    }
}
