//! The options that change scores on their way to the softmax.

use burn::backend::Dispatch;
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::backend::OptionalTensor;
use burn_fused_layers::harness::checks::{Argument, assert_together};
use burn_fused_layers::harness::wide::{wide, widened};

use super::options::AttentionOptions;
use super::score_mod;
use crate::mask::Mask;
use crate::ops::{self, ScoreModifiers};
use crate::rank::Sequences;

/// Options that change scores: `cap tanh(score / cap) + bias + relative_bias`, and a sink beside the keys.
impl AttentionOptions {
    /// Adds a bias to the present one.
    pub(crate) fn add_bias(&mut self, bias: Tensor<4>) {
        self.bias = Some(match self.bias.take() {
            Some(other) => sum_of_biases(other, bias),
            None => bias,
        });
    }

    /// Adds a relative bias to the present one.
    pub(crate) fn add_relative_bias(&mut self, bias: Tensor<4>) {
        self.relative_bias = Some(match self.relative_bias.take() {
            Some(other) => sum_of_biases(other, bias),
            None => bias,
        });
    }

    fn changes_nothing(&self) -> bool {
        self.soft_cap.is_none()
            && self.bias.is_none()
            && self.relative_bias.is_none()
            && self.score_mod.is_none()
            && !self.has_sinks()
    }

    pub(crate) fn has_sinks(&self) -> bool {
        self.sinks.is_some() || self.zero_key
    }

    /// The devices of biases, sinks and extra keys, which autodiff may tell apart.
    pub(crate) fn devices(&self) -> impl Iterator<Item = Device> + use<> {
        let biases =
            [&self.bias, &self.relative_bias].map(|bias| bias.as_ref().map(Tensor::device));
        let sinks = self.sinks.as_ref().map(Tensor::device);
        let extra_keys = self.extra_keys.iter().flatten().map(Tensor::device);
        let extra_keys: Vec<_> = extra_keys.collect();
        biases.into_iter().flatten().chain(sinks).chain(extra_keys)
    }

    /// The sinks of `heads` heads, of type `dtype`, including the key of score 0.
    fn all_sinks(&self, heads: usize, dtype: DType, device: &Device) -> Option<Tensor<1>> {
        let sinks = self.sinks.clone().map(|sinks| sinks.cast(dtype));
        match (sinks, self.zero_key) {
            // ln(e^sink + e^0), computed from the larger of both, which gets no gradient of its own.
            (Some(sinks), true) => {
                let larger = sinks.clone().detach().clamp_min(0.0);
                let sum = (sinks - larger.clone()).exp() + (-larger.clone()).exp();
                Some(larger + sum.log())
            }
            (sinks @ Some(_), false) => sinks,
            (None, true) => Some(Tensor::zeros([heads], (device, dtype))),
            (None, false) => None,
        }
    }

    /// # Panics
    /// If a shape or device does not fit scores `[batch, heads, queries, keys]` of `queries`, or the soft-cap is not
    /// above 0, or not finite, as its inverse must be, in f32 (in f64 for scores in f64).
    pub(crate) fn check_modifiers(&self, operation: &str, shape: [usize; 4], queries: &Sequences) {
        if self.changes_nothing() {
            return;
        }
        let [batch, heads, num_queries, num_keys] = shape;
        if let Some(cap) = self.soft_cap {
            let is_finite = |number| is_finite_in(number, queries.dtype());
            assert!(
                cap > 0.0 && [cap, 1.0 / cap].map(is_finite) == [true; 2],
                "{operation}: soft_cap expected a finite number above 0, got {cap}"
            );
        }
        let distances = (num_queries + num_keys).saturating_sub(1);
        let check_biases = [
            ("bias", &self.bias, num_queries, num_keys, " or 1"),
            ("relative_bias", &self.relative_bias, 1, distances, ""),
        ];
        for (name, bias, rows, size, or_one) in check_biases {
            let Some(bias) = bias else { continue };
            let got @ [of_batch, of_heads, of_rows, of_size] = bias.dims();
            let fits = |got, expected| got == 1 || got == expected;
            assert!(
                fits(of_batch, batch)
                    && fits(of_heads, heads)
                    && fits(of_rows, rows)
                    && (of_size == size || of_size == 1 && !or_one.is_empty()),
                "{operation}: {name} expected [{batch} or 1, {heads} or 1, {rows} or 1, {size}{or_one}], got {got:?}"
            );
        }
        let sinks = self.sinks.as_ref();
        if let Some([got]) = sinks.map(Tensor::dims) {
            assert!(
                got == heads,
                "{operation}: sinks expected [{heads}], got [{got}]"
            );
        }
        let (bias, relative_bias) = (self.bias.as_ref(), self.relative_bias.as_ref());
        let others = [
            bias.map(|bias| Argument::on_device("bias", bias)),
            relative_bias.map(|bias| Argument::on_device("relative_bias", bias)),
            sinks.map(|sinks| Argument::on_device("sinks", sinks)),
        ];
        let first = queries.argument("queries");
        assert_together(operation, first, others.into_iter().flatten());
    }

