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

/// `to += factor * from`
#[inline(always)]
pub fn add_multiple<E: Real>(factor: E, from: &[E], to: &mut [E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// `sum a b` in f64; what the longer slice has beyond the other is left out.
#[inline(always)]
pub fn precise_dot<E: Real>(a: &[E], b: &[E]) -> f64 {
    const SUMS: usize = 8;
    let len = a.len().min(b.len());
    let (a, b) = (a[..len].chunks_exact(SUMS), b[..len].chunks_exact(SUMS));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest: f64 = rest.map(|(a, b)| a.to_f64() * b.to_f64()).sum();
    let mut sums = [0.0; SUMS];
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a.to_f64() * b.to_f64();
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// From the gradients of the dropped weights, `gradient`, to those of the scores: `p (dw - D)` with
/// `D = sum p dw / sum p`.
///
/// They cancel: their sum is 0. What is common to all `dw` of a row must therefore leave no error in `D`, which is why
/// it is computed in f64 here, and divided by the sum of the rounded weights.
#[inline(always)]
pub fn softmax_gradient<E: Real>(weights: &[E], gradient: &mut [E]) {
    let (mut total, mut sum) = (0.0, 0.0);
    for (weight, gradient) in weights.iter().zip(&*gradient) {
        total += weight.to_f64() * gradient.to_f64();
        sum += weight.to_f64();
    }
    let mean = if sum == 0.0 { 0.0 } else { total / sum };
    for (weight, gradient) in weights.iter().zip(gradient) {
        *gradient = E::from_f64(weight.to_f64() * (gradient.to_f64() - mean));
    }
}

/// `to += weights * sums`, element by element; a sum of 0 adds nothing, whatever its weight.
#[inline(always)]
pub fn add_weighted<E: Real>(weights: &[E], sums: &[E], to: &mut [E]) {
    for ((to, &weight), &sum) in to.iter_mut().zip(weights).zip(sums) {
        *to += if sum == E::ZERO {
            E::ZERO
        } else {
            weight * sum
        };
    }
}

/// Sums to which several tasks add: each makes its own, and they are added up in order, whatever the threads. A task
/// that is alone adds where the sums belong.
pub struct PartialSums<'a, E> {
    to: &'a mut [E],
    /// Tasks that add to the same sums.
    tasks: usize,
    partial: Buffer<E>,
}

impl<'a, E: Real> PartialSums<'a, E> {
    /// Sums of `tasks` tasks for each part of `to`.
    pub fn new(to: &'a mut [E], tasks: usize) -> Self {
        let len = if tasks > 1 { tasks * to.len() } else { 0 };
        Self {
            to,
            tasks,
            partial: Buffer::zeroed(len),
        }
    }

    /// The sums of each task, where `count` groups of tasks add to equal parts of all.
    pub fn split(&mut self, count: usize) -> Vec<&mut [E]> {
        if self.tasks > 1 {
            equal_parts(&mut self.partial, count * self.tasks)
        } else {
            equal_parts(self.to, count)
        }
    }

    /// Adds up the sums of all tasks.
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
