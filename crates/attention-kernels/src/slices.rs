//! Parts and sums of slices.

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
