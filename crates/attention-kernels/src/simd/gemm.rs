//! Products of small matrices that are in cache: the inner loops of the streaming kernels.
//!
//! A block of `R` rows by `V` vectors of the result stays in registers. Each step of the sum loads `V` vectors of the
//! right operand and broadcasts `R` numbers of the left one, straight from memory, for `R * V` multiply-adds: at 6 by
//! 4, ten loads for 24 multiply-adds, where the cores at hand do two of each per cycle.

use super::{Job, Real, Simd};

/// The most rows of a register block.
const ROWS: usize = 6;

/// The most vectors in a row of a register block: 6 by 4 and five vectors to work with fill 29 of 32 registers, 6 by
/// 2 and three 15 of 16.
#[inline(always)]
const fn vectors<E: Real, S: Simd<E>>() -> usize {
    if S::REGISTERS >= 32 { 4 } else { 2 }
}

/// How many columns a register block has: the width of the panels in which a right operand is best stored.
#[inline(always)]
pub(crate) const fn panel<E: Real, S: Simd<E>>() -> usize {
    vectors::<E, S>() * S::LANES
}

/// What the sum is added to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a, E> {
    /// Nothing.
    Zero,
    /// What the result holds.
    Sum,
    /// What the result holds, each row times its factor.
    Scaled(&'a [E]),
}

/// `out[r, c] = start[r, c] + sum_t left[r, t] right[t, c]`
#[derive(Debug)]
pub(crate) struct Product<'a, E> {
    /// `r`, `t`, `c`; columns are a multiple of the lanes.
    pub sizes: [usize; 3],
    pub left: &'a [E],
    /// Of `r` and `t`.
    pub left_strides: [usize; 2],
    pub right: &'a [E],
    /// Of `t`.
    pub right_stride: usize,
    pub out: &'a mut [E],
    /// Of `r`.
    pub out_stride: usize,
    pub start: Start<'a, E>,
}

impl<E: Real> Product<'_, E> {
    /// Computes it, in a function of its own: the register blocks are compiled once for each instruction set.
    #[inline(always)]
    pub(crate) fn compute<S: Simd<E>>(self, simd: S) {
        simd.call(self);
    }
}

impl<E: Real> Job<E> for Product<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            sizes: [rows, steps, columns],
            left,
            left_strides,
            right,
            right_stride,
            out,
            out_stride,
            start,
        } = self;
        if rows == 0 || columns == 0 {
            return;
        }
        let [row, step] = left_strides;
        assert!(columns.is_multiple_of(S::LANES) && columns <= out_stride);
        // Saturating: what overflows is longer than any slice.
        let reach = |count: usize, stride: usize| (count - 1).saturating_mul(stride);
        assert!(out.len() >= reach(rows, out_stride).saturating_add(columns));
        if steps > 0 {
            assert!(left.len() > reach(rows, row).saturating_add(reach(steps, step)));
            assert!(right.len() >= reach(steps, right_stride).saturating_add(columns));
        }
        if let Start::Scaled(factors) = start {
            assert!(factors.len() >= rows);
        }
        let blocks = even_blocks(columns / S::LANES, vectors::<E, S>());
        for (first_vector, width) in blocks {
            let column = first_vector * S::LANES;
            for (first_row, height) in even_blocks(rows, ROWS) {
                // SAFETY: the block's rows are less than `rows` and its columns less than `columns`, so that the
                // assertions above cover every offset; with no steps the operands are not read.
                unsafe {
                    let block = Block {
                        simd,
                        steps,
                        left: left.as_ptr().wrapping_add(first_row * row),
                        row,
                        step,
                        right: right.as_ptr().wrapping_add(column),
                        right_stride,
                        out: out.as_mut_ptr().add(first_row * out_stride + column),
                        out_stride,
                    };
                    let start = match start {
                        Start::Zero => Origin::Zero,
                        Start::Sum => Origin::Sum,
                        Start::Scaled(factors) => Origin::Scaled(factors.as_ptr().add(first_row)),
                    };
                    block.compute(height, width, start);
                }
            }
        }
    }
}

