//! Parts and sums of slices.

use rayon::prelude::*;

use crate::Real;

/// Cuts `len` elements off the start of a slice.
pub(crate) fn take<'a, T>(slice: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    slice.split_off_mut(..len).unwrap_or_default()
}

/// Cuts a slice into `count` equal parts, which may be empty.
pub(crate) fn equal_parts<T>(mut slice: &mut [T], count: usize) -> Vec<&mut [T]> {
    let size = slice.len() / count.max(1);
    (0..count).map(|_| take(&mut slice, size)).collect()
}

/// `to += from`
#[inline(always)]
pub(crate) fn add<E: Real>(from: &[E], to: &mut [E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// `to += factor * from`
#[inline(always)]
pub(crate) fn add_multiple<E: Real>(factor: E, from: &[E], to: &mut [E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// `to += a * b`, element by element.
#[inline(always)]
pub(crate) fn add_product<E: Real>(a: &[E], b: &[E], to: &mut [E]) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to += a * b;
    }
}

/// Sums to which several tasks add: each makes its own, and they are added up in order, whatever the threads. A task
/// that is alone adds where the sums belong.
pub(crate) struct PartialSums<'a, E> {
    to: &'a mut [E],
    /// Tasks that add to the same sums.
    tasks: usize,
    partial: Vec<E>,
}

impl<'a, E: Real> PartialSums<'a, E> {
    pub(crate) fn new(to: &'a mut [E], tasks: usize) -> Self {
        let len = if tasks > 1 { tasks * to.len() } else { 0 };
        Self {
            to,
            tasks,
            partial: vec![E::ZERO; len],
        }
    }

    /// The sums of each task, where `count` groups of tasks add to equal parts of all.
    pub(crate) fn split(&mut self, count: usize) -> Vec<&mut [E]> {
        if self.tasks > 1 {
            equal_parts(&mut self.partial, count * self.tasks)
        } else {
            equal_parts(self.to, count)
        }
    }

    /// Adds up the sums of all tasks.
    pub(crate) fn add_up(self, count: usize) {
        let len = self.to.len() / count;
        if self.tasks > 1 && len > 0 {
            let partial = self.partial.par_chunks(self.tasks * len);
            let parts = self.to.par_chunks_mut(len).zip(partial);
            parts.for_each(|(to, partial)| partial.chunks(len).for_each(|from| add(from, to)));
        }
    }
}
