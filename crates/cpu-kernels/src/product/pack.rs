//! The right operand of a product, in the order in which products read it, and the transposition of either operand.

use std::ops::Range;

use super::aligned::Aligned;
use super::matrix::Matrix;
use super::parts::{parts, within};
use crate::Real;
use crate::simd::gemm::{Product, Start};
use crate::simd::{Block, Job, Level, MAX_LANES, Simd, prefetch};
use crate::threads::for_each;
use crate::tiles::{CACHE_LINE, PACKED_AHEAD, PACKED_ROWS, PRODUCT_DEPTH, PRODUCT_PANEL};

/// A block of a matrix in panels of [`PRODUCT_PANEL`] columns, `[steps, PRODUCT_PANEL]` each: packed or, for a single
/// matrix multiplied by few rows, in place. Missing columns of the last panel are 0, up to a whole number of vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panels<'a, E> {
    data: &'a [E],
    /// The distance from one panel to the next.
    panel: usize,
    /// The distance from one step to the next.
    stride: usize,
    steps: usize,
    columns: usize,
}

impl<'a, E: Real> Panels<'a, E> {
    /// A block of matrices stacked vertically, to be multiplied by `rows` rows; packed into `buffer`, if at all.
    pub(crate) fn new(
        level: Level,
        matrices: &[Matrix<'a, E>],
        [steps, columns]: [Range<usize>; 2],
        rows: usize,
        buffer: &'a mut Aligned<E>,
    ) -> Self {
        if let &[matrix] = matrices
            && let (data, stride, false) = matrix.lines()
            && rows < PACKED_ROWS
            && columns.len().is_multiple_of(MAX_LANES)
        {
            let first = steps.start * stride + columns.start;
            return Self {
                data: data.get(first..).unwrap_or_default(),
                panel: PRODUCT_PANEL,
                stride,
                steps: steps.len(),
                columns: columns.len(),
            };
        }
        pack(level, matrices, [steps.clone(), columns.clone()], buffer);
        Self::packed(buffer, [steps, columns])
    }

    /// A block that was [packed](pack).
    pub(crate) fn packed(data: &'a [E], [steps, columns]: [Range<usize>; 2]) -> Self {
        Self {
            data,
            panel: PRODUCT_PANEL * steps.len(),
            stride: PRODUCT_PANEL,
            steps: steps.len(),
            columns: columns.len(),
        }
    }

    /// `out = left matrix`, plus `start`; for few rows. The rows of `left` and `out` are strided, by the second element
    /// of each pair. Columns of `out` up to the next multiple of the lanes are written too.
    #[inline(always)]
    pub(crate) fn multiply<S: Simd<E>>(
        &self,
        simd: S,
        rows: usize,
        (left, left_stride): (&[E], usize),
        start: Start<E>,
        (out, out_stride): (&mut [E], usize),
    ) {
        for (index, columns) in parts(0..self.columns, PRODUCT_PANEL).enumerate() {
            for steps in parts(0..self.steps, PRODUCT_DEPTH) {
                let (right, right_stride) = self.panel(index, steps.start);
                let width = columns.len().next_multiple_of(S::LANES);
                Product {
                    sizes: [rows, steps.len(), width],
                    left: &left[steps.start..],
                    left_strides: [left_stride, 1],
                    right,
                    right_stride,
                    out: Block::new(&mut out[columns.start..], [rows, width], out_stride),
                    start: match start {
                        _ if steps.start > 0 => Start::Sum,
                        Start::Row(row) => Start::Row(&row[columns.start..]),
                        start => start,
                    },
                }
                .compute(simd);
            }
        }
    }

    /// A panel from a step on, and the distance from one step to the next.
    #[inline(always)]
    pub(super) fn panel(&self, index: usize, first_step: usize) -> (&'a [E], usize) {
        let first = index * self.panel + first_step * self.stride;
        (&self.data[first..], self.stride)
    }
}

/// Packs a block of matrices stacked vertically into `buffer`, panel by panel.
pub(super) fn pack<E: Real>(
    level: Level,
    matrices: &[Matrix<E>],
    [steps, columns]: [Range<usize>; 2],
    buffer: &mut Aligned<E>,
) {
    let panel = PRODUCT_PANEL * steps.len();
    let buffer = buffer.of_len(columns.len().div_ceil(PRODUCT_PANEL) * panel);
    if panel == 0 {
        return;
    }
    let panels = buffer.chunks_mut(panel).enumerate();
    for_each(panels, |(index, to)| {
        let first = columns.start + index * PRODUCT_PANEL;
        let task = PackPanels {
            matrices,
            steps: steps.clone(),
            columns: first..columns.end.min(first + PRODUCT_PANEL),
            to,
        };
        E::dispatch(level, task);
    });
}

/// Some panels of matrices stacked vertically.
pub(super) struct PackPanels<'a, E> {
    pub(super) matrices: &'a [Matrix<'a, E>],
    pub(super) steps: Range<usize>,
    pub(super) columns: Range<usize>,
    /// `[panels, steps, PRODUCT_PANEL]`, to write to.
    pub(super) to: &'a mut [E],
}

