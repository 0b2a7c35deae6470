//! From projected keys and values to the context of queries, with any scoring function.

use std::borrow::Cow;

use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused_layers::drops;
use burn_fused_layers::harness::parameter::value;

use crate::attention::{Attention, AttentionOutput};
use crate::call::Call;
use crate::extra_keys::ExtraKeys;
use crate::functional::{
    self, AttentionOptions, FusedScore, Modifiers, Sizes, additive_score, attend,
    dot_product_score, drop_weights, extra_keys_last, modify, pairwise_score, repeat_key_heads,
    softmax_with_sinks, with_extra_keys,
};
use crate::mask::Mask;
use crate::memory::Memory;
use crate::normalizer::Normalizer;
use crate::position::Positions;
use crate::score::{
    PositionTerm, ScoreKernel, ScoringFunction, checked_heads, default_scale, per_head, widened,
};

impl<S: ScoringFunction> Attention<S> {
    /// The context of each query, `[batch, heads, queries, _]`.
    pub(crate) fn attend_heads(
        &self,
        queries: Tensor<4>,
        memory: &Memory,
        call: Call,
    ) -> Tensor<4> {
        let options = self.with_own_options(call.options);
        let call = Call {
            options: &options,
            ..call
        };
        let sizes = self.sizes(&queries, memory);
        let Some(queries) = self.project_queries(queries, memory, sizes, call) else {
            return sizes.zeros(memory);
        };
        let kernel = self.score.kernel();
        if self.normalizer != Normalizer::Softmax {
            return self.pool(queries, memory, sizes, kernel, call).context;
        }
        let Some(modifiers) = self.modifiers(&queries, memory, sizes, &kernel, call) else {
            return self.pool(queries, memory, sizes, kernel, call).context;
        };
        let extra_keys = call.options.extra_keys.as_ref();
        let score = match kernel {
            ScoreKernel::Dot { scale } => {
                let scale = call.options.scale.or(scale);
                let scale = scale.unwrap_or_else(|| default_scale(queries.dims()[3]));
                FusedScore::DotProduct { scale }
            }
            ScoreKernel::Additive { weight } => {
                call.assert_no_scale();
                FusedScore::Additive { weight }
            }
            ScoreKernel::Pairwise { term, weight } => {
                call.assert_no_scale();
                FusedScore::Pairwise { term, weight }
            }
            kernel => return self.pool(queries, memory, sizes, kernel, call).context,
        };
        if !score.runs(&modifiers, &queries) {
            let kernel = self.score.kernel();
            return self.pool(queries, memory, sizes, kernel, call).context;
        }
        let (memory, sizes, modifiers) = match extra_keys {
            None => (Cow::Borrowed(memory), sizes, modifiers),
            Some(extra @ [keys, _]) => {
                let bias = self.score.key_bias(keys);
                let bias = bias.map(|bias| per_head(bias, sizes.heads));
                let (memory, sizes, modifiers) =
                    with_extra_keys(memory, sizes, modifiers, extra.clone(), bias);
                (Cow::Owned(memory), sizes, modifiers)
            }
        };
        let devices = modifiers.devices().chain(memory.devices());
        let devices = devices.chain([queries.device()]).chain(score.device());
        let dropout = self.active_dropout(call, devices);
        attend(queries, &memory, sizes, score, modifiers, dropout)
    }