    /// The modifiers for scores `[batch, heads, queries, keys]` of queries of type `dtype` on `device`, in matching
    /// types; they were checked to fit.
    pub(super) fn modifiers(
        &self,
        shape: [usize; 4],
        (device, dtype): (&Device, DType),
    ) -> ScoreModifiers<Dispatch> {
        if self.changes_nothing() {
            return ScoreModifiers::NONE;
        }
        let [_, heads, _, num_keys] = shape;
        let sinks = self.all_sinks(heads, wide(dtype), device);
        let fit = |bias: Tensor<4>| {
            let wanted = match (dtype, bias.dtype()) {
                (DType::F64, _) => DType::F64,
                (DType::F32, _) | (_, DType::F64) => DType::F32,
                (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
                // For half precision a bias may have its own type or be in f32.
                (_, own) => own,
            };
            bias.cast(wanted)
        };
        // Kernels read one number per key.
        let of_each_key = |bias: Tensor<4>| match bias.dims() {
            [_, _, _, 1] if num_keys > 1 => bias.repeat_dim(3, num_keys),
            _ => bias,
        };
        ScoreModifiers {
            bias: OptionalTensor::of(self.bias.clone().map(fit).map(of_each_key)),
            relative_bias: OptionalTensor::of(self.relative_bias.clone().map(fit)),
            sinks: OptionalTensor::of(sinks),
            soft_cap: self.soft_cap,
            score_mod: self.score_mod.clone(),
        }
    }
}

/// Whether a number is finite in f32 or f64, the type in which scores of rows of type `dtype` are computed.
pub(crate) fn is_finite_in(number: f64, dtype: DType) -> bool {
    match dtype {
        DType::F64 => number.is_finite(),
        _ => (number as f32).is_finite(),
    }
}

/// A bias of each pair of `num_queries` queries and the keys, from a bias of each distance.
///
/// # Shapes
/// - bias `[batch or 1, heads or 1, 1, queries + keys - 1]`, result `[batch or 1, heads or 1, queries, keys]`
pub(crate) fn along_diagonals(bias: Tensor<4>, num_queries: usize) -> Tensor<4> {
    let [_, _, _, distances] = bias.dims();
    let num_keys = distances + 1 - num_queries;
    let pairs = ops::along_diagonals::<Dispatch>(bias.into_dispatch(), num_queries, num_keys);
    Tensor::from_dispatch(pairs)
}

/// Scores modified by all options except mask and sinks, which were checked to fit; the result has the most precise
/// type among them.
pub(crate) fn modify(operation: &str, scores: Tensor<4>, options: &AttentionOptions) -> Tensor<4> {
    if options.changes_nothing() || scores.dims().contains(&0) {
        return scores;
    }
    let modifiers = options.modifiers(scores.dims(), (&scores.device(), scores.dtype()));
    let modified = Tensor::from_dispatch(modifiers.modify(scores.into_dispatch()));
    match modifiers.score_mod {
        Some(score_mod) => score_mod::apply(operation, modified, &*score_mod),
        None => modified,
    }
}

/// Softmax over the keys that `mask` keeps and the sink of each head, if there is one.
///
/// # Panics
/// If the mask does not fit.
pub(crate) fn softmax_with_sinks(
    scores: Tensor<4>,
    mask: &Mask,
    options: &AttentionOptions,
) -> Tensor<4> {
    if scores.dims().contains(&0) {
        return scores;
    }
    let [_, heads, ..] = scores.dims();
    let sinks = options.all_sinks(heads, wide(scores.dtype()), &scores.device());
    let modifiers = ScoreModifiers {
        sinks: OptionalTensor::of(sinks),
        ..ScoreModifiers::NONE
    };
    let mask = mask.resolve(scores.dims(), &scores.device());
    let scores = scores.into_dispatch();
    let weights = ops::softmax_with_sinks::<Dispatch>(scores, &modifiers, mask);
    Tensor::from_dispatch(weights)
}

/// The sum of two biases, in `f32` at least.
pub(crate) fn sum_of_biases(a: Tensor<4>, b: Tensor<4>) -> Tensor<4> {
    let [a, b] = [widened(a), widened(b)];
    match (a.dtype(), b.dtype()) {
        (DType::F64, DType::F32) => a + b.cast(DType::F64),
        (DType::F32, DType::F64) => a.cast(DType::F64) + b,
        _ => a + b,
    }
}
