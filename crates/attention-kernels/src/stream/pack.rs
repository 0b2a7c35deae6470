//! Copies of rows in the layouts that products read.

use std::ops::Range;

use cpu_kernels::simd::gemm::{Product, Start, panel_width};
use cpu_kernels::simd::{Block, Simd};
use cpu_kernels::{Buffer, Real};

use crate::tiles::KEY_STRIDE;
use crate::{HeadIndex, Rows};

/// The size of a row, padded to a whole number of vectors.
#[inline(always)]
pub(crate) fn padded<E: Real, S: Simd<E>>(size: usize) -> usize {
    size.next_multiple_of(S::LANES)
}

/// Rows times a factor, each padded with zeros to a whole number of vectors.
#[derive(Debug, Default)]
pub(crate) struct PackedRows<E> {
    /// `[rows, stride]`
    pub data: Buffer<E>,
    pub stride: usize,
    pub count: usize,
    /// A copy with zeros for non-finite rows, if there are any.
    finite: Vec<E>,
    /// The rows that hold an infinity or NaN, in increasing order.
    pub non_finite: Vec<usize>,
}

impl<E: Real> PackedRows<E> {
    #[inline(always)]
    pub(crate) fn pack<S: Simd<E>>(
        &mut self,
        simd: S,
        rows: &Rows<E>,
        at: HeadIndex,
        range: Range<usize>,
        factor: E,
    ) {
        let [.., size] = rows.shape();
        self.stride = padded::<E, S>(size);
        self.count = range.len();
        self.data.of_len(self.count * self.stride);
        if self.stride == 0 {
            return;
        }
        let factor = simd.splat(factor);
        for (i, to) in range.zip(self.data.chunks_exact_mut(self.stride)) {
            rows.row(at, i).copy_to(&mut to[..size]);
            to[size..].fill(E::ZERO);
            for to in to.chunks_exact_mut(S::LANES) {
                simd.store(simd.mul(simd.load(to), factor), to);
            }
        }
    }

    /// Finds the non-finite rows.
    #[inline(always)]
    pub(crate) fn find_non_finite<S: Simd<E>>(&mut self, simd: S) {
        self.non_finite.clear();
        if self.stride == 0 || all_finite(simd, &self.data) {
            return;
        }
        self.finite.clear();
        self.finite.extend_from_slice(&self.data);
        for (r, row) in self.finite.chunks_exact_mut(self.stride).enumerate() {
            if !all_finite(simd, row) {
                self.non_finite.push(r);
                row.fill(E::ZERO);
            }
        }
    }

    /// The rows, with zeros for those that [`find_non_finite`](Self::find_non_finite) found.
    #[inline(always)]
    pub(crate) fn finite(&self) -> &[E] {
        if self.non_finite.is_empty() {
            &self.data
        } else {
            &self.finite
        }
    }
}

/// Rows transposed into panels: element `x` of row `r` is at `(r / W) * W * size + x * W + r % W`, where `W` is the
/// panel width of the level. Missing rows of the last panel are undefined.
#[derive(Debug, Default)]
pub(crate) struct Panels<E> {
    data: Buffer<E>,
    size: usize,
}