    /// The options of a call; the module's own where it names none.
    fn with_own_options<'a>(&self, options: &'a AttentionOptions) -> Cow<'a, AttentionOptions> {
        let has_parameters = self.sinks.is_some() || self.extra_keys.is_some();
        if self.soft_cap.is_none() && !has_parameters && !self.zero_key {
            return Cow::Borrowed(options);
        }
        let mut options = options.clone();
        options.soft_cap = options.soft_cap.or(self.soft_cap);
        let sinks = options.sinks.take();
        options.sinks = sinks.or_else(|| self.sinks.as_ref().map(value));
        let extra_keys = options.extra_keys.take();
        options.extra_keys =
            extra_keys.or_else(|| self.extra_keys.as_ref().map(ExtraKeys::of_a_call));
        options.zero_key |= self.zero_key;
        Cow::Owned(options)
    }

    /// The term that the positions of queries and keys add to their scores; none without a key.
    pub(crate) fn position_term(
        &self,
        queries: &Tensor<4>,
        [num_queries, num_keys]: [usize; 2],
    ) -> PositionTerm {
        if num_keys == 0 {
            return PositionTerm::None;
        }
        let (device, dtype) = (queries.device(), queries.dtype());
        self.score
            .position_term(num_queries, num_keys, &device, dtype)
    }

    /// The options of a call with the terms that the score itself adds to the products of its kernel; `None` where
    /// [`score`](ScoringFunction::score) alone knows them.
    fn modifiers(
        &self,
        queries: &Tensor<4>,
        memory: &Memory,
        sizes: Sizes,
        kernel: &ScoreKernel,
        call: Call,
    ) -> Option<Modifiers> {
        let heads = sizes.heads;
        let mut modifiers = call.options.modifiers();
        let of_keys = match kernel {
            ScoreKernel::Custom => return None,
            ScoreKernel::Additive { .. } | ScoreKernel::Pairwise { .. } => None,
            ScoreKernel::Dot { .. } => memory
                .key_bias()
                .or_else(|| self.score.key_bias(memory.keys_without_bias()?.as_ref())),
        };
        if let Some(bias) = of_keys {
            modifiers.add_bias(per_head(bias, heads));
        }
        let of_heads = |bias: Tensor<4>| {
            let bias = checked_heads(bias, heads);
            match call.starts {
                Some(starts) => seen_from(bias, starts, sizes),
                None => bias,
            }
        };
        match self.position_term(queries, [sizes.num_queries, sizes.num_keys]) {
            PositionTerm::None => {}
            PositionTerm::PerKey(bias) => modifiers.add_bias(of_heads(bias)),
            PositionTerm::PerDistance(bias) => modifiers.add_relative_bias(of_heads(bias)),
            PositionTerm::PerPair => return None,
        }
        Some(modifiers)
    }

    /// [`attend_heads`](Self::attend_heads), and the weights.
    pub(crate) fn attend_heads_with_weights(
        &self,
        queries: Tensor<4>,
        memory: &Memory,
        call: Call,
    ) -> AttentionOutput<4> {
        let options = self.with_own_options(call.options);
        let call = Call {
            options: &options,
            ..call
        };
        let sizes = self.sizes(&queries, memory);
        match self.project_queries(queries, memory, sizes, call) {
            Some(queries) => self.pool(queries, memory, sizes, self.score.kernel(), call),
            None => AttentionOutput {
                context: sizes.zeros(memory),
                weights: Tensor::zeros(
                    sizes.scores(),
                    (&memory.values.device(), memory.values.dtype()),
                ),
            },
        }
    }

    /// Score, normalizer, dropout, weighted sum: each a step of its own.
    fn pool(
        &self,
        queries: Tensor<4>,
        memory: &Memory,
        sizes: Sizes,
        kernel: ScoreKernel,
        call: Call,
    ) -> AttentionOutput<4> {
        let mask = &memory.mask;
        let heads = sizes.heads;
        let keys = match kernel {
            // Its author need not think of shared heads.
            ScoreKernel::Custom => repeat_key_heads(memory.read_cleared_keys(), heads),
            _ => memory.read_cleared_keys(),
        };
        let dtype = queries.dtype();
        // Scores of half precision are f32, as in the fused kernel: in f16 they would overflow, and what tells
        // neighbouring positions apart would be rounded away.
        let (queries, keys) = match kernel {
            ScoreKernel::Dot { .. } => (widened(queries), widened(keys)),
            _ => (queries, keys),
        };
        let kernel = match kernel {
            ScoreKernel::Dot { scale } => ScoreKernel::Dot {
                scale: call.options.scale.or(scale),
            },
            kernel => {
                call.assert_no_scale();
                kernel
            }
        };
        // A soft-cap and a scale are for the products alone, and further keys are compared by them.
        let options = &call.options;
        let by_products = options.soft_cap.or(options.scale).is_some()
            || call.has_extra_keys()
            || call.starts.is_some();
        let scores = match self.modifiers(&queries, memory, sizes, &kernel, call) {
            Some(modifiers) if by_products => {
                let products = self.products(queries.clone(), keys, &kernel, mask);
                modify("attention", products, &modifiers)
            }
            of_kernel => {
                if of_kernel.is_none() {
                    call.assert_no_scale();
                }
                let scores = self.score.score(queries.clone(), keys, mask);
                modify("attention", scores, &call.options.modifiers())
            }
        };
        let Some([keys, values]) = call.options.extra_keys.clone() else {
            return self.finish(scores, memory, call, dtype);
        };
        let capped = Modifiers {
            soft_cap: call.options.soft_cap,
            ..Modifiers::default()
        };
        let [_, _, number, size] = keys.dims();
        let of_extra = keys.clone();
        let of_extra = of_extra.expand([sizes.batch, sizes.key_heads, number, size]);
        let of_extra = match kernel {
            ScoreKernel::Dot { .. } => widened(of_extra),
            ScoreKernel::Additive { .. } | ScoreKernel::Pairwise { .. } => of_extra,
            ScoreKernel::Custom => repeat_key_heads(of_extra, heads),
        };
        let bias = match kernel {
            ScoreKernel::Dot { .. } => self.score.key_bias(&of_extra),
            _ => None,
        };
        let mut of_extra = self.products(queries, of_extra, &kernel, &Mask::none());
        of_extra = modify("attention", of_extra, &capped);
        if let Some(bias) = bias {
            let dtype = of_extra.dtype();
            of_extra = of_extra + per_head(bias, heads).cast(dtype);
        }
        let extra = [keys, values];
        let (memory, ..) = with_extra_keys(memory, sizes, Modifiers::default(), extra, None);
        let [scores, of_extra] = [scores, of_extra].map(widened);
        let scores = Tensor::cat(vec![of_extra, scores], 3);
        let AttentionOutput { context, weights } = self.finish(scores, &memory, call, dtype);
        AttentionOutput {
            context,
            weights: extra_keys_last(weights, number),
        }
    }

    /// The scores by their kernel, without the terms of positions or keys; without a kernel, the whole scores.
    fn products(
        &self,
        queries: Tensor<4>,
        keys: Tensor<4>,
        kernel: &ScoreKernel,
        mask: &Mask,
    ) -> Tensor<4> {
        let [_, _, _, size] = queries.dims();
        match kernel {
            ScoreKernel::Dot { scale } => {
                let scale = scale.unwrap_or_else(|| default_scale(size));
                dot_product_score(queries, keys, mask, scale)
            }
            ScoreKernel::Additive { weight } => additive_score(queries, keys, weight.clone(), mask),
            ScoreKernel::Pairwise { term, weight } => {
                pairwise_score(queries, keys, &**term, weight.clone(), mask)
            }
            ScoreKernel::Custom => self.score.score(queries, keys, mask),
        }
    }

    /// From scores to the context.
    fn finish(
        &self,
        scores: Tensor<4>,
        memory: &Memory,
        call: Call,
        dtype: DType,
    ) -> AttentionOutput<4> {
        let mask = &memory.mask;
        let modifiers = call.options.modifiers();
        let weights = if modifiers.has_sinks() {
            assert!(
                self.normalizer == Normalizer::Softmax,
                "attention: sinks or a zero key expected with Normalizer::Softmax, got them with {:?}",
                self.normalizer
            );
            softmax_with_sinks("attention", scores, mask, &modifiers)
        } else {
            self.normalizer.weights(scores, mask)
        };
        let weights = weights.cast(dtype);
        let devices = memory.devices().into_iter().chain([weights.device()]);
        let dropped = drop_weights(weights.clone(), self.active_dropout(call, devices));
        AttentionOutput {
            context: functional::weighted_sum(dropped, memory.read_values(), mask),
            weights,
        }
    }

    /// # Panics
    /// If the memory is not for this score, or for queries like these.
    fn sizes(&self, queries: &Tensor<4>, memory: &Memory) -> Sizes {
        memory.expect_owner::<S>();
        Sizes::of_call("attention", queries, memory)
    }

    /// The projected queries; `None` where an axis of size 0 leaves nothing to attend to. Queries that attend to no key
    /// are cleared, unless there are extra keys to attend to.
    ///
    /// # Panics
    /// If an option does not fit.
    fn project_queries(
        &self,
        mut queries: Tensor<4>,
        memory: &Memory,
        sizes: Sizes,
        call: Call,
    ) -> Option<Tensor<4>> {
        call.options.check("attention", sizes, &queries, memory);
        let Sizes {
            batch,
            heads,
            num_queries,
            num_keys,
            ..
        } = sizes;
        let last = || Positions::consecutive(num_keys as i64 - num_queries as i64);
        let positions = call.positions.cloned().unwrap_or_else(last);
        let has_keys = num_keys > 0 || call.has_extra_keys();
        (batch * heads * num_queries > 0 && has_keys).then(|| {
            if !call.has_extra_keys() {
                queries = functional::fill_keyless(queries, &memory.mask, [heads, num_keys]);
            }
            self.score.project_queries(queries, &positions)
        })
    }

    /// The dropout probability in force: the call's, or else 0 unless the module trains; `devices` has the device of
    /// each tensor that the context is made of.
    fn active_dropout(&self, call: Call, devices: impl Iterator<Item = Device>) -> f64 {
        call.options.dropout.unwrap_or_else(|| {
            if drops(&self.dropout, devices) {
                self.dropout.prob
            } else {
                0.0
            }
        })
    }
}

/// A bias of keys or of distances `[1, heads or 1, 1, n]`, for examples whose first queries stand at the keys `starts`
/// instead of `keys - queries`, `[batch, heads or 1, 1, n]`. What is beyond its ends is masked.
fn seen_from(bias: Tensor<4>, starts: &[i64], sizes: Sizes) -> Tensor<4> {
    let [_, heads, _, number] = bias.dims();
    let batch = starts.len();
    let usual = sizes.num_keys as i64 - sizes.num_queries as i64;
    let of_example = |start: &i64| {
        let shift = usual - start;
        (0..number as i64).map(move |element| (element + shift).clamp(0, number as i64 - 1))
    };
    let indices: Vec<i64> = starts.iter().flat_map(of_example).collect();
    let indices = TensorData::new(indices, [batch * number]);
    let indices = Tensor::from_data(indices, &bias.device());
    let of_examples = bias.select(3, indices);
    let of_examples = of_examples.reshape([heads, batch, 1, number]);
    of_examples.swap_dims(0, 1)
}
