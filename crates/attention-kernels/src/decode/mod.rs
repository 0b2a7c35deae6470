//! Decoding: few queries per head, as the steps of a decoder have.
//!
//! Each row of keys and values is then read only a few times, and packing it for the products of the streaming kernels
//! would cost as much as computing with it. Here a query reads the keys that it attends to row by row, in place: a
//! masked row is never read.

mod attended;
mod backward;
mod forward;

use cpu_kernels::Real;
use cpu_kernels::simd::Simd;
use cpu_kernels::threads::for_each;

use crate::Rows;
use crate::gather::Gathered;
use crate::stream::{Attention, TileScore};
use crate::tiles::TASK_PRODUCTS;

pub(crate) use backward::backward;
pub(crate) use forward::forward;

/// A score of one query with rows of keys. Both methods that take `simd` are `#[inline(always)]`.
pub(crate) trait RowScore<E: Real>: TileScore<E> {
    /// The queries and the keys.
    fn rows(&self) -> [Rows<'_, E>; 2];

    /// The factors on a query before [`row_scores`](Self::row_scores), and on the scores after it.
    fn factors(&self) -> [E; 2] {
        [E::ONE; 2]
    }

    /// Writes the score of each key.
    fn row_scores<S: Simd<E>>(&self, simd: S, query: &[E], keys: Gathered<E>, scores: &mut [E]);

    /// Adds the contributions of the gradients of the scores.
    fn add_row_gradients<S: Simd<E>>(
        &self,
        simd: S,
        query: &[E],
        keys: Gathered<E>,
        gradients: &[E],
        to: RowGradients<E>,
    );
}

/// The requested gradients of a query and of the keys of its head.
pub(crate) struct RowGradients<'a, E> {
    /// `[size]`
    pub query: Option<&'a mut [E]>,
    /// `[keys, size]`
    pub keys: Option<&'a mut [E]>,
    /// `[shared]`; empty if not requested.
    pub shared: &'a mut [E],
}

/// Runs `run` on the items of all heads, `group` for each key head, in as many tasks as are worthwhile.
fn run_tasks<E: Real, T: TileScore<E>, I: Send>(
    attention: &Attention<E, T>,
    group: usize,
    items: &mut [I],
    run: impl Fn(&mut [I]) + Send + Sync,
) {
    let sizes = attention.score.sizes();
    let [.., value_size] = attention.values.shape();
    let work = sizes.heads.group() * sizes.queries * sizes.keys * (sizes.size + value_size);
    let per_task = TASK_PRODUCTS.div_ceil(work) * group;
    for_each(items.chunks_mut(per_task), run);
}
