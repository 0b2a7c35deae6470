//! Copies of rows in the layouts that products read.

use std::ops::Range;

use super::score::STRIDE;
use crate::simd::Simd;
use crate::simd::gemm::{Product, Start, panel};
use crate::{Real, Rows};

/// The numbers of a row, and zeros up to a whole number of vectors.
#[inline(always)]
pub(crate) fn padded<E: Real, S: Simd<E>>(size: usize) -> usize {
    size.next_multiple_of(S::LANES)
}

/// Copies rows times `factor`, each padded with zeros.
#[inline(always)]
pub(crate) fn pack_rows<E: Real, S: Simd<E>>(
    simd: S,
    rows: &Rows<E>,
    [batch, head]: [usize; 2],
    range: Range<usize>,
    factor: E,
    packed: &mut Vec<E>,
) {
    let [.., size] = rows.shape();
    let stride = padded::<E, S>(size);
    packed.resize(range.len() * stride, E::ZERO);
    if stride == 0 {
        return;
    }
    let factor = simd.splat(factor);
    for (i, to) in range.zip(packed.chunks_exact_mut(stride)) {
        rows.row(batch, head, i).copy_to(&mut to[..size]);
        to[size..].fill(E::ZERO);
        for to in to.chunks_exact_mut(S::LANES) {
            simd.store(simd.mul(simd.load(to), factor), to);
        }
    }
}

/// Transposes rows into panels: number `x` of row `r` is at `(r / W) * W * size + x * W + r % W`, where `W` is the
/// panel width of the level. What the last panel lacks in rows is left undefined.
#[inline(always)]
pub(crate) fn pack_panels<E: Real, S: Simd<E>>(
    simd: S,
    rows: &Rows<E>,
    [batch, head]: [usize; 2],
    range: Range<usize>,
    packed: &mut Vec<E>,
) {
    let [.., size] = rows.shape();
    let width = panel::<E, S>();
    packed.resize(range.len().next_multiple_of(width) * size, E::ZERO);
    if size == 0 || range.is_empty() {
        return;
    }
    let mut scratch = Vec::new();
    for (first, to) in range
        .clone()
        .step_by(width)
        .zip(packed.chunks_exact_mut(width * size))
    {
        let of_panel = first..range.end.min(first + width);
        let count = of_panel.len();
        let (data, stride) = rows.block(batch, head, of_panel, &mut scratch);
        for r in (0..count).step_by(S::LANES) {
            let from = &data[r * stride..];
            let lanes = S::LANES.min(count - r);
            let mut x = 0;
            if lanes == S::LANES {
                while x + S::LANES <= size {
                    simd.transpose(&from[x..], stride, &mut to[x * width + r..], width);
                    x += S::LANES;
                }
            }
            for x in x..size {
                for lane in 0..lanes {
                    to[x * width + r + lane] = from[lane * stride + x];
                }
            }
        }
    }
}

/// `out[i, j] = sum_x left[i, x] rows[j, x]` for `rows` in panels, each of `size` numbers, and `j` in `range`, which
/// starts at a multiple of the panel width. `left` comes with its stride, `out` has the tiles'. Columns up to the next
/// multiple of the lanes are written too.
#[inline(always)]
pub(crate) fn multiply_panels<E: Real, S: Simd<E>>(
    simd: S,
    rows: usize,
    (left, left_stride): (&[E], usize),
    panels: &[E],
    size: usize,
    range: Range<usize>,
    out: &mut [E],
) {
    let width = panel::<E, S>();
    for first in range.clone().step_by(width) {
        let columns = width.min(range.end - first).next_multiple_of(S::LANES);
        Product {
            sizes: [rows, size, columns],
            left,
            left_strides: [left_stride, 1],
            right: &panels[first * size..],
            right_stride: width,
            out: &mut out[first - range.start..],
            out_stride: STRIDE,
            start: Start::Zero,
        }
        .compute(simd);
    }
}

