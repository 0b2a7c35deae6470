//! The gradients of a decoding step.

use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::slices::add;
use cpu_kernels::threads::for_each_with;
use cpu_kernels::{Buffer, Real};

use super::attended::GroupWeights;
use super::gradient::{self, GradOutputs};
use super::{Decode, Group};
use crate::Rows;
use crate::additive::gradient::ScoreGradients;
use crate::gather::{AttendedKeys, add_multiples};
use crate::slices::{parts_of_wanted, softmax_gradient};
use crate::stream::{AttentionGradients, AttentionOutputs, KeyValueGradients, Wanted};
use crate::tiles::DECODE_HEADS;

/// Adds the requested gradients of queries and weight, and adds or writes the requested gradients of keys and values;
/// sizes were checked.
pub(in crate::additive) fn backward<E: Real>(
    level: Level,
    attention: &Decode<E>,
    outputs: &AttentionOutputs<E>,
    gradients: AttentionGradients<E>,
) {
    let heads = attention.score.heads;
    let wanted = gradients.wanted();
    let [.., units] = attention.score.inputs.queries.shape();
    let count = heads.key_count();
    let mut partial_weights = Buffer::zeroed(count * units);
    let queries = parts_of_wanted(gradients.queries, count).into_iter();
    let slices = queries.zip(gradients.keys_and_values.split(count));
    let tasks = slices.zip(partial_weights.chunks_mut(units)).enumerate();
    let least = DECODE_HEADS.div_ceil(heads.group());
    for_each_with(tasks, least, Scratch::default, |scratch, task| {
        let (index, ((queries, keys_and_values), weight)) = task;
        let job = Backward {
            group: Group::nth(attention, index),
            context_gradient: outputs.context_gradient,
            saved: outputs.weights.map(|weights| {
                let len = weights.len() / count;
                &weights[index * len..(index + 1) * len]
            }),
            wanted,
            scratch,
            queries,
            weight,
            keys_and_values,
        };
        E::dispatch(level, job);
    });
    if let Some(weight) = gradients.weight {
        for partial in partial_weights.chunks_exact(units) {
            add(partial, weight);
        }
    }
}

/// The buffers that a thread fills anew for each group.
#[derive(Default)]
struct Scratch<'a, E> {
    weights: GroupWeights<'a, E>,
    attended: AttendedKeys<E>,
    /// The gradients of the weights of a query.
    gradient: Vec<E>,
    sums: gradient::Scratch<E>,
    /// A row of the gradient of the context, if it must be widened.
    wide: Vec<E>,
}

/// The gradients of one key head.
struct Backward<'a, 'b, E> {
    group: Group<'a, E>,
    context_gradient: Rows<'a, E>,
    /// The weights, `[group, queries, keys]`.
    saved: Option<&'b [E]>,
    wanted: Wanted,
    scratch: &'b mut Scratch<'a, E>,
    /// `[group, queries, units]`
    queries: Option<&'b mut [E]>,
    weight: &'b mut [E],
    keys_and_values: KeyValueGradients<'b, E>,
}

impl<E: Real> Job<E> for Backward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let (group, wanted) = (self.group, self.wanted);
        let mut keys_and_values = self.keys_and_values;
        let Scratch {
            weights: group_weights,
            attended,
            gradient,
            sums,
            wide,
        } = self.scratch;
        let values = &group.attention.values;
        let [_, _, num_keys, _] = values.shape();
        match self.saved {
            Some(saved) => group_weights.restore(&group, saved),
            None => group_weights.compute(simd, &group, None),
        }
        let (first, stride) = (group_weights.first, group_weights.stride);
        // Replaces the weights by the gradients of the scores: ds = p (f dw - D), dw = dC . v.
        for row in 0..group.len() {
            let (head, query) = (group.head(row), group.query(row));
            let upstream = self.context_gradient.row(head, query).read(wide);
            group_weights.list(&group, row, attended);
            if wanted.through_scores() {
                gradient.resize(attended.keys.len(), E::ZERO);
                let values = attended.rows(values, group.key);
                values.dots(simd, upstream, gradient);
                for (gradient, factor) in gradient.iter_mut().zip(&attended.factors) {
                    *gradient = *gradient * *factor;
                }
                softmax_gradient(&attended.weights, 0.0, gradient);
                let to = &mut group_weights.weights[row * stride..(row + 1) * stride];
                to.fill(E::ZERO);
                for (key, gradient) in attended.keys.iter().zip(&*gradient) {
                    to[key - first] = *gradient;
                }
            }
            attended.apply_dropout();
            let AttendedKeys { keys, weights, .. } = &*attended;
            match &mut keys_and_values {
                KeyValueGradients::Added { values, .. } => {
                    if let Some(values) = values {
                        add_multiples(simd, keys, weights, E::ONE, upstream, values);
                    }
                }
                KeyValueGradients::Deferred { weights: to, .. } => {
                    if let Some(to) = to {
                        let to = &mut to[row * num_keys..(row + 1) * num_keys];
                        for (key, weight) in keys.iter().zip(weights) {
                            to[*key] = *weight;
                        }
                    }
                }
            }
        }
        let (to_keys, to_scores) = match keys_and_values {
            KeyValueGradients::Added { keys, .. } => (keys, None),
            KeyValueGradients::Deferred { scores, .. } => (None, scores),
        };
        let last = num_keys.min(first + stride);
        let scores = ScoreGradients {
            keys: first..last,
            gradient: &group_weights.weights,
            stride,
        };
        if wanted.queries || wanted.shared || to_keys.is_some() {
            let to = GradOutputs {
                queries: self.queries,
                keys: to_keys,
                weight: self.weight,
            };
            sums.add(simd, &group, &scores, to);
        }
        if let Some(to) = to_scores {
            let rows = group_weights.weights.chunks_exact(stride.max(1));
            for (from, to) in rows.zip(to.chunks_exact_mut(num_keys)) {
                to[first..last].copy_from_slice(&from[..last - first]);
            }
        }
    }
}