/// Cuts `0..count` into as few pieces of at most `most` as possible, of nearly equal sizes: first and size of each.
#[inline(always)]
fn even_blocks(count: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let pieces = count.div_ceil(most).max(1);
    let (size, larger) = (count / pieces, count % pieces);
    (0..pieces).map(move |piece| {
        (
            piece * size + piece.min(larger),
            size + usize::from(piece < larger),
        )
    })
}

#[derive(Clone, Copy)]
enum Origin<E> {
    Zero,
    Sum,
    Scaled(*const E),
}

/// A register block, by pointers to its first numbers.
#[derive(Clone, Copy)]
struct Block<E, S> {
    simd: S,
    steps: usize,
    left: *const E,
    row: usize,
    step: usize,
    right: *const E,
    right_stride: usize,
    out: *mut E,
    out_stride: usize,
}

impl<E: Real, S: Simd<E>> Block<E, S> {
    /// # Safety
    /// All that a block of this height and width addresses must be there.
    #[inline(always)]
    unsafe fn compute(self, height: usize, width: usize, start: Origin<E>) {
        unsafe {
            match width {
                1 => self.of_width::<1>(height, start),
                2 => self.of_width::<2>(height, start),
                3 if vectors::<E, S>() > 2 => self.of_width::<3>(height, start),
                _ if vectors::<E, S>() > 2 => self.of_width::<4>(height, start),
                _ => unreachable!("a block is at most as wide as the registers allow"),
            }
        }
    }

    /// # Safety
    /// As for `compute`.
    #[inline(always)]
    unsafe fn of_width<const V: usize>(self, height: usize, start: Origin<E>) {
        unsafe {
            match height {
                1 => self.of_size::<1, V>(start),
                2 => self.of_size::<2, V>(start),
                3 => self.of_size::<3, V>(start),
                4 => self.of_size::<4, V>(start),
                5 => self.of_size::<5, V>(start),
                _ => self.of_size::<ROWS, V>(start),
            }
        }
    }

    /// # Safety
    /// As for `compute`.
    #[inline(always)]
    unsafe fn of_size<const R: usize, const V: usize>(self, start: Origin<E>) {
        let simd = self.simd;
        // SAFETY of what follows: by the caller.
        let mut sums = [[simd.zero(); V]; R];
        let (mut left, mut right) = (self.left, self.right);
        for _ in 0..self.steps {
            let mut b = [simd.zero(); V];
            for (v, b) in b.iter_mut().enumerate() {
                *b = unsafe { load_at(simd, right.add(v * S::LANES)) };
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let a = simd.splat(unsafe { *left.add(r * self.row) });
                for (sum, &b) in sums.iter_mut().zip(&b) {
                    *sum = simd.mul_add(a, b, *sum);
                }
            }
            left = left.wrapping_add(self.step);
            right = right.wrapping_add(self.right_stride);
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                let to = unsafe { self.out.add(r * self.out_stride + v * S::LANES) };
                let sum = match start {
                    Origin::Zero => sum,
                    Origin::Sum => simd.add(unsafe { load_at(simd, to) }, sum),
                    Origin::Scaled(factors) => {
                        let factor = simd.splat(unsafe { *factors.add(r) });
                        simd.mul_add(unsafe { load_at(simd, to) }, factor, sum)
                    }
                };
                simd.store(sum, unsafe { std::slice::from_raw_parts_mut(to, S::LANES) });
            }
        }
    }
}

/// # Safety
/// As many numbers as a vector has lanes must be there.
#[inline(always)]
unsafe fn load_at<E: Real, S: Simd<E>>(simd: S, from: *const E) -> S::V {
    simd.load(unsafe { std::slice::from_raw_parts(from, S::LANES) })
}
