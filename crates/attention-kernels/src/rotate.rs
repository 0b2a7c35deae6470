//! Rotation of pairs of features, for rotary position embedding.

use cpu_kernels::Real;
use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::threads::{TASK_ELEMENTS, for_each};

use crate::{AttentionReal, HeadIndex, Rows};

const OPERATION: &str = "rotate";

/// The layout of the pairs, among the first `2 * pairs` features of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairLayout {
    /// Neighbours: pair `n` has the features `2 n` and `2 n + 1`.
    Interleaved,
    /// One feature of each half: pair `n` has the features `n` and `n + pairs`.
    HalfSplit,
}

/// The angles by which the pairs of features of each row are rotated, shared by all heads.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a, E> {
    /// The cosine of each angle, contiguous.
    pub cosines: &'a [E],
    /// The sine of each angle, contiguous.
    pub sines: &'a [E],
    /// The shape of both, `[batch or 1, rows, pairs]`.
    pub shape: [usize; 3],
    /// The features that form a pair. Features after `2 * pairs` stay as they are.
    pub layout: PairLayout,
}

impl<E: AttentionReal> Rotation<'_, E> {
    /// Rotates each pair `x`, `y` to `x cos - y sin`, `y cos + x sin`.
    ///
    /// # Shapes
    /// - rows, to `[batch, heads, rows, size]`, `to` contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn turn(&self, level: Level, rows: Rows<E>, to: &mut [E]) {
        E::rotate(level, self, E::ONE, rows, to);
    }

    /// Rotates by the negative angles: the inverse, and the gradient, of [`turn`](Self::turn).
    ///
    /// # Panics
    /// As [`turn`](Self::turn).
    pub fn turn_back(&self, level: Level, rows: Rows<E>, to: &mut [E]) {
        E::rotate(level, self, -E::ONE, rows, to);
    }
}

/// Rotates by the angles times `direction`, 1 or -1.
pub(crate) fn rotate<E: Real>(
    level: Level,
    rotation: &Rotation<E>,
    direction: E,
    rows: Rows<E>,
    to: &mut [E],
) {
    let shape @ [batch, _, num_rows, size] = rows.shape();
    let angles @ [examples, angle_rows, pairs] = rotation.shape;
    assert!(
        (examples == batch || examples == 1) && angle_rows == num_rows && 2 * pairs <= size,
        "{OPERATION}: angles expected [{batch} or 1, {num_rows}, at most {}], got {angles:?}",
        size / 2
    );
    check_len(OPERATION, "cosines", angles, rotation.cosines.len());
    check_len(OPERATION, "sines", angles, rotation.sines.len());
    check_len(OPERATION, "result", shape, to.len());
    if shape.contains(&0) {
        return;
    }
    let task_rows = (TASK_ELEMENTS / size).max(1);
    let tasks = to.chunks_mut(task_rows * size).enumerate();
    for_each(tasks, |(task, to)| {
        let job = Turn {
            rotation,
            direction,
            rows,
            first: task * task_rows,
            to,
        };
        E::dispatch(level, job);
    });
}

struct Turn<'a, E> {
    rotation: &'a Rotation<'a, E>,
    direction: E,
    rows: Rows<'a, E>,
    /// The first row.
    first: usize,
    to: &'a mut [E],
}