impl<E: Real> Job<E> for PackPanels<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            matrices,
            steps,
            columns,
            to,
        } = self;
        let panel = PRODUCT_PANEL * steps.len();
        let of_panels = || parts(columns.clone(), PRODUCT_PANEL);
        for (columns, to) in of_panels().zip(to.chunks_exact_mut(panel)) {
            let count = columns.len();
            let padded = count.next_multiple_of(MAX_LANES);
            if count < padded {
                for to in to.chunks_exact_mut(PRODUCT_PANEL) {
                    to[count..padded].fill(E::ZERO);
                }
            }
        }
        let counts = matrices.iter().map(|matrix| matrix.sizes()[0]);
        for (index, steps, at) in within(counts, steps) {
            let (data, stride, is_transposed) = matrices[index].lines();
            if is_transposed {
                for (columns, to) in of_panels().zip(to.chunks_exact_mut(panel)) {
                    let from = &data[columns.start * stride + steps.start..];
                    let to = (&mut to[at * PRODUCT_PANEL..], PRODUCT_PANEL);
                    transpose(simd, (from, stride), [columns.len(), steps.len()], to);
                }
            } else {
                for (row, step) in (at..).zip(steps) {
                    let from = &data[step * stride..][columns.clone()];
                    let distance = PACKED_AHEAD.wrapping_mul(stride);
                    let ahead = from.as_ptr().wrapping_add(distance);
                    for line in (0..from.len()).step_by(CACHE_LINE / size_of::<E>()) {
                        prefetch(ahead.wrapping_add(line));
                    }
                    let panels = from.chunks(PRODUCT_PANEL).zip(to.chunks_exact_mut(panel));
                    for (from, to) in panels {
                        let to = &mut to[row * PRODUCT_PANEL..];
                        // A whole panel is copied without a call.
                        match (from.first_chunk::<PRODUCT_PANEL>(), to.first_chunk_mut()) {
                            (Some(from), Some(to)) => *to = *from,
                            _ => to[..from.len()].copy_from_slice(from),
                        }
                    }
                }
            }
        }
    }
}

/// `to[c, r] = from[r, c]`, for `r` and `c` below these sizes; each slice comes with the distance of its rows.
#[inline(always)]
pub(super) fn transpose<E: Real, S: Simd<E>>(
    simd: S,
    (from, from_stride): (&[E], usize),
    [rows, columns]: [usize; 2],
    (to, to_stride): (&mut [E], usize),
) {
    for first in (0..rows).step_by(S::LANES) {
        let lanes = S::LANES.min(rows - first);
        let from = &from[first * from_stride..];
        let mut column = 0;
        if lanes == S::LANES {
            while column + S::LANES <= columns {
                let to = &mut to[column * to_stride + first..];
                simd.transpose(&from[column..], from_stride, to, to_stride);
                column += S::LANES;
            }
        }
        for column in column..columns {
            for lane in 0..lanes {
                to[column * to_stride + first + lane] = from[lane * from_stride + column];
            }
        }
    }
}
