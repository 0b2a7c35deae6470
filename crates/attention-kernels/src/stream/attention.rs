//! Inputs, outputs and gradients of the streaming kernels, for any score.

use cpu_kernels::Real;
use cpu_kernels::checks::{check_len, check_shape};
use cpu_kernels::simd::Simd;

use super::score::{Sizes, TileScore, Wanted};
use crate::slices::parts_of_wanted;
use crate::{Dropout, HeadIndex, Mask, ModifierGradients, Rows, ScoreModifiers};

/// `ln sum_j e^s_j = m + ln sum_j e^(s_j - m)` of a query, as two numbers: the largest score `m`, in the unit in which
/// the kernel computes scores, and the second term, in natural logarithms. Their sum would round the second away for
/// very large scores, and all weights of the query with it. A sink counts as one more score. Without any key or sink
/// they are minus infinity and 0.
///
/// [`AttentionInputs::log_sum_exp`](crate::AttentionInputs::log_sum_exp) gives their sum.
pub type LogSumExp = [f64; 2];

/// The [`LogSumExp`] of a query that attends to no key and has no sink.
pub(crate) const NO_KEY: LogSumExp = [f64::NEG_INFINITY, 0.0];

/// The other inputs of a backward pass: the results of the forward pass, and the gradient of the context.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOutputs<'a, E> {
    /// The context, `[batch, heads, queries, value_size]`.
    pub context: Rows<'a, E>,
    /// The logarithm of the sum of `e^score` of each query, `[batch, heads, queries]`, as the forward pass wrote it.
    pub lse: &'a [LogSumExp],
    /// The weights that [`AttentionInputs::forward_saving`](crate::AttentionInputs::forward_saving) wrote, if that was
    /// the forward pass; dot products do not use them.
    pub weights: Option<&'a [E]>,
    /// The gradient of the context, `[batch, heads, queries, value_size]`.
    pub context_gradient: Rows<'a, E>,
}

/// The requested gradients, to which a backward pass adds; contiguous.
#[derive(Debug)]
pub struct AttentionGradients<'a, E> {
    /// `[batch, heads, queries, size]`
    pub queries: Option<&'a mut [E]>,
    /// The gradients of keys and values.
    pub keys_and_values: KeyValueGradients<'a, E>,
    /// The gradients of the modifiers.
    pub modifiers: ModifierGradients<'a, E>,
    /// The gradient of the weight of additive or pairwise scores, `[size]`.
    pub weight: Option<&'a mut [E]>,
}

impl<E> AttentionGradients<'_, E> {
    pub(crate) fn wanted(&self) -> Wanted {
        let [keys, values] = match &self.keys_and_values {
            KeyValueGradients::Added { keys, values } => [keys, values],
            KeyValueGradients::Deferred { scores, weights } => [scores, weights],
        };
        Wanted {
            queries: self.queries.is_some(),
            keys: keys.is_some(),
            values: values.is_some(),
            bias: self.modifiers.bias.is_some(),
            relative_bias: self.modifiers.relative_bias.is_some(),
            shared: self.weight.is_some(),
        }
    }
}

/// The gradients of keys and values, as far as pairs of queries and keys contribute.
#[derive(Debug)]
pub enum KeyValueGradients<'a, E> {
    /// The contributions are added here.
    Added {
        /// `[batch, key_heads, keys, size]`
        keys: Option<&'a mut [E]>,
        /// `[batch, key_heads, keys, value_size]`
        values: Option<&'a mut [E]>,
    },
    /// For one of many decoding steps (`is_decode`) with the same keys and values: where a query attends to a key,
    /// writes the factors of the gradients, so that all steps can be added at once, with their queries concatenated.
    Deferred {
        /// The gradients of the scores, `[batch, heads, queries, keys]`. They give the gradients of the keys, by
        /// [`accumulate_deferred`](crate::accumulate_deferred) with the queries and, as factor, the scale of dot
        /// products, or by [`AdditiveScoreInputs::backward_keys`](crate::AdditiveScoreInputs::backward_keys); for
        /// pairwise scores there is no such function.
        scores: Option<&'a mut [E]>,
        /// The weights after dropout, `[batch, heads, queries, keys]`. With the gradients of the contexts they give the
        /// gradients of the values, by [`accumulate_deferred`](crate::accumulate_deferred).
        weights: Option<&'a mut [E]>,
    },
}

impl<E> KeyValueGradients<'_, E> {
    /// The gradients of each of `count` key heads.
    pub(crate) fn split(self, count: usize) -> Vec<Self> {
        let zip = |a, b| {
            let (a, b) = (parts_of_wanted(a, count), parts_of_wanted(b, count));
            a.into_iter().zip(b)
        };
        match self {
            Self::Added { keys, values } => zip(keys, values)
                .map(|(keys, values)| KeyValueGradients::Added { keys, values })
                .collect(),
            Self::Deferred { scores, weights } => zip(scores, weights)
                .map(|(scores, weights)| KeyValueGradients::Deferred { scores, weights })
                .collect(),
        }
    }
}

/// An attention with any score.
#[derive(Debug)]
pub(crate) struct Attention<'a, E, T> {
    pub score: &'a T,
    /// `[batch, key_heads, keys, value_size]`
    pub values: Rows<'a, E>,
    pub modifiers: ScoreModifiers<'a, E>,
    pub mask: &'a Mask<'a>,
    pub dropout: Option<Dropout>,
    /// Whether the decoding kernels of the score run.
    pub is_decode: bool,
}

