//! From projected keys and values to the context of queries, with any scoring function.

use std::borrow::Cow;

use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused_layers::drops;
use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::harness::wide::widened;
use burn_fused_layers::paths::composed;

use super::call::Call;
use super::extra_keys::ExtraKeys;
use super::{Attention, AttentionOutput};
use crate::functional::{
    AttentionOptions, FusedScore, KeysAndValues, Sizes, attend, default_scale, drop_weights,
    extra_keys_last, fill_keyless, modify, per_head, repeat_key_heads, softmax_with_sinks,
    sum_of_biases, weighted_sum, with_extra_keys,
};
use crate::mask::Mask;
use crate::normalizer::Normalizer;
use crate::position::Positions;
use crate::rank::Sequences;
use crate::score::{PositionTerm, ScoreKernel, ScoringFunction, checked_heads};

const NAME: &str = "attention";

impl<S: ScoringFunction> Attention<S> {
    /// The context of each query, `[batch, heads, queries, _]`.
    pub(crate) fn attend_heads(
        &self,
        queries: Sequences,
        rows: &KeysAndValues,
        call: Call,
    ) -> Sequences {
        let options = self.with_own_options(call.options);
        let call = Call {
            options: &options,
            ..call
        };
        let sizes = Sizes::of_call(NAME, &queries, rows);
        let Some(queries) = self.project_queries(queries, rows, sizes, call) else {
            return sizes.zeros(rows);
        };
        let Some((score, options)) = self.fused(&queries, rows, sizes, call) else {
            let why = "no kernel has its score, its normalizer or a function of one's own";
            composed(NAME, why, queries.as_dispatch());
            return self.pool(queries, rows, sizes, call).context.into();
        };
        let dropout = self.active_dropout(call, || {
            let devices = options.devices().chain(rows.devices());
            devices.chain([queries.device()]).chain(score.device())
        });
        let Some(extra) = options.extra_keys.clone() else {
            return attend(queries, rows, sizes, score, &options, dropout);
        };
        let bias = self.bias_of_extra(&queries.to_tensor(), &extra[0], score.is_dot(), call);
        let (rows, sizes, options) =
            with_extra_keys(rows, sizes, options.into_owned(), extra, bias);
        attend(queries, &rows, sizes, score, &options, dropout)
    }

    /// [`attend_heads`](Self::attend_heads), and its weights.
    pub(crate) fn attend_heads_with_weights(
        &self,
        queries: Sequences,
        rows: &KeysAndValues,
        call: Call,
    ) -> AttentionOutput<4> {
        let options = self.with_own_options(call.options);
        let call = Call {
            options: &options,
            ..call
        };
        let sizes = Sizes::of_call(NAME, &queries, rows);
        match self.project_queries(queries, rows, sizes, call) {
            Some(queries) => {
                composed(NAME, "weights are asked for", queries.as_dispatch());
                self.pool(queries, rows, sizes, call)
            }
            None => {
                let extra_keys = options.extra_keys.as_ref();
                let number = extra_keys.map_or(0, |[keys, _]| keys.dims()[2]);
                let shape = sizes.with_keys(sizes.num_keys + number).scores();
                AttentionOutput {
                    context: sizes.zeros(rows).into_tensor(),
                    weights: Tensor::zeros(shape, (&rows.values.device(), rows.values.dtype())),
                }
            }
        }
    }

    /// The options of a call; the module's own where the call sets none.
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

    /// The projected queries; `None` where an axis of size 0 leaves nothing to attend to. Queries that attend to no key
    /// are cleared, unless there are extra keys to attend to.
    ///
    /// # Panics
    /// If an option does not fit.
    fn project_queries(
        &self,
        mut queries: Sequences,
        rows: &KeysAndValues,
        sizes: Sizes,
        call: Call,
    ) -> Option<Sequences> {
        call.options.check(NAME, sizes, &queries, rows);
        let (num_queries, num_keys) = (sizes.num_queries, sizes.num_keys);
        let has_keys = num_keys > 0 || call.has_extra_keys();
        (sizes.batch * sizes.heads * num_queries > 0 && has_keys).then(|| {
            if !call.has_extra_keys() {
                queries = fill_keyless(queries, &rows.mask, [sizes.heads, num_keys]);
            }
            let last = || Positions::consecutive(num_keys as i64 - num_queries as i64);
            queries.changed_if(!self.score.compares_as_given(), |queries| {
                let positions = call.positions.cloned().unwrap_or_else(last);
                self.score.project_queries(queries, &positions)
            })
        })
    }

