//! Decoding: few queries per head, as the steps of a decoder have.
//!
//! Each row of keys and values is then read only a few times, and packing it for the products of the streaming kernels
//! would cost as much as computing with it. Here a query takes the keys that it attends to row by row, where they are:
//! a masked row is never read.

mod attended;
mod backward;
mod forward;

use cpu_kernels::Real;
use cpu_kernels::threads::for_each;

use super::stream::DotProductScore;
use crate::stream::{Attention, TileScore};
use crate::tiles::TASK_PRODUCTS;

pub(super) use backward::backward;
pub(super) use forward::forward;

/// The attention that decodes.
type Decode<'a, E> = Attention<'a, E, DotProductScore<'a, E>>;

/// Runs `run` on the items of all heads, `group` for each key head, in the number of tasks that is worth it.
fn run_tasks<E: Real, T: Send>(
    attention: &Decode<E>,
    group: usize,
    items: &mut [T],
    run: impl Fn(&mut [T]) + Send + Sync,
) {
    let sizes = attention.score.sizes();
    let [.., value_size] = attention.values.shape();
    let work = sizes.heads.group() * sizes.queries * sizes.keys * (sizes.size + value_size);
    let per_task = TASK_PRODUCTS.div_ceil(work) * group;
    for_each(items.chunks_mut(per_task), run);
}