impl<E: Real> Job<E> for Turn<'_, E> {
    type Output = ();

    /// A loop over pairs that the compiler vectorises: for neighbours it loads two vectors, takes them apart and puts
    /// them together again. Products are not fused with sums, so that every level gives the bits of the definition.
    #[inline(always)]
    fn run<S: Simd<E>>(self, _simd: S) {
        let [_, heads, num_rows, size] = self.rows.shape();
        let [examples, _, pairs] = self.rotation.shape;
        let mut wide = Vec::new();
        for (row, to) in (self.first..).zip(self.to.chunks_exact_mut(size)) {
            let (at, row) = (HeadIndex::nth(row / num_rows, heads), row % num_rows);
            let (from, kept) = self.rows.row(at, row).read(&mut wide).split_at(2 * pairs);
            let (to, kept_to) = to.split_at_mut(2 * pairs);
            kept_to.copy_from_slice(kept);
            let example = if examples == 1 { 0 } else { at.batch };
            let first = (example * num_rows + row) * pairs;
            let cosines = &self.rotation.cosines[first..first + pairs];
            let sines = &self.rotation.sines[first..first + pairs];
            let angles = cosines.iter().zip(sines);
            let angles = angles.map(|(&cosine, &sine)| [cosine, self.direction * sine]);
            match self.rotation.layout {
                PairLayout::Interleaved => {
                    let pairs = to.chunks_exact_mut(2).zip(from.chunks_exact(2));
                    for ((to, from), [cosine, sine]) in pairs.zip(angles) {
                        to[0] = from[0] * cosine - from[1] * sine;
                        to[1] = from[1] * cosine + from[0] * sine;
                    }
                }
                PairLayout::HalfSplit => {
                    let (to_x, to_y) = to.split_at_mut(pairs);
                    let (x, y) = from.split_at(pairs);
                    let pairs = to_x.iter_mut().zip(to_y).zip(x.iter().zip(y));
                    for (((to_x, to_y), (&x, &y)), [cosine, sine]) in pairs.zip(angles) {
                        *to_x = x * cosine - y * sine;
                        *to_y = y * cosine + x * sine;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(count: usize, factor: f64) -> Vec<f32> {
        (0..count)
            .map(|at| (at as f64 * factor).sin() as f32)
            .collect()
    }

    /// The pair of a feature, whether the feature is its first, and the other feature.
    fn pair_of(layout: PairLayout, feature: usize, pairs: usize) -> (usize, bool, usize) {
        match layout {
            PairLayout::Interleaved => (feature / 2, feature.is_multiple_of(2), feature ^ 1),
            PairLayout::HalfSplit if feature < pairs => (feature, true, feature + pairs),
            PairLayout::HalfSplit => (feature - pairs, false, feature - pairs),
        }
    }

    /// `[batch, rows, heads, size]` seen as `[batch, heads, rows, size]`, in more than one task.
    fn check(layout: PairLayout, examples: usize, pairs: usize) {
        let shape @ [batch, heads, rows, size] = [2, 3, 97, 62];
        let data = elements(batch * heads * rows * size, 0.7);
        let view = Rows::strided(&data, shape, [rows * heads * size, size, heads * size]);
        let angles = elements(examples * rows * pairs, 1.3);
        let [cosines, sines] = [f32::cos, f32::sin].map(|of| {
            let of_angles = angles.iter().map(|angle| of(*angle));
            of_angles.collect::<Vec<f32>>()
        });
        let rotation = Rotation {
            cosines: &cosines,
            sines: &sines,
            shape: [examples, rows, pairs],
            layout,
        };
        // The indices of an element of the result, and the element that was there.
        let place = |at: usize| {
            let (x, row) = (at % size, at / size % rows);
            let (head, b) = (at / size / rows % heads, at / size / rows / heads);
            (b, row, x, ((b * rows + row) * heads + head) * size)
        };
        let mut expected = vec![0.0; data.len()];
        for (at, expected) in expected.iter_mut().enumerate() {
            let (b, row, x, first) = place(at);
            if x >= 2 * pairs {
                *expected = data[first + x];
                continue;
            }
            let (pair, is_first, other) = pair_of(layout, x, pairs);
            let angle = (b % examples * rows + row) * pairs + pair;
            let (cosine, sine) = (cosines[angle], sines[angle]);
            let (this, other) = (data[first + x], data[first + other]);
            *expected = if is_first {
                this * cosine - other * sine
            } else {
                this * cosine + other * sine
            };
        }
        for level in Level::available() {
            let what = format!("{layout:?} {examples} {pairs} {level:?}");
            let mut turned = vec![f32::NAN; data.len()];
            rotation.turn(level, view, &mut turned);
            assert_eq!(turned, expected, "{what}");
            let mut back = vec![f32::NAN; data.len()];
            rotation.turn_back(level, Rows::contiguous(&turned, shape), &mut back);
            for (at, back) in back.iter().enumerate() {
                let (_, _, x, first) = place(at);
                let was = data[first + x];
                assert!((back - was).abs() < 1e-6, "{what}: {at}: {back} {was}");
            }
        }
    }

    #[test]
    fn rows_are_turned_by_the_angles_of_their_positions_at_every_level() {
        for layout in [PairLayout::Interleaved, PairLayout::HalfSplit] {
            for (examples, pairs) in [(1, 31), (2, 31), (1, 17), (2, 17)] {
                check(layout, examples, pairs);
            }
        }
    }

    #[test]
    #[should_panic(expected = "angles expected [1 or 1, 1, at most 1], got [1, 1, 2]")]
    fn more_pairs_than_features_are_refused() {
        let rotation = Rotation {
            cosines: &[1.0_f64; 2],
            sines: &[0.0; 2],
            shape: [1, 1, 2],
            layout: PairLayout::HalfSplit,
        };
        let rows = Rows::contiguous(&[1.0, 2.0, 3.0], [1, 1, 1, 3]);
        rotation.turn(Level::current(), rows, &mut [0.0; 3]);
    }
}
