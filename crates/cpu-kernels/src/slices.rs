//! Parts and sums of slices.

use crate::threads::for_each;
use crate::{Buffer, Real};

/// Cuts `len` elements off the start of a slice.
pub fn take<'a, T>(slice: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    slice.split_off_mut(..len).unwrap_or_default()
}

/// Cuts a slice into `count` equal parts, which may be empty.
pub fn equal_parts<T>(mut slice: &mut [T], count: usize) -> Vec<&mut [T]> {
    let size = slice.len() / count.max(1);
    (0..count).map(|_| take(&mut slice, size)).collect()
}

/// `to += from`
#[inline(always)]
pub fn add<E: Real>(from: &[E], to: &mut [E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// Sums to which several tasks add: each task has its own, and they are added in order, whatever the threads. A single
/// task adds to the destination directly.
pub struct PartialSums<'a, E> {
    to: &'a mut [E],
    /// The number of tasks that add to the same sums.
    tasks: usize,
    partial: Buffer<E>,
}

impl<'a, E: Real> PartialSums<'a, E> {
    /// Sums for `tasks` tasks per part of `to`.
    pub fn new(to: &'a mut [E], tasks: usize) -> Self {
        let len = if tasks > 1 { tasks * to.len() } else { 0 };
        Self {
            to,
            tasks,
            partial: Buffer::zeroed(len),
        }
    }

    /// The sums of each task, where `count` groups of tasks add to equal parts of the destination.
    pub fn split(&mut self, count: usize) -> Vec<&mut [E]> {
        if self.tasks > 1 {
            equal_parts(&mut self.partial, count * self.tasks)
        } else {
            equal_parts(self.to, count)
        }
    }

    /// Adds the sums of all tasks to the destination.
    pub fn add_up(self, count: usize) {
        let len = self.to.len() / count;
        if self.tasks > 1 && len > 0 {
            let partial = self.partial.chunks(self.tasks * len);
            let parts = self.to.chunks_mut(len).zip(partial);
            for_each(parts, |(to, partial)| {
                partial.chunks(len).for_each(|from| add(from, to));
            });
        }
    }
}
