//! Rotation of pairs of features, for rotary position embedding.

use cpu_kernels::Real;
use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::threads::{TASK_ELEMENTS, for_each};

use crate::{AttentionReal, HeadIndex, Rows};

const OPERATION: &str = "rotate";

/// The angles by which the pairs of neighbouring features of each row are turned; all heads of all examples share them.
///
/// # Shapes
/// - `[rows, size / 2]`, contiguous
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a, E> {
    /// The cosine of each angle.
    pub cosines: &'a [E],
    /// The sine of each angle.
    pub sines: &'a [E],
}

impl<E: AttentionReal> Rotation<'_, E> {
    /// Turns each pair: `to[2 n] = x cos - y sin` and `to[2 n + 1] = y cos + x sin`, where `x` and `y` are the elements
    /// `2 n` and `2 n + 1` of `rows`.
    ///
    /// # Shapes
    /// - rows, to `[batch, heads, rows, size]`, `to` contiguous
    ///
    /// # Panics
    /// If the shapes do not fit together or `size` is odd.
    pub fn turn(&self, level: Level, rows: Rows<E>, to: &mut [E]) {
        E::rotate(level, self, E::ONE, rows, to);
    }

    /// Turns by the negative angles: the inverse, and the gradient, of [`turn`](Self::turn).
    ///
    /// # Panics
    /// As [`turn`](Self::turn).
    pub fn turn_back(&self, level: Level, rows: Rows<E>, to: &mut [E]) {
        E::rotate(level, self, -E::ONE, rows, to);
    }
}

/// Turns by the angles, times `direction`: 1 or -1.
pub(crate) fn rotate<E: Real>(
    level: Level,
    rotation: &Rotation<E>,
    direction: E,
    rows: Rows<E>,
    to: &mut [E],
) {
    let shape @ [.., num_rows, size] = rows.shape();
    assert!(
        size.is_multiple_of(2),
        "{OPERATION}: size expected even, got {size}"
    );
    let angles = [1, 1, num_rows, size / 2];
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

    /// A loop over pairs, which the compiler makes vectors of: it loads two, takes them apart and puts them together
    /// again. Products are not fused with sums, so that every level gives the same bits, those of the definition.
    #[inline(always)]
    fn run<S: Simd<E>>(self, _simd: S) {
        let [_, heads, num_rows, size] = self.rows.shape();
        let mut wide = Vec::new();
        for (row, to) in (self.first..).zip(self.to.chunks_exact_mut(size)) {
            let (at, row) = (HeadIndex::nth(row / num_rows, heads), row % num_rows);
            let from = self.rows.row(at, row).read(&mut wide);
            let angles = row * (size / 2)..(row + 1) * (size / 2);
            let cosines = &self.rotation.cosines[angles.clone()];
            let sines = &self.rotation.sines[angles];
            let pairs = to.chunks_exact_mut(2).zip(from.chunks_exact(2));
            for ((to, from), (&cosine, &sine)) in pairs.zip(cosines.iter().zip(sines)) {
                let sine = self.direction * sine;
                to[0] = from[0] * cosine - from[1] * sine;
                to[1] = from[1] * cosine + from[0] * sine;
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

    #[test]
    fn rows_are_turned_by_the_angles_of_their_positions_at_every_level() {
        // `[batch, rows, heads, size]` seen as `[batch, heads, rows, size]`, in more than one task.
        let shape @ [batch, heads, rows, size] = [2, 3, 97, 62];
        let data = elements(batch * heads * rows * size, 0.7);
        let view = Rows::strided(&data, shape, [rows * heads * size, size, heads * size]);
        let angles = elements(rows * size / 2, 1.3);
        let [cosines, sines] = [f32::cos, f32::sin].map(|of| {
            let of_angles = angles.iter().map(|angle| of(*angle));
            of_angles.collect::<Vec<f32>>()
        });
        let rotation = Rotation {
            cosines: &cosines,
            sines: &sines,
        };
        let mut expected = vec![0.0; data.len()];
        for (at, expected) in expected.iter_mut().enumerate() {
            let (x, row) = (at % size, at / size % rows);
            let (head, b) = (at / size / rows % heads, at / size / rows / heads);
            let element = |x: usize| data[((b * rows + row) * heads + head) * size + x];
            let (cosine, sine) = (
                cosines[row * size / 2 + x / 2],
                sines[row * size / 2 + x / 2],
            );
            *expected = if x.is_multiple_of(2) {
                element(x) * cosine - element(x + 1) * sine
            } else {
                element(x) * cosine + element(x - 1) * sine
            };
        }
        for level in Level::available() {
            let mut turned = vec![f32::NAN; data.len()];
            rotation.turn(level, view, &mut turned);
            assert_eq!(turned, expected, "{level:?}");
            let mut back = vec![f32::NAN; data.len()];
            rotation.turn_back(level, Rows::contiguous(&turned, shape), &mut back);
            for (at, back) in back.iter().enumerate() {
                let (head, b) = (at / size / rows % heads, at / size / rows / heads);
                let (x, row) = (at % size, at / size % rows);
                let was = data[((b * rows + row) * heads + head) * size + x];
                assert!((back - was).abs() < 1e-6, "{level:?}: {at}: {back} {was}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "size expected even, got 3")]
    fn an_odd_size_is_refused() {
        let rotation = Rotation {
            cosines: &[1.0_f64],
            sines: &[0.0],
        };
        let rows = Rows::contiguous(&[1.0, 2.0, 3.0], [1, 1, 1, 3]);
        rotation.turn(Level::current(), rows, &mut [0.0; 3]);
    }
}
