//! Modifications of scores on their way to the softmax.

use burn_backend::{DType, TensorMetadata};
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::host::mask::MASKED;
use crate::tile::math::tanh;

/// The lowest score of an unmasked pair.
const LOWEST: f32 = f32::MIN.next_up();

/// Modifications of the scores of an attention on their way to the softmax: `cap tanh(score / cap) + bias +
/// relative_bias`, and a sink beside the keys.
///
/// Tensors must be [contiguous](crate::contiguous) and in f32.
#[derive(Clone, Debug)]
pub struct ScoreModifiers {
    /// The cap, positive and finite.
    pub soft_cap: Option<f64>,
    /// Added to the scores, `[batch or 1, heads or 1, queries or 1, keys]`; minus infinity masks a key.
    pub bias: Option<CubeTensor>,
    /// Added by distance, `[batch or 1, heads or 1, 1, queries + keys - 1]`: the score of query `i` and key `j` gets
    /// element `j - i + queries - 1`; minus infinity masks a key.
    pub relative_bias: Option<CubeTensor>,
    /// A logit per head, `[heads]`, whose weight goes to no value.
    pub sinks: Option<CubeTensor>,
}

impl ScoreModifiers {
    /// No modifications.
    pub const NONE: Self = Self {
        soft_cap: None,
        bias: None,
        relative_bias: None,
        sinks: None,
    };

    /// The tensors on which the scores of pairs depend.
    pub(crate) fn biases(&self) -> impl Iterator<Item = &CubeTensor> {
        self.bias.iter().chain(&self.relative_bias)
    }

    /// Whether the bias is per key, the same for all queries.
    pub(crate) fn has_key_bias(&self) -> bool {
        self.bias.as_ref().is_some_and(|bias| bias.shape()[2] == 1)
    }

    /// # Panics
    /// If a tensor does not fit scores of `[batch, heads, queries, keys]`, is not in f32 or not contiguous.
    pub(crate) fn check(&self, [batch, heads, queries, keys]: [usize; 4]) {
        let check = |name, tensor: &CubeTensor, expected: &[usize]| {
            let (shape, dtype) = (tensor.shape(), tensor.dtype());
            assert!(
                shape.as_slice() == expected && dtype == DType::F32 && tensor.is_contiguous(),
                "attention: {name} expected contiguous, {expected:?} of F32, got {:?} of {dtype:?}",
                shape.as_slice()
            );
        };
        let or_one = |got, expected| if got == 1 { 1 } else { expected };
        if let Some(bias) = &self.bias {
            let [of_batch, of_heads, of_queries, _] = bias.shape().dims();
            let expected = [
                or_one(of_batch, batch),
                or_one(of_heads, heads),
                or_one(of_queries, queries),
                keys,
            ];
            check("bias", bias, &expected);
        }
        if let Some(bias) = &self.relative_bias {
            let [of_batch, of_heads, ..] = bias.shape().dims::<4>();
            let [batch, heads] = [or_one(of_batch, batch), or_one(of_heads, heads)];
            let distances = queries + keys - 1;
            check("relative bias", bias, &[batch, heads, 1, distances]);
        }
        if let Some(sinks) = &self.sinks {
            check("sinks", sinks, &[heads]);
        }
    }

    /// The argument of the kernels, without the sinks, which only the forward pass reads.
    pub(crate) fn arg(&self) -> ModifiersLaunch {
        let tensor = |tensor: &Option<CubeTensor>| tensor.clone().map(CubeTensor::into_tensor_arg);
        let strides = |bias: &Option<CubeTensor>| {
            let shape = bias
                .as_ref()
                .map_or([1; 4], |bias| bias.shape().dims::<4>());
            let [batch, heads, rows, size] = shape;
            let along = |count, stride| if count > 1 { stride } else { 0 };
            [
                along(batch, heads * rows * size),
                along(heads, rows * size),
                along(rows, size),
            ]
        };
        let [batch, head, query] = strides(&self.bias);
        let [relative_batch, relative_head, _] = strides(&self.relative_bias);
        ModifiersLaunch::new(
            self.soft_cap.map(|cap| cap as f32).into(),
            tensor(&self.bias).into(),
            tensor(&self.relative_bias).into(),
            BiasStridesLaunch::new(batch, head, query, relative_batch, relative_head),
        )
    }
}

