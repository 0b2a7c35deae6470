//! Inputs and outputs of the kernels over pairs, and their launch arguments.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::host::dropout::Dropout;
use crate::host::mask::DeviceMask;
use crate::host::modifiers::ScoreModifiers;
use crate::host::tensors::empty;
use crate::tile::operands::{OperandsLaunch, ScoreKind, SizesLaunch};
use crate::tile::tiling::Tiling;

/// Attention: `softmax(scores) values` over the keys that each query attends to.
///
/// # Shapes
/// - `queries`: `[batch, heads, queries, size]`
/// - `keys`: `[batch, key_heads, keys, size]`, where `key_heads` divides `heads`
/// - `values`: `[batch, key_heads, keys, value_size]`
///
/// Tensors must be [contiguous](crate::contiguous), and queries, keys and values of the same type.
#[derive(Clone, Debug)]
pub struct AttentionInputs {
    /// In f32, f16 or bf16.
    pub queries: CubeTensor,
    /// In the type of the queries.
    pub keys: CubeTensor,
    /// In the type of the queries.
    pub values: CubeTensor,
    /// The formula of the scores.
    pub score: Score,
    /// Modifications of the scores.
    pub modifiers: ScoreModifiers,
    /// The keys that each query attends to.
    pub mask: DeviceMask,
    /// Dropout of the weights, if any.
    pub dropout: Option<Dropout>,
}

/// The formula of the score of a query and a key, with its parameters in f32.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a call has one")]
pub enum Score {
    /// `scale sum_h q_h k_h`
    DotProduct {
        /// The factor on the products.
        scale: f64,
    },
    /// `sum_h w_h tanh(q_h + k_h)`
    Additive {
        /// `[size]`
        weight: CubeTensor,
    },
}

/// The result of [`AttentionInputs::forward`], in f32.
#[derive(Clone, Debug)]
pub struct AttentionOutputs {
    /// `[batch, heads, queries, value_size]`; 0 for a query without keys.
    pub context: CubeTensor,
    /// The largest score and the reciprocal of the sum of exponentials, `[batch, heads, queries, 2]`, from which the
    /// backward pass recomputes the weights. A sink counts as a score.
    pub statistics: CubeTensor,
}

/// Additive scores of all pairs, `weight . tanh(query + key)`, 0 where masked.
///
/// # Shapes
/// - `queries`: `[batch, heads, queries, size]`
/// - `keys`: `[batch, key_heads, keys, size]`, where `key_heads` divides `heads`
/// - `weight`: `[size]`, in f32
///
/// Tensors must be [contiguous](crate::contiguous), and queries and keys of the same type.
#[derive(Clone, Debug)]
pub struct AdditiveScoreInputs {
    /// In f32, f16 or bf16.
    pub queries: CubeTensor,
    /// In the type of the queries.
    pub keys: CubeTensor,
    /// The factors on the hyperbolic tangents.
    pub weight: CubeTensor,
    /// The keys that each query attends to.
    pub mask: DeviceMask,
}

impl AdditiveScoreInputs {
    /// The inputs as inputs of attention, whose values score kernels do not read.
    pub(crate) fn without_values(&self) -> AttentionInputs {
        AttentionInputs {
            queries: self.queries.clone(),
            keys: self.keys.clone(),
            values: self.keys.clone(),
            score: Score::Additive {
                weight: self.weight.clone(),
            },
            modifiers: ScoreModifiers::NONE,
            mask: self.mask.clone(),
            dropout: None,
        }
    }
}

impl AttentionInputs {
    /// Checks the inputs, as the first step of every pass.
    ///
    /// # Panics
    /// If shapes or types of the tensors do not fit together, a size is 0, a tensor is not contiguous, or the mask is
    /// for another number of queries.
    pub(crate) fn check(&self) {
        let [batch, heads, queries, size] = self.queries.shape().dims();
        let [_, key_heads, keys, _] = self.keys.shape().dims();
        let [.., value_size] = self.values.shape().dims::<4>();
        let expected = [
            ("queries", &self.queries, [batch, heads, queries, size]),
            ("keys", &self.keys, [batch, key_heads, keys, size]),
            ("values", &self.values, [batch, key_heads, keys, value_size]),
        ];
        let dtype = self.queries.dtype();
        for (name, tensor, shape) in expected {
            let got = (tensor.shape().dims::<4>(), tensor.dtype());
            assert!(
                got == (shape, dtype) && !shape.contains(&0) && tensor.is_contiguous(),
                "attention: {name} expected contiguous, {shape:?} of {dtype:?} without a size of 0, got {:?} of {:?}",
                got.0,
                got.1
            );
        }
        assert!(
            heads.is_multiple_of(key_heads),
            "attention: heads of keys expected to divide those of queries, {heads}, got {key_heads}"
        );
        self.modifiers.check([batch, heads, queries, keys]);
        self.mask.check(queries);
    }

    /// The tiling of the mask, which knows what each tile attends to.
    pub(crate) fn tiling(&self) -> Tiling {
        self.mask.tiling()
    }

    /// These inputs for kernels in another tiling.
    pub(crate) fn in_tiles_of(&self, tiling: Tiling) -> Self {
        let mask = self.mask.in_tiles_of(tiling);
        Self {
            mask,
            ..self.clone()
        }
    }

    pub(crate) fn kind(&self) -> ScoreKind {
        match self.score {
            Score::DotProduct { .. } => ScoreKind::Dot,
            Score::Additive { .. } => ScoreKind::Additive,
        }
    }

    /// An uninitialised tensor of f32.
    pub(crate) fn empty(&self, shape: impl Into<Shape>) -> CubeTensor {
        empty(&self.queries, shape, DType::F32)
    }

    /// The argument of a kernel.
    pub(crate) fn operands<F: Float>(&self) -> OperandsLaunch<F> {
        let (weight, scale) = match &self.score {
            Score::DotProduct { scale } => (None, *scale),
            Score::Additive { weight } => (Some(weight.clone()), 1.0),
        };
        OperandsLaunch::new(
            self.queries.clone().into_buffer_arg(),
            self.keys.clone().into_buffer_arg(),
            self.values.clone().into_buffer_arg(),
            weight.map(CubeTensor::into_tensor_arg).into(),
            self.modifiers.arg(),
            self.mask.arg(),
            Dropout::arg(self.dropout.as_ref()),
            self.sizes(scale),
            self.kind(),
            self.tiling(),
        )
    }

    fn sizes(&self, scale: f64) -> SizesLaunch {
        let [batch, heads, queries, size] = self.queries.shape().dims();
        let [_, key_heads, keys, _] = self.keys.shape().dims();
        let [_, _, _, value_size] = self.values.shape().dims();
        SizesLaunch::new(
            batch,
            heads,
            key_heads,
            queries,
            keys,
            size,
            value_size,
            scale as f32,
        )
    }

    /// The widest index type that any of its tensors, or of `others`, needs.
    pub(crate) fn address_type(&self, others: &[&CubeTensor]) -> AddressType {
        let own = [&self.queries, &self.keys, &self.values];
        let tensors = own
            .into_iter()
            .chain(self.modifiers.biases())
            .chain(others.iter().copied());
        let widest = tensors.map(CubeTensor::required_address_type).max();
        widest.unwrap_or_default().max(self.mask.address_type())
    }
}
