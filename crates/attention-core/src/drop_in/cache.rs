//! Projections that a decoder keeps from step to step.

use burn::nn::attention::MhaOutput;
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::linear_of;

use super::{MhaInput, MultiHeadAttention};
use crate::mask::Mask;
use crate::memory::Memory;
use crate::multi_head_attention::split;
use crate::rank::reshape;

/// Burn's `MhaCache`: the projections of the rows of earlier steps, for [`MultiHeadAttention::forward_cache`].
#[derive(Clone, Debug)]
pub struct MhaCache {
    query: Cached<4>,
    key: Cached<4>,
    value: Cached<4>,
    output: Cached<3>,
}

impl MhaCache {
    /// A cache for self-attention, whose queries, keys and values grow from step to step.
    pub fn autoregressive() -> Self {
        Self {
            query: Cached::growing(),
            key: Cached::growing(),
            value: Cached::growing(),
            output: Cached::growing(),
        }
    }

    /// A cache for cross-attention: queries grow, keys and values stay as in the first step.
    pub fn autoregressive_cross_attention() -> Self {
        Self {
            key: Cached::fixed(),
            value: Cached::fixed(),
            ..Self::autoregressive()
        }
    }
}

/// Projected rows, which lie on the last axis but one.
#[derive(Clone, Debug)]
pub struct Cached<const D: usize> {
    rows: Option<Tensor<D>>,
    grows: bool,
}

impl<const D: usize> Cached<D> {
    /// An empty cache, to which each call adds rows.
    pub fn growing() -> Self {
        Self {
            rows: None,
            grows: true,
        }
    }

    fn fixed() -> Self {
        Self {
            rows: None,
            grows: false,
        }
    }

    /// `project(rows)`; rows that are cached are not projected again.
    ///
    /// # Panics
    /// If the rows grow, and there are no more rows than are cached.
    pub fn forward(
        &mut self,
        rows: Tensor<3>,
        project: impl FnOnce(Tensor<3>) -> Tensor<D>,
    ) -> Tensor<D> {
        let projected = match self.rows.take() {
            None => project(rows),
            Some(known) if !self.grows => known,
            Some(known) => {
                let ([_, total, _], first) = (rows.dims(), known.dims()[D - 2]);
                assert!(
                    total > first,
                    "drop_in: expected more rows than the {first} of the steps before, got {total}"
                );
                let new = project(rows.narrow(1, first, total - first));
                Tensor::cat(vec![known, new], D - 2)
            }
        };
        self.rows = Some(projected.clone());
        projected
    }
}

impl MultiHeadAttention {
    /// [`forward`](Self::forward) on all rows so far; only rows that are new since the last call with `cache` are
    /// projected. As in Burn, earlier rows keep the contexts of their own steps, while their weights are those of this
    /// step: context and weights agree under a causal mask.
    ///
    /// For inference. Without weights, [`MultiHeadAttention::prepare`](crate::MultiHeadAttention::prepare) makes
    /// cheaper steps: it attends from new queries alone.
    ///
    /// # Panics
    /// If the shapes or the masks do not fit together, or there is no new row.
    pub fn forward_cache(&self, input: MhaInput, cache: &mut MhaCache) -> MhaOutput {
        let mask = input.all_masks();
        let split = |name, layer| move |rows| split(name, layer, rows, self.n_heads);
        let queries = split("queries", &self.query);
        let queries = cache.query.forward(input.query, queries);
        let keys = cache.key.forward(input.key, split("keys", &self.key));
        let values = split("values", &self.value);
        let values = cache.value.forward(input.value, values);
        let memory = Memory::of_projected(keys, values, mask);
        let attention = self.attention();
        let output = attention.attend_with_weights(queries, &memory, Mask::none());
        let [batch, _, num_queries, _] = output.context.dims();
        let dims = [batch, num_queries, self.d_model];
        let contexts = reshape(output.context.swap_dims(1, 2), dims);
        let context = cache.output.forward(contexts, |contexts| {
            linear_of("contexts", of_linear(&self.output), contexts)
        });
        MhaOutput {
            weights: output.weights,
            context,
        }
    }
}