impl<E: Real, T: TileScore<E>> Attention<'_, E, T> {
    /// The factor that turns completed scores into base-2 logits: they are natural logits if they were modified.
    pub(super) fn unit(&self) -> E {
        if self.modifiers.keeps_scores() {
            self.score.unit()
        } else {
            E::from_f64(std::f64::consts::LOG2_E)
        }
    }

    /// The factor that turns completed scores into natural logits.
    pub(crate) fn natural(&self) -> f64 {
        if self.is_decode {
            1.0 // The kernels for decoding make natural logits of scores at once.
        } else {
            self.unit().to_f64() * std::f64::consts::LN_2
        }
    }

    /// The sink of a head, in the unit of completed scores; `None` if it is minus infinity.
    pub(crate) fn sink(&self, at: HeadIndex) -> Option<E> {
        let sink = self.modifiers.sink(at)?;
        Some(E::from_f64(sink.to_f64() / self.natural()))
    }

    /// The sum of the two terms.
    pub(crate) fn log_sum_exp(&self, [largest, log_sum]: LogSumExp) -> f64 {
        largest * self.natural() + log_sum
    }

    /// The factor of the weights that dropout keeps.
    pub(crate) fn dropout_scale(&self) -> E {
        E::from_f64(self.dropout.map_or(1.0, |dropout| dropout.scale()))
    }

    /// # Panics
    /// If values, modifiers or mask do not fit the score.
    fn check(&self) {
        let sizes = self.score.sizes();
        let Sizes { heads, keys, .. } = sizes;
        self.mask.check(sizes.pairs());
        let [.., value_size] = self.values.shape();
        let expected = [heads.batch, heads.key_heads, keys, value_size];
        check_shape(T::OPERATION, "values", expected, self.values.shape());
        self.modifiers.check(T::OPERATION, sizes);
    }

    /// # Panics
    /// If inputs and outputs do not fit together.
    pub(crate) fn check_forward(&self, context: &[E], lse: &[LogSumExp]) {
        self.check();
        let [batch, heads, queries, _] = self.score.sizes().pairs();
        let [.., value_size] = self.values.shape();
        let expected = [batch, heads, queries, value_size];
        check_len(T::OPERATION, "context", expected, context.len());
        check_len(T::OPERATION, "lse", [batch, heads, queries], lse.len());
    }

    /// # Panics
    /// If inputs, outputs and gradients do not fit together.
    pub(super) fn check_backward(
        &self,
        outputs: &AttentionOutputs<E>,
        gradients: &AttentionGradients<E>,
    ) {
        self.check();
        let sizes = self.score.sizes();
        let [batch, heads, queries, keys] = sizes.pairs();
        let [.., value_size] = self.values.shape();
        let expected = [batch, heads, queries, value_size];
        let check_wanted = |argument, expected, gradient: &Option<&mut [E]>| {
            if let Some(gradient) = gradient {
                check_len(T::OPERATION, argument, expected, gradient.len());
            }
        };
        check_shape(T::OPERATION, "context", expected, outputs.context.shape());
        let got = outputs.context_gradient.shape();
        check_shape(T::OPERATION, "context gradient", expected, got);
        let rows = [batch, heads, queries];
        check_len(T::OPERATION, "lse", rows, outputs.lse.len());
        if let Some(weights) = outputs.weights {
            check_len(T::OPERATION, "weights", sizes.pairs(), weights.len());
        }
        let expected = [batch, heads, queries, sizes.size];
        check_wanted("query gradient", expected, &gradients.queries);
        let of_keys = |size| [batch, sizes.heads.key_heads, keys, size];
        match &gradients.keys_and_values {
            KeyValueGradients::Added { keys, values } => {
                check_wanted("key gradient", of_keys(sizes.size), keys);
                check_wanted("value gradient", of_keys(value_size), values);
            }
            KeyValueGradients::Deferred { scores, weights } => {
                check_wanted("score gradient", sizes.pairs(), scores);
                check_wanted("weights", sizes.pairs(), weights);
            }
        }
        if let Some(weight) = &gradients.weight {
            let expected = [sizes.shared];
            check_len(T::OPERATION, "weight gradient", expected, weight.len());
        }
        self.modifiers
            .check_gradients(T::OPERATION, &gradients.modifiers);
    }
}

/// Whether queries, keys and values are those of a decoding step: at most `most` queries, and no size is 0.
pub(crate) fn is_decode<E>(most: usize, inputs: [Rows<E>; 3]) -> bool {
    let shapes = inputs.map(|rows| rows.shape());
    shapes[0][2] <= most && !shapes.as_flattened().contains(&0)
}

/// `2^(unit (score - lse))`, at most 1. The log-sum-exp comes as its two terms, the largest score first: subtracting
/// that is exact where it matters.
#[inline(always)]
pub(super) fn weight<E: Real, S: Simd<E>>(
    simd: S,
    score: S::V,
    [largest, log_sum]: [S::V; 2],
    unit: S::V,
) -> S::V {
    let power = simd.sub(simd.sub(score, largest), log_sum);
    simd.exp2(simd.mul(simd.min(simd.zero(), power), unit))
}
