//! The parts of a stateful attention's step for any score: one query, and keys and values of one head.

use burn::nn::Dropout;
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::drops;
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::wide::wide;

use crate::attention::AttentionOutput;
use crate::functional::{drop_weights, fill_keyless, fill_masked, fill_padding, step_context};
use crate::mask::Mask;
use crate::memory::Memory;
use crate::rank::{Sequences, from_four_axes, reshape, to_four_axes};

/// Keys, projected by `project` after their padding is cleared, and values, for an attention `A` to read.
pub(super) fn prepare<A: 'static>(
    keys: Tensor<3>,
    values: Tensor<3>,
    mask: Mask,
    project: impl FnOnce(Tensor<4>) -> Tensor<4>,
) -> Memory {
    let [batch, num_keys, _] = keys.dims();
    let (known, num_queries) = mask.without_positions();
    let known = known.resolved_for([batch, 1, num_queries, num_keys], &keys.device());
    let keys = project(fill_padding(to_four_axes(keys), &known, [1, num_queries]));
    let depends_on_positions = mask.depends_on_positions();
    let mask = if depends_on_positions { mask } else { known };
    let mut rows = Memory::of_projected(keys, to_four_axes(values), mask).rows;
    rows.shared = Some(Box::new(rows.share()));
    Memory::owned_by::<A>(rows)
}

/// The query of a step, `[batch, 1, 1, query_size]`, 0 where it attends to no key; `None` without examples or without
/// keys.
///
/// # Panics
/// If query, memory and the state's tensor `[batch, keys]` do not fit together in shape, type or device, or the memory
/// was prepared for another type than `A`.
pub(super) fn query<A: 'static>(
    module: &str,
    query: Tensor<3>,
    memory: &Memory,
    state: &Tensor<2>,
) -> Option<Tensor<4>> {
    memory.expect_owner::<A>();
    let [batch, heads, num_keys, size] = memory.rows.keys.dims();
    assert!(
        heads == 1,
        "{module}: memory expected of its own `prepare`, with keys [{batch}, 1, {num_keys}, {size}], got {:?}",
        memory.rows.keys.dims()
    );
    assert_shape!(query, [batch, 1, _]);
    expect_state(module, state, memory);
    let values = &memory.rows.values;
    let others = [
        Argument::floats("query", &query),
        Argument::floats_or_wide("state", state, values.dtype()),
    ];
    assert_together(module, values.argument("values"), others);
    (batch * num_keys > 0).then(|| {
        let query = fill_keyless(Sequences::new(query), memory.mask(), [1, num_keys]);
        query.into_tensor()
    })
}

/// # Panics
/// If the state's tensor is not `[batch, keys]` as in the memory.
pub(super) fn expect_state(module: &str, state: &Tensor<2>, memory: &Memory) {
    let expected @ [batch, num_keys] = [memory.batch_size(), memory.num_keys()];
    assert!(
        state.dims() == expected,
        "{module}: state expected for the memory's [batch, keys] = [{batch}, {num_keys}], got {:?}; \
         begin with `initial_state`, and `select` from memory and state alike",
        state.dims()
    );
}

/// 1 on the first unmasked key, `rest` on the other unmasked keys and 0 on masked ones, `[batch, keys]`.
pub(super) fn on_first_key(memory: &Memory, rest: f64) -> Tensor<2> {
    let others = per_key(memory, rest);
    let [batch, num_keys] = others.dims();
    if batch * num_keys == 0 {
        return others;
    }
    let mask = memory.mask();
    if mask.is_none() {
        return others.slice_fill([0..batch, 0..1], 1.0);
    }
    let ones = Tensor::ones([batch, 1, 1, num_keys], &others.device());
    let attended = flat(fill_masked(ones, mask, 0.0));
    let so_far = attended.clone().cumsum(1);
    let others = others.mask_fill(attended.clone().equal_elem(0), 0.0);
    others.mask_fill((so_far * attended).equal_elem(1), 1.0)
}

/// `[batch, keys]` filled with one number, in the type of states: f32 if the memory is in half precision.
pub(super) fn per_key(memory: &Memory, number: f64) -> Tensor<2> {
    let values = &memory.rows.values;
    let shape = [memory.batch_size(), memory.num_keys()];
    Tensor::full(shape, number, (&values.device(), wide(values.dtype())))
}

/// The weights of a step, `[batch, 1, 1, keys]`, as a state keeps them, `[batch, keys]`.
pub(super) fn flat(weights: Tensor<4>) -> Tensor<2> {
    let [batch, _, _, num_keys] = weights.dims();
    weights.reshape([batch, num_keys])
}

/// The weights that make the context: after dropout in training (one of the module's tensors is on a training device).
pub(super) fn dropped(dropout: &Dropout, weights: Tensor<4>, memory: &Memory) -> Tensor<4> {
    let devices = memory.rows.devices().into_iter().chain([weights.device()]);
    if drops(dropout, devices) {
        drop_weights(weights, dropout.prob)
    } else {
        weights
    }
}

/// Context and weights; `used` are the weights after dropout, all `[batch, 1, 1, keys]`.
pub(super) fn pool(weights: Tensor<4>, used: Tensor<4>, memory: &Memory) -> AttentionOutput<3> {
    let dtype = memory.rows.values.dtype();
    let [weights, used] = [weights, used].map(|weights| weights.cast(dtype));
    AttentionOutput {
        context: from_four_axes(step_context(used, &memory.rows)),
        weights: from_four_axes(weights),
    }
}

/// The step of a memory without examples or without keys.
pub(super) fn nothing(memory: &Memory) -> AttentionOutput<3> {
    let [batch, _, num_keys, value_size] = memory.rows.values.dims();
    let values = &memory.rows.values;
    AttentionOutput {
        context: Tensor::zeros([batch, 1, value_size], (&values.device(), values.dtype())),
        weights: reshape(per_key(memory, 0.0), [batch, 1, num_keys]).cast(values.dtype()),
    }
}
