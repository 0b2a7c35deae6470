//! Scaled dot products: `score[i, j] = scale * (q[i] . k[j])`.

mod decode;
mod inputs;
mod stream;

use cpu_kernels::Level;

use crate::AttentionReal;
use crate::stream::{AttentionGradients, AttentionOutputs, LogSumExp};
pub use inputs::DotProductAttentionInputs;
pub(crate) use stream::DotProductScore;

impl<E: AttentionReal> DotProductAttentionInputs<'_, E> {
    /// Writes the context and the logarithm of the sum of `e^score` of each query, which the backward pass needs.
    ///
    /// A query that attends to no key, or only to scores of minus infinity, has context 0. The number of threads
    /// changes no bit.
    ///
    /// # Shapes
    /// - context `[batch, heads, queries, value_size]`
    /// - lse `[batch, heads, queries]`
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub fn forward(&self, level: Level, context: &mut [E], lse: &mut [LogSumExp]) {
        let score = DotProductScore::new(self);
        E::dot_product_forward(level, &self.attention(&score), context, lse);
    }

    /// Adds the gradients that are wanted to `gradients`; `outputs` has what [`forward`](Self::forward) wrote for the
    /// same inputs.
    ///
    /// The weights are computed again, from the scores and the log-sum-exp. Where a query attends to no key all
    /// gradients are 0, whatever the gradient of the context holds. No bit depends on which gradients are wanted, or on
    /// the number of threads.
    ///
    /// # Panics
    /// If the shapes do not fit together, a gradient of a weight is wanted, or gradients are deferred and this is not
    /// [decoding](Self::is_decode).
    pub fn backward(
        &self,
        level: Level,
        outputs: &AttentionOutputs<E>,
        gradients: AttentionGradients<E>,
    ) {
        let score = DotProductScore::new(self);
        E::dot_product_backward(level, &self.attention(&score), outputs, gradients);
    }
}
