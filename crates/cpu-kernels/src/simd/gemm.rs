//! Products of small matrices in cache: the inner loops of the streaming kernels.
//!
//! A block of `R` rows by `V` vectors of the result stays in registers. Each step of the sum loads `V` vectors of the
//! right operand and broadcasts `R` elements of the left one, straight from memory, for `R * V` multiply-adds: at 6 by
//! 4, ten loads for 24 multiply-adds, where the cores at hand can do two of each per cycle.
//!
//! The crate `gemm` is for large products: it packs both operands again in each call. The products here are smaller
//! than a cache, and their operands are packed once for many products, or need no packing.

use super::{Block, Float, Job, Simd, prefetch};

/// The largest number of rows of a register block.
const BLOCK_ROWS: usize = 6;

/// The largest number of vectors in a row of a register block: 6 by 4 and five working vectors fill 29 of 32 registers,
/// 6 by 2 and three fill 15 of 16.
#[inline(always)]
const fn block_vectors<E: Float, S: Simd<E>>() -> usize {
    if S::REGISTERS >= 32 { 4 } else { 2 }
}

/// The number of steps from which a register block prefetches its part of the result. A product of fewer steps (a tile
/// of a fused kernel) ends before the lines arrive, and its results are in cache already.
const PREFETCHED_STEPS: usize = 128;

/// The number of columns of a register block, and therefore the best width of panels for a right operand.
#[inline(always)]
pub const fn panel_width<E: Float, S: Simd<E>>() -> usize {
    block_vectors::<E, S>() * S::LANES
}

/// The initial value of a sum of products.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a, E> {
    /// Nothing.
    Zero,
    /// The present result.
    Sum,
    /// One row, added to every row of the result.
    Row(&'a [E]),
    /// The present result, with each row times its factor.
    Scaled(&'a [E]),
}

/// `out[r, c] = start[r, c] + sum_t left[r, t] right[t, c]`
#[derive(Debug)]
pub struct Product<'a, E> {
    /// `r`, `t` and `c`; the number of columns is a multiple of the lanes.
    pub sizes: [usize; 3],
    /// The left operand.
    pub left: &'a [E],
    /// Strides of `r` and `t`.
    pub left_strides: [usize; 2],
    /// The right operand.
    pub right: &'a [E],
    /// The stride of `t`.
    pub right_stride: usize,
    /// The result, by `r` and `c`.
    pub out: Block<'a, E>,
    /// The addend of the sum.
    pub start: Start<'a, E>,
}

impl<E: Float> Product<'_, E> {
    /// Computes it in a function of its own, so that register blocks are compiled once for each instruction set.
    #[inline(always)]
    pub fn compute<S: Simd<E>>(self, simd: S) {
        simd.call(self);
    }
}

impl<E: Float> Job<E> for Product<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            sizes: [rows, steps, columns],
            left,
            left_strides,
            right,
            right_stride,
            mut out,
            start,
        } = self;
        if rows == 0 || columns == 0 {
            return;
        }
        let [row, step] = left_strides;
        assert!(columns.is_multiple_of(S::LANES) && out.sizes() == [rows, columns]);
        let (out, out_stride) = out.raw();
        // Saturating, because anything that overflows is longer than any slice.
        let reach = |count: usize, stride: usize| (count - 1).saturating_mul(stride);
        if steps > 0 {
            assert!(left.len() > reach(rows, row).saturating_add(reach(steps, step)));
            assert!(right.len() >= reach(steps, right_stride).saturating_add(columns));
        }
        match start {
            Start::Zero | Start::Sum => {}
            Start::Row(start) => assert!(start.len() >= columns),
            Start::Scaled(factors) => assert!(factors.len() >= rows),
        }
        let blocks = even_blocks(columns / S::LANES, block_vectors::<E, S>());
        for (first_vector, width) in blocks {
            let column = first_vector * S::LANES;
            for (first_row, height) in even_blocks(rows, BLOCK_ROWS) {
                let block = RegisterBlock {
                    simd,
                    steps,
                    left: left.as_ptr().wrapping_add(first_row * row),
                    row,
                    step,
                    right: right.as_ptr().wrapping_add(column),
                    right_stride,
                    out: out.wrapping_add(first_row * out_stride + column),
                    out_stride,
                    start: match start {
                        Start::Zero => Origin::Zero,
                        Start::Sum => Origin::Sum,
                        Start::Row(start) => Origin::Row(start.as_ptr().wrapping_add(column)),
                        Start::Scaled(factors) => {
                            Origin::Scaled(factors.as_ptr().wrapping_add(first_row))
                        }
                    },
                };
                // SAFETY: the block's rows are within `rows` and its columns within `columns`, hence in the result, and
                // the assertions above cover every offset in the operands; without steps these are not read.
                unsafe { block.compute(height, width) };
            }
        }
    }
}

/// Cuts `0..count` into as few pieces of at most `most` as possible, of nearly equal sizes: the start and size of each.
#[inline(always)]
fn even_blocks(count: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let pieces = count.div_ceil(most).max(1);
    let (size, larger) = (count / pieces, count % pieces);
    (0..pieces).map(move |piece| {
        let start = piece * size + piece.min(larger);
        (start, size + usize::from(piece < larger))
    })
}

