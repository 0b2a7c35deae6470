//! Gradients.
//!
//! With the weights `p = e^(s - lse)` of a tile, dropout factors `f` and `w = f p`, from `context = w V`:
//!
//! ```text
//! dV += w^T dC          dw = dC V^T
//! ds = p (f dw - D)     D[i] = sum_j p f dw = dC[i] . context[i]
//! ```
//!
//! and the score's own `backward` does the rest from `ds`. Lines are skipped if no requested gradient needs them. A
//! task is a key head and a chunk of its keys, for all queries that attend to them, so the gradients of keys and values
//! belong to one task. If there are several chunks, the gradients of queries are summed per chunk, and the sums added
//! in order. Chunks, and therefore all bits, depend on the sizes alone.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::simd::Level;
use cpu_kernels::slices::{PartialSums, add, take};
use cpu_kernels::threads::{self, for_each};

use super::attention::{Attention, AttentionGradients, AttentionOutputs, KeyValueGradients};
use super::pool::Pool;
use super::score::{Sizes, TileScore};
use super::sinks::add_sink_gradients;
use super::task::{GradOutputs, Partial, Task};
use crate::heads::HeadIndex;
use crate::tiles::{KEY_CHUNK, KEY_TILE, TASKS};

/// Adds the requested gradients of queries, modifiers and shared parameters, and adds or defers the requested gradients
/// of keys and values.
pub(crate) fn backward<E: Real, T: TileScore<E>>(
    level: Level,
    attention: &Attention<E, T>,
    outputs: &AttentionOutputs<E>,
    mut gradients: AttentionGradients<E>,
) {
    attention.check_backward(outputs, &gradients);
    let wanted = gradients.wanted();
    if let Some(sinks) = gradients.modifiers.sinks.take() {
        add_sink_gradients(attention, outputs, sinks);
    }
    if attention.is_decode {
        return T::decode_backward(level, attention, outputs, gradients);
    }
    let KeyValueGradients::Added { keys, values } = gradients.keys_and_values else {
        panic!(
            "{}: deferred gradients expected of decoding (see AttentionInputs::is_decode), got scores {:?}, \
             values {:?} and {}",
            T::OPERATION,
            attention.score.sizes().pairs(),
            attention.values.shape(),
            attention.modifiers.presence()
        );
    };
    let (mut key_gradient, mut value_gradient) = (keys, values);
    let (mut shared, mut modifiers) = (gradients.weight, gradients.modifiers);
    let sizes = attention.score.sizes();
    let heads = sizes.heads;
    if sizes.pairs().contains(&0) {
        return;
    }
    let [.., value_size] = attention.values.shape();
    let chunks = chunks(&sizes);
    let mut query_gradient = gradients
        .queries
        .map(|to| PartialSums::new(to, chunks.len()));
    let mut query_gradients = query_gradient
        .as_mut()
        .map(|sums| sums.split(heads.key_count()).into_iter());
    let scratches = Pool::default();
    let count = heads.key_count() * chunks.len();
    let mut tasks = Vec::with_capacity(count);
    for index in 0..count {
        let chunk = chunks[index % chunks.len()].clone();
        tasks.push(Task {
            attention,
            outputs,
            key: HeadIndex::nth(index / chunks.len(), heads.key_heads),
            scratches: &scratches,
            gradients: GradOutputs {
                queries: query_gradients.as_mut().and_then(Iterator::next),
                keys: take_wanted(&mut key_gradient, chunk.len() * sizes.size),
                values: take_wanted(&mut value_gradient, chunk.len() * value_size),
            },
            wanted,
            chunk,
        });
    }
    // A task's part of the gradient of a bias per pair is as large as the scores of its heads, so at most as many parts
    // as threads exist at a time. They are added in the order of all tasks.
    let bias = attention.modifiers.bias.filter(|_| wanted.bias);
    let is_large = bias.is_some_and(|bias| bias.shape()[2] > 1);
    let at_once = if is_large { threads::count() } else { count };
    let mut tasks = tasks.into_iter();
    while tasks.len() > 0 {
        let these: Vec<_> = tasks.by_ref().take(at_once).collect();
        let empty = these.iter().map(|task| (task.key, Partial::default()));
        let mut partials: Vec<_> = empty.collect();
        let parts = these.into_iter().zip(&mut partials);
        for_each(parts, |(task, (_, partial))| {
            *partial = E::dispatch(level, task);
        });
        for (key, partial) in partials {
            if let Some(shared) = &mut shared {
                add(&partial.shared, shared);
            }
            let biases = partial.biases;
            biases.add_to(key, sizes, &attention.modifiers, &mut modifiers);
        }
    }
    if let Some(sums) = query_gradient {
        sums.add_up(heads.key_count());
    }
}

/// Cuts `len` elements off the start of a gradient, if it is requested.
fn take_wanted<'a, E>(gradient: &mut Option<&'a mut [E]>, len: usize) -> Option<&'a mut [E]> {
    gradient.as_mut().map(|gradient| take(gradient, len))
}

/// The chunks of the keys of every head.
fn chunks(sizes: &Sizes) -> Vec<Range<usize>> {
    let keys = sizes.keys;
    let wanted = TASKS.div_ceil(sizes.heads.key_count());
    let size = keys.div_ceil(wanted).next_multiple_of(KEY_TILE);
    let size = size.max(KEY_CHUNK);
    let starts = (0..keys).step_by(size);
    starts.map(|start| start..keys.min(start + size)).collect()
}
