//! Views of four-axis tensors.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::Half;

use crate::HeadIndex;

/// A tensor `[batch, heads, rows, size]` whose last axis is contiguous; the others may be strided, also with stride 0
/// (an expanded axis).
///
/// Half precision is widened to `E` where a kernel reads it, a row or a tile at a time.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, E> {
    data: Elements<'a, E>,
    shape: [usize; 4],
    strides: [usize; 3],
}

#[derive(Clone, Copy, Debug)]
enum Elements<'a, E> {
    Whole(&'a [E]),
    Half(Half<'a>),
}

/// Some elements of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a, E>(Elements<'a, E>);

impl<'a, E: Real> Row<'a, E> {
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        match self.0 {
            Elements::Whole(elements) => elements.len(),
            Elements::Half(elements) => elements.len(),
        }
    }

    #[inline(always)]
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        Self(match self.0 {
            Elements::Whole(elements) => Elements::Whole(&elements[range]),
            Elements::Half(elements) => Elements::Half(elements.part(range)),
        })
    }

    /// Copies all elements to `to`, of the same length.
    #[inline(always)]
    pub(crate) fn copy_to(self, to: &mut [E]) {
        match self.0 {
            Elements::Whole(elements) => to.copy_from_slice(elements),
            Elements::Half(elements) => E::widen(elements, to),
        }
    }

    /// The elements in place, or in `scratch`, which is only used if they are in half precision.
    #[inline(always)]
    pub(crate) fn read<'b>(self, scratch: &'b mut Vec<E>) -> &'b [E]
    where
        'a: 'b,
    {
        match self.0 {
            Elements::Whole(elements) => elements,
            Elements::Half(elements) => {
                scratch.resize(elements.len(), E::ZERO);
                E::widen(elements, scratch);
                scratch
            }
        }
    }
}

/// The rows of one head, with their storage known before a loop begins.
pub(crate) enum Head<'a, E> {
    Whole(HeadRows<&'a [E]>),
    Half(HeadRows<Half<'a>>),
}

#[derive(Clone, Copy)]
pub(crate) struct HeadRows<D> {
    /// The elements from the first row on.
    data: D,
    stride: usize,
}

/// Some elements of a row, in place or in `scratch`, which is only used in half precision.
pub(crate) trait Fetch<E> {
    fn fetch<'b>(&'b self, row: usize, part: Range<usize>, scratch: &'b mut Vec<E>) -> &'b [E];
}

impl<E: Real> Fetch<E> for HeadRows<&[E]> {
    #[inline(always)]
    fn fetch<'b>(&'b self, row: usize, part: Range<usize>, _scratch: &'b mut Vec<E>) -> &'b [E] {
        &self.data[row * self.stride + part.start..][..part.len()]
    }
}

impl<E: Real> Fetch<E> for HeadRows<Half<'_>> {
    #[inline(always)]
    fn fetch<'b>(&'b self, row: usize, part: Range<usize>, scratch: &'b mut Vec<E>) -> &'b [E] {
        let start = row * self.stride + part.start;
        let elements = self.data.part(start..start + part.len());
        Row(Elements::Half(elements)).read(scratch)
    }
}

impl<'a, E> Rows<'a, E> {
    /// A contiguous tensor.
    ///
    /// # Panics
    /// If `data` does not fit `shape`.
    pub fn contiguous(data: &'a [E], shape: [usize; 4]) -> Self {
        let [_, heads, rows, size] = shape;
        let expected = checked_product(shape);
        assert!(
            data.len() == expected,
            "Rows: {shape:?} expected {expected} elements, got {}",
            data.len()
        );
        Self {
            data: Elements::Whole(data),
            shape,
            strides: [heads * rows * size, rows * size, size],
        }
    }

    /// A tensor whose element `[b, h, i, x]` is `data[b * strides[0] + h * strides[1] + i * strides[2] + x]`.
    ///
    /// # Panics
    /// If an element lies outside `data`.
    pub fn strided(data: &'a [E], shape: [usize; 4], strides: [usize; 3]) -> Self {
        Self::new(Elements::Whole(data), data.len(), shape, strides)
    }

    /// As [`strided`](Self::strided), for a tensor in half precision.
    ///
    /// # Panics
    /// If an element lies outside `data`.
    pub fn half(data: Half<'a>, shape: [usize; 4], strides: [usize; 3]) -> Self {
        Self::new(Elements::Half(data), data.len(), shape, strides)
    }

    fn new(data: Elements<'a, E>, len: usize, shape: [usize; 4], strides: [usize; 3]) -> Self {
        let mut rows = Self {
            data,
            shape,
            strides,
        };
        if shape.contains(&0) {
            // No element is ever read.
            rows.strides = [0; 3];
            return rows;
        }
        let [.., size] = shape;
        let last = (0..3).try_fold(size, |sum, axis| {
            sum.checked_add((shape[axis] - 1).checked_mul(strides[axis])?)
        });
        let last = last.unwrap_or(usize::MAX);
        assert!(
            last <= len,
            "Rows: {shape:?} with strides {strides:?} expected at least {last} elements, got {len}"
        );
        rows
    }

