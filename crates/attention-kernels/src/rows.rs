//! Views of four-axis tensors.

use std::ops::Range;

/// A tensor `[batch, heads, rows, size]` whose last axis is contiguous; the others may be strided, stride 0 (an
/// expanded axis) included.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, E> {
    data: &'a [E],
    shape: [usize; 4],
    strides: [usize; 3],
}

impl<'a, E> Rows<'a, E> {
    /// A contiguous tensor.
    ///
    /// # Panics
    /// If `data` has not as many numbers as `shape`.
    pub fn contiguous(data: &'a [E], shape: [usize; 4]) -> Self {
        let [_, heads, rows, size] = shape;
        let expected = checked_product(shape);
        assert!(
            data.len() == expected,
            "Rows: {shape:?} expected {expected} numbers, got {}",
            data.len()
        );
        Self {
            data,
            shape,
            strides: [heads * rows * size, rows * size, size],
        }
    }

    /// A tensor whose element `[b, h, i, x]` is `data[b * strides[0] + h * strides[1] + i * strides[2] + x]`.
    ///
    /// # Panics
    /// If an element lies outside of `data`.
    pub fn strided(data: &'a [E], shape: [usize; 4], strides: [usize; 3]) -> Self {
        if shape.contains(&0) {
            // No number is ever read.
            let strides = [0; 3];
            return Self {
                data,
                shape,
                strides,
            };
        }
        let [.., size] = shape;
        let last = (0..3).try_fold(size, |sum, axis| {
            sum.checked_add((shape[axis] - 1).checked_mul(strides[axis])?)
        });
        let last = last.unwrap_or(usize::MAX);
        assert!(
            last <= data.len(),
            "Rows: {shape:?} with strides {strides:?} expected at least {last} numbers, got {}",
            data.len()
        );
        Self {
            data,
            shape,
            strides,
        }
    }

    /// `[batch, heads, rows, size]`
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// One row, `[size]`.
    #[inline(always)]
    pub fn row(&self, batch: usize, head: usize, row: usize) -> &'a [E] {
        let start = batch * self.strides[0] + head * self.strides[1] + row * self.strides[2];
        &self.data[start..start + self.shape[3]]
    }

    /// Some rows of one head, as a slice from the first number of the first to the last number of the last, and the
    /// stride between rows; `rows` is not empty.
    #[inline(always)]
    pub(crate) fn block(&self, batch: usize, head: usize, rows: Range<usize>) -> (&'a [E], usize) {
        let [.., stride] = self.strides;
        let start = batch * self.strides[0] + head * self.strides[1] + rows.start * stride;
        let len = (rows.len() - 1) * stride + self.shape[3];
        (&self.data[start..start + len], stride)
    }
}

/// # Panics
/// If the product is more than memory can hold.
fn checked_product(shape: [usize; 4]) -> usize {
    let product = shape
        .iter()
        .try_fold(1_usize, |product, size| product.checked_mul(*size));
    product.unwrap_or_else(|| panic!("Rows: {shape:?} has more numbers than memory can hold"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_strides() {
        let data: Vec<usize> = (0..24).collect();
        let rows = Rows::contiguous(&data, [2, 2, 3, 2]);
        assert_eq!(rows.row(1, 0, 2), [16, 17]);
        // [batch, rows, heads, size] seen as [batch, heads, rows, size], and one example seen twice.
        let rows = Rows::strided(&data, [2, 3, 4, 2], [0, 2, 6]);
        assert_eq!(rows.row(1, 2, 1), [10, 11]);
    }

    #[test]
    #[should_panic(expected = "[1, 1, 2, 3] expected 6 numbers, got 5")]
    fn too_little_data_is_refused() {
        Rows::contiguous(&[0; 5], [1, 1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "numbers, got 64")]
    fn strides_that_overflow_are_refused() {
        Rows::strided(&[0; 64], [1, 1, 16, 16], [0, 0, usize::MAX / 15]);
    }

    #[test]
    #[should_panic(expected = "expected at least 7 numbers, got 6")]
    fn strides_that_reach_outside_are_refused() {
        Rows::strided(&[0; 6], [1, 1, 2, 3], [0, 0, 4]);
    }
}
