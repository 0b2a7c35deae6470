//! The scores of a step.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::threads::for_each_with;

use super::inputs::{LocationScoreInputs, OPERATION};
use super::sums::{Example, Padded, Scratch};
use crate::tiles::{LOCATION_KEYS, LOCATION_TASK};

/// As [`LocationScoreInputs::forward`].
pub(crate) fn forward<E: Real>(inputs: &LocationScoreInputs<E>, level: Level, scores: &mut [E]) {
    let sizes = inputs.sizes();
    check_len(OPERATION, "scores", [sizes.batch, sizes.keys], scores.len());
    if scores.is_empty() || sizes.units == 0 {
        return scores.fill(E::ZERO);
    }
    let padded = Padded::new(inputs, sizes);
    let examples = scores.chunks_exact_mut(sizes.keys).enumerate();
    let tasks = examples.flat_map(|(example, scores)| {
        let starts = (0..sizes.keys).step_by(LOCATION_TASK);
        let parts = starts.zip(scores.chunks_mut(LOCATION_TASK));
        parts.map(move |(first, scores)| (example, first, scores))
    });
    let tasks: Vec<_> = tasks.collect();
    for_each_with(tasks.into_iter(), 1, Scratch::default, |scratch, task| {
        let (example, first, scores) = task;
        let job = Forward {
            example: Example::new(inputs, sizes, &padded, example),
            keys: first..first + scores.len(),
            scratch,
            scores,
        };
        E::dispatch(level, job);
    });
}

/// The scores of some keys of an example.
struct Forward<'a, 'b, E> {
    example: Example<'a, E>,
    keys: Range<usize>,
    scratch: &'b mut Scratch<E>,
    scores: &'b mut [E],
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let (example, keys, scratch) = (self.example, self.keys, self.scratch);
        let mask = &example.mask;
        example.start(scratch);
        for first in keys.clone().step_by(LOCATION_KEYS) {
            let block = first..keys.end.min(first + LOCATION_KEYS);
            if !mask.meets(&block) {
                continue;
            }
            example.sum(simd, block, scratch);
            let rows = scratch.sums.chunks_exact(example.padded.units);
            let scores = self.scores[first - keys.start..].iter_mut();
            for (score, row) in scores.zip(rows) {
                let mut sum = simd.zero();
                let weight = example.padded.weight.chunks_exact(S::LANES);
                for (row, weight) in row.chunks_exact(S::LANES).zip(weight) {
                    let tanh = simd.tanh(simd.load(row));
                    sum = simd.mul_add(simd.load(weight), tanh, sum);
                }
                *score = simd.sum(sum);
            }
        }
        mask.fill(&keys, self.scores, E::ZERO);
    }
}
