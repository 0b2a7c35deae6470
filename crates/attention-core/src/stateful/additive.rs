//! The additive score of stateful attentions that add a term of their own: `w . tanh(W q + V k + b)`, one query at a
//! time.

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, assert_shape};
use burn_fused_layers::harness::parameter::{of_linear, value};
use burn_fused_layers::linear_of;

use super::step;
use crate::functional;
use crate::mask::Mask;
use crate::memory::Memory;
use crate::parameter::column;
use crate::score::assert_sizes;

/// The linear layers of a score: W without bias, V with b, w without bias.
///
/// # Panics
/// If a size is 0.
pub(super) fn linears(config: &str, sizes: [usize; 3], device: &Device) -> [Linear; 3] {
    assert_sizes(config, sizes);
    let [query_size, key_size, num_hiddens] = sizes;
    let linear = |from, to, bias| LinearConfig::new(from, to).with_bias(bias).init(device);
    [
        linear(query_size, num_hiddens, false),
        linear(key_size, num_hiddens, true),
        linear(num_hiddens, 1, false),
    ]
}

/// Keys, projected by V, and values, for an attention `A` to read.
pub(super) fn prepare<A: 'static>(
    key: &Linear,
    keys: Tensor<3>,
    values: Tensor<3>,
    mask: Mask,
) -> Memory {
    step::prepare::<A>(keys, values, mask, |keys| {
        linear_of("keys", of_linear(key), keys)
    })
}

/// Filters over the weights of earlier steps, one for each channel and hidden unit.
pub(super) struct Filters {
    /// `[channels, width, num_hiddens]`
    pub(super) weight: Tensor<3>,
    /// `[num_hiddens]`, the same for all keys.
    pub(super) bias: Option<Tensor<1>>,
}

/// `w . tanh(query + keys + filters * alignments)` and the bias of w, if it has one, `[batch, 1, 1, keys]`; the
/// alignments are `[batch, channels, keys]`.
pub(super) fn energies(
    query: Tensor<4>,
    memory: &Memory,
    alignments: Tensor<3>,
    filters: Filters,
    layer: &Linear,
) -> Tensor<4> {
    let query = match filters.bias {
        Some(bias) => query + bias.unsqueeze(),
        None => query,
    };
    let weight = column(layer);
    let energies =
        functional::location_score(query, &memory.rows, weight, alignments, filters.weight);
    match &layer.bias {
        Some(bias) => {
            let bias = value(bias).cast(energies.dtype());
            energies + bias.reshape([1, 1, 1, 1])
        }
        None => energies,
    }
}

/// The projected query, `[batch, 1, 1, num_hiddens]`, or `None` without examples or without keys.
///
/// # Panics
/// As [`step::query`], or if the memory's keys were not projected to `num_hiddens`.
pub(super) fn project_query<A: 'static>(
    module: &str,
    linear: &Linear,
    query: Tensor<3>,
    memory: &Memory,
    state: &Tensor<2>,
) -> Option<Tensor<4>> {
    let [query_size, num_hiddens] = linear.weight.dims();
    let dims @ [batch, _, num_keys, size] = memory.rows.keys.dims();
    assert_shape!(query, [batch, 1, query_size]);
    let query = step::query::<A>(module, query, memory, state);
    assert!(
        size == num_hiddens,
        "{module}: memory expected of its own `prepare`, with keys [{batch}, 1, {num_keys}, {num_hiddens}], got \
         {dims:?}"
    );
    query.map(|query| linear_of("query", of_linear(linear), query))
}
