//! Modifications of scores on their way to the softmax.

use std::sync::Arc;

use attention_kernels::ScoreMod;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, TensorMetadata};
use burn::tensor::Slice;
use burn_fused_layers::harness::optional::OptionalTensor;
use burn_fused_layers::harness::tracked::{TensorMap, WithIndicesOf};
use burn_fused_layers::harness::wide::cast;

/// A user's own modification of scores.
pub(crate) type SharedScoreMod = Arc<dyn ScoreMod>;

/// `cap tanh(score / cap) + bias + relative_bias`, and a sink beside the keys.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct ScoreModifiers<B: Backend> {
    /// Added to the scores, `[batch or 1, heads or 1, queries or 1, keys]`, of their type or a more precise one.
    #[extension_type]
    pub bias: OptionalTensor<B>,
    /// Added by distance, `[batch or 1, heads or 1, 1, queries + keys - 1]`: the score of query `i` and key `j` gets
    /// element `j - i + queries - 1`.
    #[extension_type]
    pub relative_bias: OptionalTensor<B>,
    /// A logit per head whose weight goes to no value, `[heads]`.
    #[extension_type]
    pub sinks: OptionalTensor<B>,
    /// The cap, positive and finite.
    pub soft_cap: Option<f64>,
    /// A user's own modification of the sum, where a CPU kernel computes it.
    pub score_mod: Option<SharedScoreMod>,
}

impl<B: Backend> ScoreModifiers<B> {
    /// No modifications.
    pub const NONE: Self = Self {
        bias: OptionalTensor::Absent,
        relative_bias: OptionalTensor::Absent,
        sinks: OptionalTensor::Absent,
        soft_cap: None,
        score_mod: None,
    };

    /// The modifiers for another backend.
    pub(super) fn map<A: WithIndicesOf<B>>(
        self,
        tensors: &mut impl TensorMap<B, A>,
    ) -> ScoreModifiers<A> {
        ScoreModifiers {
            bias: tensors.tracked_option(self.bias),
            relative_bias: tensors.tracked_option(self.relative_bias),
            sinks: tensors.tracked_option(self.sinks),
            soft_cap: self.soft_cap,
            score_mod: self.score_mod,
        }
    }

    /// The scores, capped and with biases added, in the most precise of their types.
    pub(crate) fn modify(&self, mut scores: FloatTensor<B>) -> FloatTensor<B> {
        let [_, _, num_queries, num_keys] = scores.shape().dims();
        if let Some(cap) = self.soft_cap {
            let scaled = B::float_mul_scalar(scores, (1.0 / cap).into());
            scores = B::float_mul_scalar(B::float_tanh(scaled), cap.into());
        }
        let relative = self.relative_bias.as_option().cloned();
        let relative = relative.map(|bias| along_diagonals::<B>(bias, num_queries, num_keys));
        for bias in self.bias.as_option().cloned().into_iter().chain(relative) {
            scores = B::float_add(cast::<B>(scores, bias.dtype()), bias);
        }
        scores
    }
}

/// The matrices whose diagonals are constant: `matrix[b, h, i, j] = diagonals[b, h, 0, j - i + queries - 1]`.
///
/// A row of `n` elements is copied `queries` times, end to end, and split anew into rows of `n - 1`: each starts one
/// element earlier in its copy than the row above. No index per pair is needed, and gradients are sums.
///
/// # Shapes
/// - diagonals `[batch, heads, 1, queries + keys - 1]`, result `[batch, heads, queries, keys]`
pub(crate) fn along_diagonals<B: Backend>(
    diagonals: FloatTensor<B>,
    num_queries: usize,
    num_keys: usize,
) -> FloatTensor<B> {
    let [batch, heads, _, n] = diagonals.shape().dims();
    if num_queries == 1 {
        return diagonals;
    }
    let slice = |tensor, axis, range| {
        let mut slices = [Slice::full(); 4];
        slices[axis] = Slice::from(range);
        B::float_slice(tensor, &slices)
    };
    let copies = B::float_repeat_dim(diagonals, 2, num_queries);
    let line = B::float_reshape(copies, [batch, heads, 1, num_queries * n].into());
    let first = num_queries - 1;
    let line = slice(line, 3, first..first + num_queries * (n - 1));
    let rows = B::float_reshape(line, [batch, heads, num_queries, n - 1].into());
    slice(rows, 3, 0..num_keys)
}
