//! Elements aligned to a cache line.

use std::ops::Deref;

use crate::tiles::CACHE_LINE;
use crate::{Buffer, Real};

/// Elements aligned to a cache line.
#[derive(Debug, Default)]
pub(crate) struct Aligned<E> {
    elements: Buffer<E>,
    first: usize,
    len: usize,
}

impl<E: Real> Aligned<E> {
    /// `len` elements to be overwritten, with any content.
    pub(crate) fn of_len(&mut self, len: usize) -> &mut [E] {
        let spare = CACHE_LINE / size_of::<E>();
        self.elements.of_len(len + spare);
        // If the alignment is unknown, it does not matter.
        self.first = self.elements.as_ptr().align_offset(CACHE_LINE).min(spare);
        self.len = len;
        &mut self.elements[self.first..self.first + len]
    }
}

impl<E> Deref for Aligned<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &self.elements[self.first..self.first + self.len]
    }
}