/// Modifications of scores in a kernel; each may be absent.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Modifiers {
    pub(crate) soft_cap: ComptimeOption<f32>,
    bias: ComptimeOption<OwnedTensor<f32>>,
    relative_bias: ComptimeOption<OwnedTensor<f32>>,
    strides: BiasStrides,
}

/// The strides of the biases; 0 along an axis of size 1.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct BiasStrides {
    batch: usize,
    head: usize,
    query: usize,
    relative_batch: usize,
    relative_head: usize,
}

/// A pair of query and key.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct PairIndex {
    pub(crate) batch: usize,
    pub(crate) head: usize,
    pub(crate) query: usize,
    pub(crate) key: usize,
    /// `queries - 1`: the index of the distance between a query and a key with the same index.
    pub(crate) zero_distance: usize,
}

#[cube]
impl Modifiers {
    /// Replaces sums by `cap tanh(scale sum / cap)`, and writes the derivatives by `scale sum` to `slopes`, if capped.
    pub(crate) fn cap_scores(
        &self,
        sums: &mut Array<f32>,
        slopes: &mut Array<f32>,
        scale: f32,
        #[comptime] count: usize,
    ) {
        #[comptime]
        match &self.soft_cap {
            ComptimeOption::Some(cap) => {
                let cap = *cap;
                let factor = scale / cap;
                #[unroll]
                for n in 0..count {
                    let tanh = tanh(sums[n] * factor);
                    sums[n] = cap * tanh;
                    slopes[n] = fma(-tanh, tanh, 1.0f32);
                }
            }
            ComptimeOption::None => {}
        }
    }

    /// Turns gradients by capped scores into gradients by the scores before the cap; [`MASKED`] stays.
    pub(crate) fn uncap_gradients(
        &self,
        gradients: &mut Array<f32>,
        slopes: &Array<f32>,
        #[comptime] count: usize,
    ) {
        if comptime!(self.soft_cap.is_some()) {
            #[unroll]
            for n in 0..count {
                let gradient = gradients[n];
                gradients[n] = select(gradient == MASKED, MASKED, gradient * slopes[n]);
            }
        }
    }

    /// The factor on scores before biases are added; capped scores are already scaled.
    pub(crate) fn factor(&self, scale: f32) -> f32 {
        #[comptime]
        match &self.soft_cap {
            ComptimeOption::Some(_) => 1.0f32.runtime(),
            ComptimeOption::None => scale,
        }
    }

    /// `factor score` plus the biases of a pair; [`MASKED`] if a bias is minus infinity, whatever the score is.
    pub(crate) fn add_biases(&self, score: f32, factor: f32, at: PairIndex) -> f32 {
        let score = self.add_bias(score, factor, at);
        self.add_relative_bias(score, at)
    }

    fn add_bias(&self, score: f32, factor: f32, at: PairIndex) -> f32 {
        let strides = self.strides;
        #[comptime]
        match &self.bias {
            ComptimeOption::Some(bias) => {
                let row =
                    at.batch * strides.batch + at.head * strides.head + at.query * strides.query;
                let added = bias[row + at.key];
                select(added < MASKED, MASKED, unmasked(fma(score, factor, added)))
            }
            ComptimeOption::None => score * factor,
        }
    }

    fn add_relative_bias(&self, score: f32, at: PairIndex) -> f32 {
        let strides = self.strides;
        #[comptime]
        match &self.relative_bias {
            ComptimeOption::Some(bias) => {
                let row = at.batch * strides.relative_batch + at.head * strides.relative_head;
                let added = bias[row + at.key + at.zero_distance - at.query];
                let is_masked = added < MASKED || score <= MASKED;
                select(is_masked, MASKED, unmasked(score + added))
            }
            ComptimeOption::None => score,
        }
    }
}

/// The score of an unmasked pair, whatever was added: at least the number above [`MASKED`].
#[cube]
fn unmasked(score: f32) -> f32 {
    select(score <= MASKED, LOWEST, score)
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;