#[derive(Clone, Copy)]
enum Origin<E> {
    Zero,
    Sum,
    Row(*const E),
    Scaled(*const E),
}

/// A register block, given by pointers to its first elements.
#[derive(Clone, Copy)]
struct RegisterBlock<E, S> {
    simd: S,
    steps: usize,
    left: *const E,
    row: usize,
    step: usize,
    right: *const E,
    right_stride: usize,
    out: *mut E,
    out_stride: usize,
    start: Origin<E>,
}

impl<E: Float, S: Simd<E>> RegisterBlock<E, S> {
    /// # Safety
    /// The operands must have all elements of a block with this height and width: `height` rows of `steps` on the left,
    /// `steps` rows of `width` vectors on the right, `height` rows of `width` vectors in the result, and, if it starts
    /// from them, `height` factors or a row of `width` vectors.
    #[inline(always)]
    unsafe fn compute(self, height: usize, width: usize) {
        macro_rules! of_width {
            ($width:literal) => {
                match height {
                    1 => self.of_size::<1, $width>(),
                    2 => self.of_size::<2, $width>(),
                    3 => self.of_size::<3, $width>(),
                    4 => self.of_size::<4, $width>(),
                    5 => self.of_size::<5, $width>(),
                    _ => self.of_size::<BLOCK_ROWS, $width>(),
                }
            };
        }
        // `if const`, so that sizes that no instruction set with these registers uses are not compiled. SAFETY: the
        // caller guarantees a block of this height and width.
        unsafe {
            if const { block_vectors::<E, S>() > 2 } {
                match width {
                    1 => of_width!(1),
                    2 => of_width!(2),
                    3 => of_width!(3),
                    _ => of_width!(4),
                }
            } else {
                match width {
                    1 => of_width!(1),
                    _ => of_width!(2),
                }
            }
        }
    }

    /// # Safety
    /// As for `compute`, with the height `R` and the width `V`.
    #[inline(always)]
    unsafe fn of_size<const R: usize, const V: usize>(self) {
        let simd = self.simd;
        let to = |r: usize, v: usize| self.out.wrapping_add(r * self.out_stride + v * S::LANES);
        if self.steps >= PREFETCHED_STEPS {
            for r in 0..R {
                for v in 0..V {
                    prefetch(to(r, v));
                }
            }
        }
        let mut sums = [[simd.zero(); V]; R];
        let (mut left, mut right) = (self.left, self.right);
        for _ in 0..self.steps {
            let mut b = [simd.zero(); V];
            for (v, b) in b.iter_mut().enumerate() {
                // SAFETY: each of the `steps` rows on the right has `V` vectors.
                *b = unsafe { load_at(simd, right.add(v * S::LANES)) };
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: each of the `R` rows on the left has `steps` elements.
                let a = simd.splat(unsafe { *left.add(r * self.row) });
                for (sum, &b) in sums.iter_mut().zip(&b) {
                    *sum = simd.mul_add(a, b, *sum);
                }
            }
            // Without bounds checks: after the last step they point beyond the end, and nothing is read.
            left = left.wrapping_add(self.step);
            right = right.wrapping_add(self.right_stride);
        }
        // A loop for each start, of only a few instructions: a longer one is unrolled too late for the sums to stay in
        // registers, so that they would be zeroed in memory and read back.
        macro_rules! finish {
            (|$r:ident, $v:ident, $sum:ident, $to:ident| $result:expr) => {
                for ($r, sums) in sums.iter().enumerate() {
                    for ($v, &$sum) in sums.iter().enumerate() {
                        let $to = to($r, $v);
                        let result = $result;
                        // SAFETY: each of the `R` rows of the result has `V` vectors, and nothing else refers to it.
                        simd.store(result, unsafe {
                            std::slice::from_raw_parts_mut($to, S::LANES)
                        });
                    }
                }
            };
        }
        match self.start {
            Origin::Zero => finish!(|r, v, sum, to| sum),
            // SAFETY: each of the `R` rows of the result has `V` vectors.
            Origin::Sum => finish!(|r, v, sum, to| simd.add(unsafe { load_at(simd, to) }, sum)),
            Origin::Row(row) => finish!(|r, v, sum, to| {
                // SAFETY: the row has `V` vectors.
                let start = unsafe { load_at(simd, row.add(v * S::LANES)) };
                simd.add(start, sum)
            }),
            Origin::Scaled(factors) => finish!(|r, v, sum, to| {
                // SAFETY: there are `R` factors.
                let factor = simd.splat(unsafe { *factors.add(r) });
                // SAFETY: each of the `R` rows of the result has `V` vectors.
                simd.mul_add(unsafe { load_at(simd, to) }, factor, sum)
            }),
        }
    }
}

/// # Safety
/// `from` must have an element for each lane of a vector.
#[inline(always)]
unsafe fn load_at<E: Float, S: Simd<E>>(simd: S, from: *const E) -> S::V {
    // SAFETY: the caller guarantees the elements.
    simd.load(unsafe { std::slice::from_raw_parts(from, S::LANES) })
}
