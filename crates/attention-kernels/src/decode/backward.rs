//! The gradients of a decoding step.

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::slices::add;

use super::attended::ScoredKeys;
use super::{RowGradients, RowScore, run_tasks};
use crate::gather::{AttendedKeys, add_multiples};
use crate::heads::{HeadIndex, HeadPair};
use crate::slices::{parts_of_wanted, softmax_gradient};
use crate::stream::{
    Attention, AttentionGradients, AttentionOutputs, BiasSums, KeyValueGradients, Wanted,
    sink_weight,
};

/// Adds the requested gradients of queries, biases and shared parameters, and adds or writes the requested gradients of
/// keys and values; sizes were checked.
pub(crate) fn backward<E: Real, T: RowScore<E>>(
    level: Level,
    attention: &Attention<E, T>,
    outputs: &AttentionOutputs<E>,
    gradients: AttentionGradients<E>,
) {
    let sizes = attention.score.sizes();
    let (heads, num_keys) = (sizes.heads, sizes.keys);
    let count = heads.key_count();
    let wanted = gradients.wanted();
    let queries = parts_of_wanted(gradients.queries, count).into_iter();
    let slices = queries.zip(gradients.keys_and_values.split(count));
    let of_heads = slices.enumerate();
    let sums = of_heads.map(|(index, (queries, keys_and_values))| Sums {
        key: HeadIndex::nth(index, heads.key_heads),
        queries,
        keys_and_values,
        shared: vec![E::ZERO; if wanted.shared { sizes.shared } else { 0 }],
        biases: BiasSums::new(&attention.modifiers, wanted, sizes, 0..num_keys),
    });
    let mut sums: Vec<_> = sums.collect();
    run_tasks(attention, 1, &mut sums, |sums| {
        let job = Backward {
            attention,
            outputs,
            wanted,
            sums,
        };
        E::dispatch(level, job);
    });
    let (mut modifiers, mut weight) = (gradients.modifiers, gradients.weight);
    for sums in &sums {
        let Sums { key, biases, .. } = sums;
        biases.add_to(*key, sizes, &attention.modifiers, &mut modifiers);
        if let Some(weight) = &mut weight {
            add(&sums.shared, weight);
        }
    }
}

/// The gradients of one key head, to add to.
struct Sums<'a, E> {
    key: HeadIndex,
    /// `[group, queries, key_size]`
    queries: Option<&'a mut [E]>,
    keys_and_values: KeyValueGradients<'a, E>,
    /// `[shared]`; empty if not requested.
    shared: Vec<E>,
    biases: BiasSums<E>,
}

/// Some key heads.
struct Backward<'a, 'b, E, T> {
    attention: &'a Attention<'a, E, T>,
    outputs: &'a AttentionOutputs<'a, E>,
    wanted: Wanted,
    sums: &'a mut [Sums<'b, E>],
}

impl<E: Real, T: RowScore<E>> Job<E> for Backward<'_, '_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let (attention, outputs, wanted) = (self.attention, self.outputs, self.wanted);
        let score = attention.score;
        let [all_queries, all_keys] = score.rows();
        let [_, _, num_queries, size] = all_queries.shape();
        let [_, _, num_keys, _] = all_keys.shape();
        let heads = score.sizes().heads;
        let scale = attention.dropout_scale();
        let mut keys = ScoredKeys::default();
        let mut gradient = Vec::new();
        let mut wide = Vec::new();
        for sums in self.sums {
            let key = sums.key;
            for row in 0..heads.group() * num_queries {
                let (member, query) = (row / num_queries, row % num_queries);
                let at = heads.member(key, member);
                keys.score(simd, attention, HeadPair { query: at, key }, query);
                if keys.attended.keys.is_empty() {
                    continue;
                }
                let lse = outputs.lse[at.position(heads.heads) * num_queries + query];
                keys.weigh(simd, lse.map(E::from_f64));
                let (attended, slopes) = (&mut keys.attended, &keys.slopes);
                let scaled_query = &keys.query;
                attended.draw(attention.dropout, at, query, E::ONE);
                let upstream = outputs.context_gradient.row(at, query).read(&mut wide);
                if wanted.through_scores() {
                    gradient.clear();
                    gradient.resize(attended.keys.len(), E::ZERO);
                    let values = attended.rows(&attention.values, key);
                    values.dots(simd, upstream, &mut gradient);
                    for (gradient, &kept) in gradient.iter_mut().zip(&attended.factors) {
                        *gradient = *gradient * kept * scale;
                    }
                    let sink = attention.sink(at).map(E::to_f64);
                    let sink = sink.map_or(0.0, |sink| sink_weight(sink, lse, 1.0));
                    softmax_gradient(&attended.weights, sink, &mut gradient);
                    for sums in sums.biases.rows(member, query).into_iter().flatten() {
                        for (&key, &gradient) in attended.keys.iter().zip(&gradient) {
                            sums[key] += gradient;
                        }
                    }
                    for (gradient, &slope) in gradient.iter_mut().zip(slopes) {
                        *gradient = *gradient * slope;
                    }
                }
                attended.apply_dropout();
                let queries = sums.queries.as_mut();
                let mut to = RowGradients {
                    query: queries.map(|to| &mut to[row * size..][..size]),
                    keys: None,
                    shared: &mut sums.shared,
                };
                let AttendedKeys { keys, weights, .. } = &*attended;
                match &mut sums.keys_and_values {
                    KeyValueGradients::Added {
                        keys: to_keys,
                        values: to_values,
                    } => {
                        to.keys = to_keys.as_deref_mut();
                        if let Some(to) = to_values {
                            add_multiples(simd, keys, weights, scale, upstream, to);
                        }
                    }
                    KeyValueGradients::Deferred {
                        scores: to_scores,
                        weights: to_weights,
                    } => {
                        if let Some(to) = to_scores {
                            for (key, &gradient) in keys.iter().zip(&gradient) {
                                to[row * num_keys + key] = gradient;
                            }
                        }
                        if let Some(to) = to_weights {
                            for (key, &weight) in keys.iter().zip(weights) {
                                to[row * num_keys + key] = weight * scale;
                            }
                        }
                    }
                }
                let keys = attended.rows(&all_keys, key);
                score.add_row_gradients(simd, scaled_query, keys, &gradient, to);
            }
        }
    }
}