    /// The score and the options of a call that one kernel computes; `None` where tensor operations compose the call.
    fn fused<'a>(
        &self,
        queries: &Sequences,
        rows: &KeysAndValues,
        sizes: Sizes,
        call: Call<'a>,
    ) -> Option<(FusedScore, Cow<'a, AttentionOptions>)> {
        if self.normalizer != Normalizer::Softmax {
            return None;
        }
        let kernel = self.score.kernel();
        let mut options = self.options_of_kernel(queries, rows, sizes, &kernel, call)?;
        let score = fused_score(kernel, queries.dims()[3], call)?;
        if let Some(bias) = self.query_bias(|| queries.to_tensor(), score.is_dot(), call) {
            options.to_mut().add_bias(bias);
        }
        score.runs(&options, queries).then_some((score, options))
    }

    /// The options of a call, with the terms added that the score adds to its kernel's products; `None` if only
    /// [`score`](ScoringFunction::score) can compute them.
    fn options_of_kernel<'a>(
        &self,
        queries: &Sequences,
        rows: &KeysAndValues,
        sizes: Sizes,
        kernel: &ScoreKernel,
        call: Call<'a>,
    ) -> Option<Cow<'a, AttentionOptions>> {
        let of_keys = match kernel {
            ScoreKernel::Custom => return None,
            ScoreKernel::Additive { .. } | ScoreKernel::Pairwise { .. } => None,
            // Keys of length 0 were not projected.
            ScoreKernel::Dot { .. } if self.score.compares_as_given() || sizes.num_keys == 0 => {
                None
            }
            ScoreKernel::Dot { .. } => rows.key_bias().or_else(|| {
                self.score
                    .key_bias(&rows.keys_without_bias()?.into_tensor())
            }),
        };
        let heads = sizes.heads;
        let of_positions = self.position_term(queries, [sizes.num_queries, sizes.num_keys]);
        let mut options = Cow::Borrowed(call.options);
        if let Some(bias) = of_keys {
            options.to_mut().add_bias(per_head(bias, heads));
        }
        match of_positions {
            PositionTerm::None => {}
            PositionTerm::PerKey(bias) => options.to_mut().add_bias(checked_heads(bias, heads)),
            PositionTerm::PerDistance(bias) => {
                let bias = checked_heads(bias, heads);
                options.to_mut().add_relative_bias(match call.starts {
                    Some(starts) => seen_from(bias, starts, sizes),
                    None => bias,
                });
            }
            PositionTerm::PerPair => return None,
        }
        if let Cow::Owned(options) = &options {
            options.check_modifiers(NAME, sizes.scores(), queries);
        }
        Some(options)
    }

    /// The term of each query, if the weights depend on a term that is the same for all keys.
    fn query_bias(
        &self,
        queries: impl FnOnce() -> Tensor<4>,
        is_dot: bool,
        call: Call,
    ) -> Option<Tensor<4>> {
        let options = call.options;
        let is_softmax = self.normalizer == Normalizer::Softmax;
        let is_read = !is_softmax || options.has_sinks() || options.score_mod.is_some();
        let counts = is_dot && is_read && !self.score.compares_as_given();
        counts.then(|| self.score.query_bias(&queries())).flatten()
    }

    /// The terms of queries and keys that a score adds to its products with extra keys.
    fn bias_of_extra(
        &self,
        queries: &Tensor<4>,
        keys: &Tensor<4>,
        is_dot: bool,
        call: Call,
    ) -> Option<Tensor<4>> {
        let [_, heads, _, _] = queries.dims();
        let of_keys = self.score.key_bias(keys).map(|bias| per_head(bias, heads));
        let of_queries = self.query_bias(|| queries.clone(), is_dot, call);
        [of_keys, of_queries]
            .into_iter()
            .flatten()
            .reduce(sum_of_biases)
    }

    /// The term that the positions of queries and keys add to their scores; `None` without pairs.
    pub(super) fn position_term(
        &self,
        queries: &Sequences,
        [num_queries, num_keys]: [usize; 2],
    ) -> PositionTerm {
        if num_queries * num_keys == 0 {
            return PositionTerm::None;
        }
        let (device, dtype) = (queries.device(), queries.dtype());
        (self.score).position_term(num_queries, num_keys, &device, dtype)
    }

    /// Score, normalizer, dropout and weighted sum, as separate steps.
    fn pool(
        &self,
        queries: Sequences,
        rows: &KeysAndValues,
        sizes: Sizes,
        call: Call,
    ) -> AttentionOutput<4> {
        let (heads, dtype) = (sizes.heads, queries.dtype());
        let kernel = self.score.kernel();
        let is_dot = matches!(kernel, ScoreKernel::Dot { .. });
        // Scores of half precision are f32, as in the fused kernel: in f16 they would overflow, and the difference of
        // neighbouring positions would be rounded away.
        let wide = |rows| if is_dot { widened(rows) } else { rows };
        let queries = Sequences::new(wide(queries.into_tensor()));
        let options = self.options_of_kernel(&queries, rows, sizes, &kernel, call);
        let score = fused_score(kernel, queries.dims()[3], call);
        let queries = queries.into_tensor();
        let compared = |keys| match score {
            Some(_) => wide(keys),
            // The author of such a score need not handle shared heads.
            None => repeat_key_heads(keys, heads),
        };
        let scores_of = |queries: Tensor<4>, keys: Tensor<4>, mask: &Mask| match &score {
            Some(score) => score.scores(queries, keys, mask),
            None => self.score.score(queries, keys, mask),
        };
        let adds_positions = || {
            !matches!(
                self.position_term(&queries.clone().into(), [1, 1]),
                PositionTerm::None
            )
        };
        assert!(
            score.is_some() || !call.has_extra_keys() || !adds_positions(),
            "attention: no extra keys expected with a score that adds terms of positions to scores of its own"
        );
        let keys = compared(rows.read_cleared_keys().into_tensor());
        // Soft-cap and scale apply to the products alone, and extra keys are compared by products.
        let by_products = call.options.soft_cap.or(call.options.scale).is_some()
            || call.has_extra_keys()
            || call.starts.is_some();
        let scores = match options {
            // Keys of length 0 were not projected.
            _ if sizes.num_keys == 0 => {
                Tensor::empty(sizes.scores(), (&keys.device(), keys.dtype()))
            }
            Some(mut options) if by_products => {
                if let Some(bias) = self.query_bias(|| queries.clone(), is_dot, call) {
                    options.to_mut().add_bias(bias);
                }
                let scores = scores_of(queries.clone(), keys, &rows.mask);
                modify(NAME, scores, &options)
            }
            of_kernel => {
                if of_kernel.is_none() {
                    call.assert_no_scale();
                }
                let scores = self.score.score(queries.clone(), keys, &rows.mask);
                modify(NAME, scores, call.options)
            }
        };
        let Some(extra @ [keys, _]) = &call.options.extra_keys else {
            return self.finish(scores, rows, call, dtype);
        };
        let [_, _, number, size] = keys.dims();
        let keys = keys.clone();
        let keys = compared(keys.expand([sizes.batch, sizes.key_heads, number, size]));
        let bias = is_dot.then(|| self.bias_of_extra(&queries, &keys, true, call));
        let capped = AttentionOptions {
            soft_cap: call.options.soft_cap,
            ..Default::default()
        };
        let mut of_extra = modify(NAME, scores_of(queries, keys, &Mask::none()), &capped);
        if let Some(bias) = bias.flatten() {
            let dtype = of_extra.dtype();
            of_extra = of_extra + bias.cast(dtype);
        }
        let (rows, ..) = with_extra_keys(rows, sizes, Default::default(), extra.clone(), None);
        let scores = match sizes.num_keys {
            0 => of_extra,
            _ => Tensor::cat([of_extra, scores].map(widened).into(), 3),
        };
        let mut output = self.finish(scores, &rows, call, dtype);
        output.weights = extra_keys_last(output.weights, number);
        output
    }

    /// The context from scores.
    fn finish(
        &self,
        scores: Tensor<4>,
        rows: &KeysAndValues,
        call: Call,
        dtype: DType,
    ) -> AttentionOutput<4> {
        let mask = &rows.mask;
        let weights = if call.options.has_sinks() {
            assert!(
                self.normalizer == Normalizer::Softmax,
                "attention: sinks or a zero key expected with Normalizer::Softmax, got them with {:?}",
                self.normalizer
            );
            softmax_with_sinks(scores, mask, call.options)
        } else {
            self.normalizer.weights(scores, mask)
        };
        let weights = weights.cast(dtype);
        let dropout = self.active_dropout(call, || {
            rows.devices().into_iter().chain([weights.device()])
        });
        let dropped = drop_weights(weights.clone(), dropout);
        AttentionOutput {
            context: weighted_sum(dropped, rows.read_values().into_tensor(), mask),
            weights,
        }
    }

    /// The dropout probability in force: the call's; by default the module's in training, else 0. `devices` has the
    /// device of each tensor that the context depends on.
    fn active_dropout<I: Iterator<Item = Device>>(
        &self,
        call: Call,
        devices: impl FnOnce() -> I,
    ) -> f64 {
        let own = self.dropout.prob;
        let is_off = || own == 0.0 || !drops(&self.dropout, devices());
        let own = || if is_off() { 0.0 } else { own };
        call.options.dropout.unwrap_or_else(own)
    }
}

/// The score of queries and keys without the terms that a [`ScoringFunction`] adds; `None` if it has no kernel.
///
/// # Panics
/// If a scale is given and the score is no dot product.
fn fused_score(kernel: ScoreKernel, size: usize, call: Call) -> Option<FusedScore> {
    if let ScoreKernel::Dot { scale } = kernel {
        let scale = call.options.scale.or(scale);
        let scale = scale.unwrap_or_else(|| default_scale(size));
        return Some(FusedScore::DotProduct { scale });
    }
    call.assert_no_scale();
    match kernel {
        ScoreKernel::Additive { weight } => Some(FusedScore::Additive { weight }),
        ScoreKernel::Pairwise { term, weight } => Some(FusedScore::Pairwise { term, weight }),
        ScoreKernel::Dot { .. } | ScoreKernel::Custom => None,
    }
}

/// A bias of distances `[1, heads or 1, 1, n]`, shifted for examples whose first queries stand at the keys
/// `starts` instead of `keys - queries`, `[batch, heads or 1, 1, n]`. Places beyond its ends are masked.
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
    let of_examples = bias.select(3, indices).reshape([heads, batch, 1, number]);
    of_examples.swap_dims(0, 1)
}
