//! The options of attention on tensors.

use std::sync::Arc;

use attention_kernels::ScoreMod;
use burn::tensor::Tensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};

use super::keys_and_values::KeysAndValues;
use super::modifiers::is_finite_in;
use super::sizes::Sizes;
use crate::mask::Mask;
use crate::rank::Sequences;

/// The options of an attention, by name: `AttentionOptions { mask: Mask::causal(), ..Default::default() }`.
///
/// A score goes through them in this order: `scale`, `soft_cap`, the biases, `score_mod`, mask, softmax with the sinks,
/// dropout.
#[derive(Clone, Debug, Default)]
pub struct AttentionOptions {
    /// Which keys each query attends to.
    pub mask: Mask,
    /// The factor on dot products; by default `1 / sqrt(size)`, in a module the score's own.
    pub scale: Option<f64>,
    /// `cap` of `cap tanh(score / cap)`, above 0, and finite in f32 as its inverse is. In a module it caps dot
    /// products, additive or pairwise scores before terms of positions are added; a score composed of tensor operations
    /// is capped as a whole.
    ///
    /// Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size", section 2.
    pub soft_cap: Option<f64>,
    /// Added to the scores, `[batch or 1, heads or 1, queries or 1, keys or 1]`, of the type of the queries or a more
    /// precise one: what others call a float mask. Minus infinity masks a pair.
    pub bias: Option<Tensor<4>>,
    /// Added to the scores by the distance of query and key, `[batch or 1, heads or 1, 1, queries + keys - 1]`: the
    /// score of query `i` and key `j` gets element `j - i + queries - 1`.
    pub relative_bias: Option<Tensor<4>>,
    /// A function of your own that maps a score and its place to another score; on a CPU it runs within the kernels of
    /// dot products, additive and pairwise scores. In other cases (another device, f64, composed scores, weights
    /// requested, another normalizer than softmax) the scores go through the host in f32, at most 16 million of them.
    ///
    /// PyTorch's `flex_attention` takes a `score_mod`, too.
    pub score_mod: Option<Arc<dyn ScoreMod>>,
    /// A logit of each head whose weight goes to no value, `[heads]`: the weights of the keys sum to less than 1.
    ///
    /// Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks", section 3.3; OpenAI 2025,
    /// "gpt-oss-120b & gpt-oss-20b Model Card", section 2.2.
    pub sinks: Option<Tensor<1>>,
    /// Extra keys and values, `[batch or 1, key_heads, n, size]`, which every query attends to whatever the mask says;
    /// neither bias applies to them, and scores of tensor operations that add terms of positions refuse them. The keys
    /// are as the score compares them. PyTorch's `bias_k` and `bias_v`.
    pub extra_keys: Option<[Tensor<4>; 2]>,
    /// Whether there is one more key, whose score and value are 0: PyTorch's `add_zero_attn`. The returned weights are
    /// those of the other keys. No state dict records it: set it on a module by
    /// [`Attention::with_zero_key`](crate::Attention::with_zero_key), or here for a call.
    pub zero_key: bool,
    /// The probability to drop a weight, in `[0, 1)`; by default the module's in training, else 0.
    pub dropout: Option<f64>,
}

impl AttentionOptions {
    /// Sets a modification of scores of your own; see [`score_mod`](Self::score_mod).
    pub fn with_score_mod(mut self, score_mod: impl ScoreMod + 'static) -> Self {
        self.score_mod = Some(Arc::new(score_mod));
        self
    }

    /// # Panics
    /// If an option does not fit these queries, keys and values.
    pub(crate) fn check(
        &self,
        operation: &str,
        sizes: Sizes,
        queries: &Sequences,
        rows: &KeysAndValues,
    ) {
        if let Some(scale) = self.scale {
            assert!(
                is_finite_in(scale, queries.dtype()),
                "{operation}: scale expected to be finite, got {scale}"
            );
        }
        if let Some(dropout) = self.dropout {
            assert!(
                (0.0..1.0).contains(&dropout),
                "{operation}: dropout expected in [0, 1), got {dropout}"
            );
        }
        self.check_modifiers(operation, sizes.scores(), queries);
        let Some([extra_keys, extra_values]) = &self.extra_keys else {
            return;
        };
        assert!(
            self.score_mod.is_none(),
            "{operation}: score_mod expected without extra keys, which have no place among the others"
        );
        let (batch, key_heads) = (sizes.batch, sizes.key_heads);
        let [_, _, number, _] = extra_keys.dims();
        for (name, extra, own) in [
            ("extra keys", extra_keys, &rows.keys),
            ("values of extra keys", extra_values, &rows.values),
        ] {
            let (got, [_, _, _, size]) = (extra.dims(), own.dims());
            let [of_batch, of_heads, of_rows, of_size] = got;
            // Keys of length 0 were not projected, either.
            let fits = sizes.num_keys == 0 || of_size == size;
            assert!(
                (of_batch == 1 || of_batch == batch)
                    && of_heads == key_heads
                    && of_rows == number
                    && fits,
                "{operation}: {name} expected [{batch} or 1, {key_heads}, {number}, {size}], got {got:?}"
            );
            let others = [Argument::floats(name, extra)];
            assert_together(operation, own.argument("keys"), others);
        }
    }
}

impl From<Mask> for AttentionOptions {
    fn from(mask: Mask) -> Self {
        Self {
            mask,
            ..Self::default()
        }
    }
}

impl From<&Mask> for AttentionOptions {
    fn from(mask: &Mask) -> Self {
        mask.clone().into()
    }
}

impl From<&AttentionOptions> for AttentionOptions {
    fn from(options: &AttentionOptions) -> Self {
        options.clone()
    }
}
