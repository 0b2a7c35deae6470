//! Sums over queries, for many steps' gradients at once.

use rayon::prelude::*;

use crate::listed::weighted_sum;
use crate::simd::{Job, Level, Real, Simd};
use crate::{Rows, stream};

/// Multiply-adds in a task: some tens of microseconds.
const TASK: usize = 1 << 18;

/// As [`crate::add_pairs`].
pub(super) fn add_pairs<E: Real>(
    level: Level,
    factor: E,
    pairs: &[E],
    rows: Rows<E>,
    to: &mut [E],
) {
    let [batch, heads, num_queries, size] = rows.shape();
    let num_rows = batch * heads * num_queries;
    if pairs.is_empty() || to.is_empty() {
        return;
    }
    let num_keys = pairs.len() / num_rows.max(1);
    let expected = [batch, heads, num_queries, num_keys];
    assert!(
        pairs.len() == num_rows * num_keys,
        "add_pairs: pairs expected {expected:?}, got {} numbers",
        pairs.len()
    );
    let expected = [batch, heads, num_keys, size];
    assert!(
        to.len() == batch * heads * num_keys * size,
        "add_pairs: sums expected {expected:?}, got {} numbers",
        to.len()
    );
    // Half of what makes the factor small goes before the sums and half after: neither end of the range is reached.
    let half = E::from_f64((0.5 * factor.abs().to_f64().log2().min(0.0)).floor().exp2());
    let (half, factor) = match half > E::ZERO {
        true => (half, factor / half),
        false => (E::ONE, factor),
    };
    let work = num_queries * num_keys * size;
    let sums: Vec<_> = stream::equal_parts(to, batch * heads);
    sums.into_par_iter()
        .zip(pairs.par_chunks(num_queries * num_keys))
        .enumerate()
        .with_min_len(TASK.div_ceil(work.max(1)))
        .for_each(|(head, (to, pairs))| {
            let at = [head / heads, head % heads];
            E::dispatch(
                level,
                AddPairs {
                    half,
                    factor,
                    pairs,
                    rows,
                    at,
                    to,
                },
            );
        });
}

/// The sums of one head.
struct AddPairs<'a, 'b, E> {
    half: E,
    factor: E,
    /// `[queries, keys]`
    pairs: &'a [E],
    rows: Rows<'a, E>,
    at: [usize; 2],
    /// `[keys, size]`
    to: &'b mut [E],
}

impl<E: Real> Job<E> for AddPairs<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self {
            half,
            factor,
            pairs,
            rows,
            at,
            to,
        } = self;
        let [_, _, num_queries, size] = rows.shape();
        let num_keys = pairs.len() / num_queries;
        let (mut queries, mut seen) = (Vec::new(), Vec::new());
        for (key, to) in to.chunks_exact_mut(size).enumerate() {
            queries.clear();
            seen.clear();
            for query in 0..num_queries {
                let pair = pairs[query * num_keys + key];
                if pair != E::ZERO {
                    queries.push(query);
                    seen.push(pair * half);
                }
            }
            weighted_sum(simd, &queries, &seen, &rows, at, factor, to);
        }
    }
}