    /// `[batch, heads, rows, size]`
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// The start of a head.
    #[inline(always)]
    fn start(&self, at: HeadIndex) -> usize {
        at.batch * self.strides[0] + at.head * self.strides[1]
    }

    /// The elements from the first to the last row, gaps between rows included; `rows` is not empty.
    #[inline(always)]
    fn range(&self, at: HeadIndex, rows: Range<usize>) -> Range<usize> {
        let [.., stride] = self.strides;
        let start = self.start(at) + rows.start * stride;
        start..start + (rows.len() - 1) * stride + self.shape[3]
    }
}

impl<'a, E: Real> Rows<'a, E> {
    /// One row, `[size]`.
    #[inline(always)]
    pub(crate) fn row(&self, at: HeadIndex, row: usize) -> Row<'a, E> {
        Row(self.data).part(self.range(at, row..row + 1))
    }

    #[inline(always)]
    pub(crate) fn head(&self, at: HeadIndex) -> Head<'a, E> {
        let [.., stride] = self.strides;
        let start = self.start(at);
        match self.data {
            Elements::Whole(data) => Head::Whole(HeadRows {
                data: &data[start..],
                stride,
            }),
            Elements::Half(data) => Head::Half(HeadRows {
                data: data.part(start..data.len()),
                stride,
            }),
        }
    }

    /// Some rows of one head, as a slice from the start of the first row to the end of the last, and the stride between
    /// rows; `rows` is not empty. `None` in half precision.
    #[inline(always)]
    pub(crate) fn in_place(&self, at: HeadIndex, rows: Range<usize>) -> Option<(&'a [E], usize)> {
        match self.data {
            Elements::Whole(data) => Some((&data[self.range(at, rows)], self.strides[2])),
            Elements::Half(_) => None,
        }
    }

    /// As [`in_place`](Self::in_place), or a copy of the rows in `scratch`.
    #[inline(always)]
    pub(crate) fn block<'b>(
        &self,
        at: HeadIndex,
        rows: Range<usize>,
        scratch: &'b mut Vec<E>,
    ) -> (&'b [E], usize)
    where
        'a: 'b,
    {
        if let Some(block) = self.in_place(at, rows.clone()) {
            return block;
        }
        let size = self.shape[3];
        scratch.resize(rows.len() * size, E::ZERO);
        for (row, to) in rows.zip(scratch.chunks_exact_mut(size)) {
            self.row(at, row).copy_to(to);
        }
        (scratch, size)
    }
}

/// # Panics
/// If the product exceeds the address space.
fn checked_product(shape: [usize; 4]) -> usize {
    let product = shape
        .iter()
        .try_fold(1_usize, |product, size| product.checked_mul(*size));
    product.unwrap_or_else(|| panic!("Rows: {shape:?} has more elements than memory can hold"))
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    fn at(batch: usize, head: usize) -> HeadIndex {
        HeadIndex { batch, head }
    }

    #[test]
    fn rows_follow_the_strides() {
        let data: Vec<f32> = (0_u8..24).map(f32::from).collect();
        let rows = Rows::contiguous(&data, [2, 2, 3, 2]);
        assert_eq!(rows.row(at(1, 0), 2).read(&mut Vec::new()), [16.0, 17.0]);
        // [batch, rows, heads, size] seen as [batch, heads, rows, size], and one example seen twice.
        let rows = Rows::strided(&data, [2, 3, 4, 2], [0, 2, 6]);
        assert_eq!(rows.row(at(1, 2), 1).read(&mut Vec::new()), [10.0, 11.0]);
    }

    #[test]
    fn half_precision_is_widened_where_it_is_read() {
        let data: Vec<bf16> = (0_u8..24).map(bf16::from).collect();
        let rows = Rows::<f64>::half(Half::Bf16(&data), [2, 3, 4, 2], [0, 2, 6]);
        assert_eq!(rows.row(at(1, 2), 1).read(&mut Vec::new()), [10.0, 11.0]);
        assert!(rows.in_place(at(0, 1), 1..3).is_none());
        let mut scratch = Vec::new();
        let block = rows.block(at(0, 1), 1..3, &mut scratch);
        assert_eq!(block, (&[8.0, 9.0, 14.0, 15.0][..], 2));
    }

    #[test]
    #[should_panic(expected = "[1, 1, 2, 3] expected 6 elements, got 5")]
    fn too_little_data_is_refused() {
        Rows::contiguous(&[0.0; 5], [1, 1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "elements, got 64")]
    fn strides_that_overflow_are_refused() {
        Rows::strided(&[0.0; 64], [1, 1, 16, 16], [0, 0, usize::MAX / 15]);
    }

    #[test]
    #[should_panic(expected = "expected at least 7 elements, got 6")]
    fn strides_that_reach_outside_are_refused() {
        Rows::strided(&[0.0; 6], [1, 1, 2, 3], [0, 0, 4]);
    }
}
