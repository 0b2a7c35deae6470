//! Decoding: few queries per head, as the steps of a decoder have.
//!
//! Each row of keys and values is then read only a few times, and packing it for the products of the streaming kernels
//! would cost as much as computing with it. Here a query takes the keys that it attends to row by row, where they are:
//! what a masked row holds is never looked at.

mod attended;
mod backward;
mod forward;

use super::stream::DotProductScore;
use crate::Real;
use crate::stream::{Attention, Sizes, TileScore};
use crate::tiles::TASK_PRODUCTS;

pub(super) use backward::backward;
pub(super) use forward::forward;

/// The attention that decodes.
type Decode<'a, E> = Attention<'a, E, DotProductScore<'a, E>>;

/// How many key heads make a task.
fn key_heads_per_task<E: Real>(attention: &Decode<E>) -> usize {
    let Sizes {
        heads,
        queries,
        keys,
        size,
        ..
    } = attention.score.sizes();
    let [.., value_size] = attention.values.shape();
    let work = heads.group() * queries * keys * (size + value_size);
    TASK_PRODUCTS.div_ceil(work)
}