impl<E: Real> Panels<E> {
    #[inline(always)]
    pub(crate) fn pack<S: Simd<E>>(
        &mut self,
        simd: S,
        rows: &Rows<E>,
        at: HeadIndex,
        range: Range<usize>,
    ) {
        let [.., size] = rows.shape();
        self.size = size;
        let width = panel_width::<E, S>();
        let len = range.len().next_multiple_of(width) * size;
        self.data.of_len(len);
        if size == 0 || range.is_empty() {
            return;
        }
        let mut scratch = Vec::new();
        let panels = self.data.chunks_exact_mut(width * size);
        for (first, to) in range.clone().step_by(width).zip(panels) {
            let of_panel = first..range.end.min(first + width);
            let count = of_panel.len();
            let (data, stride) = rows.block(at, of_panel, &mut scratch);
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

    /// `out[i, j] = sum_x left[i, x] rows[j, x]` for `j` in `range` of the packed rows, which starts at a multiple of
    /// [`KEY_PANEL`](crate::tiles::KEY_PANEL). `out` is a tile; its columns up to the next multiple of the lanes are
    /// written too.
    #[inline(always)]
    pub(crate) fn multiply<S: Simd<E>>(
        &self,
        simd: S,
        left: &PackedRows<E>,
        range: Range<usize>,
        out: &mut [E],
    ) {
        for panel in self.of_rows::<S>(range) {
            let shape = [left.count, panel.columns];
            Product {
                sizes: [left.count, self.size, panel.columns],
                left: &left.data,
                left_strides: [left.stride, 1],
                right: panel.data,
                right_stride: panel.width,
                out: Block::new(&mut out[panel.first..], shape, KEY_STRIDE),
                start: Start::Zero,
            }
            .compute(simd);
        }
    }

    /// The panels of a range of the packed rows, which starts at a multiple of [`KEY_PANEL`](crate::tiles::KEY_PANEL).
    #[inline(always)]
    pub(crate) fn of_rows<S: Simd<E>>(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = Panel<'_, E>> {
        let width = panel_width::<E, S>();
        range.clone().step_by(width).map(move |first| Panel {
            data: &self.data[first * self.size..],
            width,
            first: first - range.start,
            columns: width.min(range.end - first).next_multiple_of(S::LANES),
        })
    }
}

/// Some adjacent rows of [`Panels`].
pub(crate) struct Panel<'a, E> {
    /// `[size][width]`, and the following panels.
    pub data: &'a [E],
    pub width: usize,
    /// The first row, counted from the start of the range.
    pub first: usize,
    /// The number of rows, rounded up to whole vectors.
    pub columns: usize,
}

/// A finite element times 0 is 0, so the sum of the products is NaN if any element is not finite.
#[inline(always)]
fn all_finite<E: Real, S: Simd<E>>(simd: S, elements: &[E]) -> bool {
    let mut sums = [simd.zero(); 4];
    let mut chunks = elements.chunks_exact(4 * S::LANES);
    for chunk in &mut chunks {
        for (sum, from) in sums.iter_mut().zip(chunk.chunks_exact(S::LANES)) {
            *sum = simd.mul_add(simd.load(from), simd.zero(), *sum);
        }
    }
    let rest: E = chunks.remainder().iter().map(|&x| x * E::ZERO).sum();
    let [a, b, c, d] = sums;
    simd.sum(simd.add(simd.add(a, b), simd.add(c, d))) + rest == E::ZERO
}

/// Rows as the right operand of a product whose left operand is 0 where a row is masked: non-finite rows are replaced
/// by zeros, because `0 * NaN` is NaN.
#[derive(Debug, Default)]
pub(crate) struct FiniteRows<E> {
    /// Whether the rows can be used in place, unchanged.
    in_place: bool,
    copy: PackedRows<E>,
    at: HeadIndex,
    range: Range<usize>,
}

impl<E: Real> FiniteRows<E> {
    #[inline(always)]
    pub(crate) fn pack<S: Simd<E>>(
        &mut self,
        simd: S,
        rows: &Rows<E>,
        at: HeadIndex,
        range: Range<usize>,
    ) {
        let [.., size] = rows.shape();
        self.at = at;
        self.range = range.clone();
        self.copy.non_finite.clear();
        if range.is_empty() {
            return;
        }
        self.in_place = size.is_multiple_of(S::LANES)
            && rows
                .in_place(at, range.clone())
                .is_some_and(|(data, stride)| stride == size && all_finite(simd, data));
        if !self.in_place {
            self.copy.pack(simd, rows, at, range, E::ONE);
            self.copy.find_non_finite(simd);
        }
    }

    /// The indices of the non-finite rows.
    pub(crate) fn non_finite(&self) -> impl Iterator<Item = usize> {
        let rows = self.copy.non_finite.iter();
        rows.map(|row| row + self.range.start)
    }

    /// The rows from `first` on, each padded to a whole number of vectors. `rows` are the packed rows.
    #[inline(always)]
    pub(crate) fn from<'a>(&'a self, rows: &Rows<'a, E>, first: usize) -> &'a [E] {
        match rows.in_place(self.at, first..self.range.end) {
            Some((data, _)) if self.in_place => data,
            _ => &self.copy.finite()[(first - self.range.start) * self.copy.stride..],
        }
    }
}