/// Lists the rows that hold an infinity or NaN, in increasing order.
#[inline(always)]
pub(crate) fn find_non_finite<E: Real, S: Simd<E>>(
    simd: S,
    data: &[E],
    stride: usize,
    size: usize,
    found: &mut Vec<usize>,
) {
    found.clear();
    if size == 0 || data.is_empty() {
        return;
    }
    // Gaps between the rows may hold anything: the quick look is for contiguous rows.
    if stride == size && all_finite(simd, data) {
        return;
    }
    for (r, row) in data.chunks(stride).enumerate() {
        if !all_finite(simd, &row[..size]) {
            found.push(r);
        }
    }
}

/// A finite number times 0 is 0; the sum of these is NaN if any number is not finite.
#[inline(always)]
fn all_finite<E: Real, S: Simd<E>>(simd: S, numbers: &[E]) -> bool {
    let mut sums = [simd.zero(); 4];
    let mut chunks = numbers.chunks_exact(4 * S::LANES);
    for chunk in &mut chunks {
        for (sum, from) in sums.iter_mut().zip(chunk.chunks_exact(S::LANES)) {
            *sum = simd.mul_add(simd.load(from), simd.zero(), *sum);
        }
    }
    let rest: E = chunks.remainder().iter().map(|&x| x * E::ZERO).sum();
    let [a, b, c, d] = sums;
    simd.sum(simd.add(simd.add(a, b), simd.add(c, d))) + rest == E::ZERO
}

/// Sets whole rows to 0.
pub(crate) fn clear_rows<E: Real>(data: &mut [E], stride: usize, rows: &[usize]) {
    for &row in rows {
        data[row * stride..][..stride].fill(E::ZERO);
    }
}

/// Rows as the right operand of a product whose left operand is 0 where a row is hidden: one that is not finite is
/// held as zeros, since `0 * NaN` is NaN.
#[derive(Debug, Default)]
pub(crate) struct FiniteRows<E> {
    copy: Vec<E>,
    /// Nothing had to be changed: the rows are used where they are.
    in_place: bool,
    /// The rows that are not finite, counted from the start of the range.
    pub(crate) non_finite: Vec<usize>,
    pub(crate) range: Range<usize>,
}

impl<E: Real> FiniteRows<E> {
    #[inline(always)]
    pub(crate) fn pack<S: Simd<E>>(
        &mut self,
        simd: S,
        rows: &Rows<E>,
        place: [usize; 2],
        range: Range<usize>,
    ) {
        let [.., size] = rows.shape();
        self.range = range.clone();
        self.non_finite.clear();
        if range.is_empty() {
            return;
        }
        let in_place = rows
            .in_place(place[0], place[1], range.clone())
            .filter(|(_, stride)| *stride == size && size.is_multiple_of(S::LANES));
        if let Some((data, stride)) = in_place {
            find_non_finite(simd, data, stride, size, &mut self.non_finite);
        }
        self.in_place = in_place.is_some() && self.non_finite.is_empty();
        if !self.in_place {
            pack_rows(simd, rows, place, range, E::ONE, &mut self.copy);
            let stride = padded::<E, S>(size);
            find_non_finite(simd, &self.copy, stride, stride, &mut self.non_finite);
            clear_rows(&mut self.copy, stride, &self.non_finite);
        }
    }

    /// The rows from `first` on, each padded to a whole number of vectors. `rows` and `place` are as for `pack`.
    #[inline(always)]
    pub(crate) fn from<'a>(
        &'a self,
        rows: &Rows<'a, E>,
        [batch, head]: [usize; 2],
        first: usize,
        stride: usize,
    ) -> &'a [E] {
        match rows.in_place(batch, head, first..self.range.end) {
            Some((data, _)) if self.in_place => data,
            _ => &self.copy[(first - self.range.start) * stride..],
        }
    }
}
