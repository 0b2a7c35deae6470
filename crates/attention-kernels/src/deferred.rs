//! Deferred gradients of keys and values: a decoder adds the gradients of all its steps at once.

use cpu_kernels::Real;
use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::slices::equal_parts;
use cpu_kernels::threads::for_each_with;

use crate::gather::Gathered;
use crate::tiles::TASK_PRODUCTS;
use crate::{AttentionReal, HeadIndex, Rows};

/// Adds to the gradient of each key or value the contributions of its pairs with the queries.
///
/// `to[j] += factor * sum_i pairs[i, j] rows[i]`, from what the steps of a decoder have
/// [deferred](crate::KeyValueGradients::Deferred), with the queries of all steps concatenated:
///
/// - for values, `pairs` are the weights, `rows` the gradients of the contexts, and the factor is 1;
/// - for keys of a dot product, `pairs` are the gradients of the scores, `rows` the queries, and the factor is the
///   scale.
///
/// A pair of 0 adds nothing, whatever its row holds.
///
/// If `group` heads share a key head, the queries of the group are queries of the key head: without a copy, `[batch,
/// heads, queries, keys]` becomes `[batch, key_heads, group * queries, keys]`, and contiguous rows likewise.
///
/// # Shapes
/// - pairs `[batch, key_heads, queries, keys]`, contiguous
/// - rows `[batch, key_heads, queries, size]`
/// - to `[batch, key_heads, keys, size]`, contiguous
///
/// # Panics
/// If the shapes do not fit together.
pub fn accumulate_deferred<E: AttentionReal>(
    level: Level,
    factor: E,
    pairs: &[E],
    rows: Rows<E>,
    to: &mut [E],
) {
    E::accumulate_deferred(level, factor, pairs, rows, to);
}

pub(crate) fn accumulate<E: Real>(
    level: Level,
    factor: E,
    pairs: &[E],
    rows: Rows<E>,
    to: &mut [E],
) {
    let [batch, heads, num_queries, size] = rows.shape();
    if pairs.is_empty() || to.is_empty() {
        return;
    }
    let num_keys = pairs.len() / (batch * heads * num_queries).max(1);
    let operation = "accumulate_deferred";
    let shape = [batch, heads, num_queries, num_keys];
    check_len(operation, "pairs", shape, pairs.len());
    check_len(operation, "sums", [batch, heads, num_keys, size], to.len());
    // Half of a small factor's exponent is applied before the sums: neither end of the range is reached.
    let half = E::from_f64((0.5 * factor.abs().to_f64().log2().min(0.0)).floor().exp2());
    let (half, factor) = if half > E::ZERO {
        (half, factor / half)
    } else {
        (E::ONE, factor)
    };
    let work = num_queries * num_keys * size;
    let tasks = equal_parts(to, batch * heads).into_iter();
    let tasks = tasks.zip(pairs.chunks(num_queries * num_keys)).enumerate();
    let least = TASK_PRODUCTS.div_ceil(work.max(1));
    for_each_with(tasks, least, Default::default, |(), task| {
        let (index, (to, pairs)) = task;
        let sums = Sums {
            half,
            factor,
            pairs,
            rows,
            at: HeadIndex::nth(index, heads),
            to,
        };
        E::dispatch(level, sums);
    });
}

/// The sums of one head.
struct Sums<'a, 'b, E> {
    half: E,
    factor: E,
    /// `[queries, keys]`
    pairs: &'a [E],
    rows: Rows<'a, E>,
    at: HeadIndex,
    /// `[keys, size]`
    to: &'b mut [E],
}

impl<E: Real> Job<E> for Sums<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let [_, _, num_queries, size] = self.rows.shape();
        let num_keys = self.pairs.len() / num_queries;
        let (mut queries, mut weights) = (Vec::new(), Vec::new());
        for (key, to) in self.to.chunks_exact_mut(size).enumerate() {
            queries.clear();
            weights.clear();
            for query in 0..num_queries {
                let pair = self.pairs[query * num_keys + key];
                if pair != E::ZERO {
                    queries.push(query);
                    weights.push(pair * self.half);
                }
            }
            let gathered = Gathered {
                rows: self.rows,
                at: self.at,
                indices: &queries,
            };
            gathered.weighted_sum(simd, &weights, self.factor, to);
        }
    }
}
