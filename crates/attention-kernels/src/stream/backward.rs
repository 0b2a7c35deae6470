//! Gradients.
//!
//! With the weights `p = e^(s - lse)` of a tile, dropout factors `f` and `w = f p`, from `context = w V`:
//!
//! ```text
//! dV += w^T dC          dw = dC V^T
//! ds = p (f dw - D)     D[i] = sum_j p f dw = dC[i] . context[i]
//! ```
//!
//! and the score does the rest from `ds`. A task is a key head and a chunk of its keys, for all queries that see them:
//! the gradients of keys and values then belong to one task. Where there are several chunks those of the queries are
//! summed per chunk, and the sums added in order. Chunks depend on the sizes alone, hence so do all bits.

use std::ops::Range;

use rayon::prelude::*;

use super::Attention;
use super::pool::{Pool, parts};
use super::score::{Sizes, TILE, TileScore};
use super::task::{Into, Places, Scratch, Task};
use crate::Rows;
use crate::simd::{Level, Real};

/// As many tasks as this keep the cores of most machines busy; each chunk beyond the first costs a copy of the
/// queries' gradient.
const TASKS: usize = 16;

/// The least keys in a chunk: packing queries again for each chunk must cost little beside the products.
const CHUNK: usize = 2 * TILE;

/// Where gradients are added; none is overwritten.
#[derive(Debug)]
pub(crate) struct Gradients<'a, E> {
    /// `[batch, heads, queries, query_size]`
    pub queries: &'a mut [E],
    /// `[batch, key heads, keys, key_size]`
    pub keys: &'a mut [E],
    /// `[batch, key heads, keys, value_size]`
    pub values: &'a mut [E],
    /// `[batch, heads or 1, keys]`, as the bias; empty if it is not wanted.
    pub bias: &'a mut [E],
    /// `[shared]`
    pub shared: &'a mut [E],
}

/// What the forward pass left, and the gradient of its context.
#[derive(Debug)]
pub(crate) struct Outputs<'a, E> {
    /// `[batch, heads, queries, value_size]`
    pub context: Rows<'a, E>,
    /// `[batch, heads, queries]`
    pub lse: &'a [E],
    /// `[batch, heads, queries, value_size]`
    pub context_gradient: Rows<'a, E>,
}

/// Adds the gradients of queries, keys, values, bias and shared numbers to `gradients`.
pub(crate) fn backward<E: Real, T: TileScore<E>>(
    level: Level,
    attention: &Attention<E, T>,
    outputs: &Outputs<E>,
    gradients: Gradients<E>,
) {
    let sizes = attention.check_backward(outputs, &gradients);
    let Sizes {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        ..
    } = sizes;
    if batch * heads * queries * keys == 0 {
        return;
    }
    let [.., value_size] = attention.values.shape();
    let chunks = Chunks::of(sizes);
    let count = chunks.0.len();
    let group = heads / key_heads;
    let per_task = group * queries * sizes.query_size;
    let mut sums = Vec::new();
    let query_gradients = if count == 1 {
        &mut *gradients.queries
    } else {
        sums.resize(batch * key_heads * count * per_task, E::ZERO);
        &mut sums[..]
    };
    let tasks = batch * key_heads * count;
    let query_gradients = parts(query_gradients, std::iter::repeat_n(per_task, tasks));
    let key_gradients = parts(
        gradients.keys,
        chunks.sizes(batch * key_heads, sizes.key_size),
    );
    let value_gradients = parts(
        gradients.values,
        chunks.sizes(batch * key_heads, value_size),
    );
    let slices = query_gradients
        .into_par_iter()
        .zip(key_gradients)
        .zip(value_gradients);
    let scratches = Pool::default();
    let partials: Vec<Partial<E>> = slices
        .with_max_len(1)
        .enumerate()
        .map(|(task, ((query_gradient, key_gradient), value_gradient))| {
            let (index, chunk) = (task / count, task % count);
            let (batch, key_head) = (index / key_heads, index % key_heads);
            let chunk = chunks.0[chunk].clone();
            let want_bias = !gradients.bias.is_empty();
            let mut partial = Partial {
                bias: vec![E::ZERO; if want_bias { group * chunk.len() } else { 0 }],
                shared: vec![E::ZERO; sizes.shared],
            };
            scratches.with(|scratch: &mut Scratch<E, T>| {
                let places = Places {
                    batch,
                    key_head,
                    group,
                };
                let into = Into {
                    queries: query_gradient,
                    keys: key_gradient,
                    values: value_gradient,
                    bias: &mut partial.bias,
                    shared: &mut partial.shared,
                };
                E::dispatch(
                    level,
                    Task {
                        attention,
                        outputs,
                        places,
                        chunk,
                        scratch,
                        into,
                    },
                );
            });
            partial
        })
        .collect();
    if count > 1 && per_task > 0 {
        let sums = sums.par_chunks(count * per_task);
        gradients
            .queries
            .par_chunks_mut(per_task)
            .zip(sums)
            .for_each(|(to, sums)| {
                for sum in sums.chunks(per_task) {
                    add(to, sum);
                }
            });
    }
    for (task, partial) in partials.iter().enumerate() {
        add(gradients.shared, &partial.shared);
        if let Some(bias) = attention.bias.filter(|_| !gradients.bias.is_empty()) {
            let (index, chunk) = (task / count, &chunks.0[task % count]);
            let (batch, key_head) = (index / key_heads, index % key_heads);
            let [_, bias_heads, ..] = bias.shape();
            for (member, sums) in partial.bias.chunks(chunk.len()).enumerate() {
                let head = if bias_heads == 1 {
                    0
                } else {
                    key_head * group + member
                };
                let row = &mut gradients.bias[(batch * bias_heads + head) * keys..][..keys];
                add(&mut row[chunk.clone()], sums);
            }
        }
    }
}

/// What tasks have in common, to be added up.
struct Partial<E> {
    /// `[group, keys of the chunk]`
    bias: Vec<E>,
    shared: Vec<E>,
}

/// Ranges of keys, the same for every head.
struct Chunks(Vec<Range<usize>>);

impl Chunks {
    fn of(sizes: Sizes) -> Self {
        let Sizes {
            batch,
            key_heads,
            keys,
            ..
        } = sizes;
        let wanted = TASKS.div_ceil(batch * key_heads);
        let size = keys.div_ceil(wanted).next_multiple_of(TILE).max(CHUNK);
        Self(
            (0..keys)
                .step_by(size)
                .map(|start| start..keys.min(start + size))
                .collect(),
        )
    }

    /// The numbers that belong to each chunk of each of `count` heads.
    fn sizes(&self, count: usize, size: usize) -> impl Iterator<Item = usize> {
        (0..count).flat_map(move |_| self.0.iter().map(move |chunk| chunk.len() * size))
    }
}

fn add<E: Real>(to: &mut [E], from: &[E]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += from;
    }
}
