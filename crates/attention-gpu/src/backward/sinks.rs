//! The gradient of the sinks.
//!
//! A sink has the weight `p = e^(sink - maximum) / sum` and no value: a query adds `-p D` to the gradient of its logit.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::backward::{AttentionGradients, Backward, sum_of_rows};
use crate::host::tensors::cube_count;
use crate::tile::math::exp;

/// The gradients of each example and query. A unit processes one query of one head.
#[cube(launch, address_type = "dynamic")]
fn sink_gradients(
    // `[heads]`
    sinks: &[f32],
    // `[batch, heads, queries, 3]`
    statistics: &[f32],
    // `[batch, queries, heads]`
    to_sinks: &mut [f32],
    heads: usize,
    queries: usize,
) {
    if ABSOLUTE_POS >= to_sinks.len() {
        terminate!();
    }
    let head = ABSOLUTE_POS % heads;
    let query = ABSOLUTE_POS / heads % queries;
    let batch = ABSOLUTE_POS / heads / queries;
    let row = (batch * heads + head) * queries + query;
    let weight = exp(sinks[head] - statistics[3 * row]) * statistics[3 * row + 1];
    let delta = statistics[3 * row + 2];
    // A query that attends to no key has a context of 0, and so a `D` of 0, whatever the gradient of its context holds.
    let is_number = delta <= f32::MAX && delta >= f32::MIN;
    let is_keyless = weight == 1.0f32 && !is_number;
    to_sinks[ABSOLUTE_POS] = select(is_keyless, 0.0f32, -weight * delta);
}

impl Backward {
    /// Adds the gradient of the sinks, in f32, if requested.
    pub(crate) fn gradient_of_sinks(&self, gradients: &mut AttentionGradients) {
        let inputs = &self.inputs;
        let Some((sinks, statistics)) = inputs
            .modifiers
            .sinks
            .as_ref()
            .zip(self.statistics.as_ref())
        else {
            return;
        };
        if !self.wanted.sinks {
            return;
        }
        let [batch, heads, queries, _] = inputs.queries.shape().dims();
        let to_sinks = inputs.empty([batch * queries, heads]);
        let client = &inputs.queries.client;
        sink_gradients::launch(
            client,
            cube_count(client, (batch * queries * heads).div_ceil(64)),
            CubeDim::new_1d(64),
            inputs.address_type(&[statistics]),
            sinks.clone().into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            to_sinks.clone().into_buffer_arg(),
            heads,
            queries,
        );
        let sum = sum_of_rows(to_sinks);
        gradients.sinks = Some(CubeBackend::float_reshape(sum, sinks.shape()));
    }
}
