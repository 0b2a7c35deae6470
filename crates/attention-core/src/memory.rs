//! Keys and values that many queries will visit.

use std::any::{TypeId, type_name};

use burn::tensor::{Int, Tensor, assert_shape};

use crate::Mask;
use crate::ops::{self, Pooling, SharedGradients};
use crate::rank::reshape;

/// Keys (already projected), values and their mask, made once by [`Attention::prepare`] and visited by many
/// calls of [`Attention::attend`], such as the steps of a decoder. It is for the module that prepared it, whose
/// parameters have projected the keys; a module with a score of another type panics.
///
/// [`Attention::prepare`]: crate::Attention::prepare
/// [`Attention::attend`]: crate::Attention::attend
///
/// ```
/// use attention_core::{AdditiveAttentionConfig, Mask};
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = AdditiveAttentionConfig::new(3, 5, 8).init(&device);
/// let text = Tensor::<3>::ones([2, 7, 5], &device);
/// let mask = Mask::valid_lens(Tensor::from_ints([7, 4], &device));
/// let memory = attention.prepare(text.clone(), text, mask);
/// let context = attention.attend(Tensor::<3>::ones([2, 1, 3], &device), &memory);
/// assert_eq!(context.dims(), [2, 1, 5]);
/// // Beam search: three beams of each example, then the ones that a step keeps.
/// let beams = memory.expand(3).select(Tensor::from_ints([0, 0, 1, 5, 4, 4], &device));
/// assert_eq!(beams.batch_size(), 6);
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    /// `[batch, heads, keys, _]`, as the scoring function projected them.
    pub(crate) keys: Tensor<4>,
    /// `[batch, heads, keys, value_size]`
    pub(crate) values: Tensor<4>,
    pub(crate) mask: Mask,
    /// What [`ScoringFunction::extend_keys`](crate::ScoringFunction::extend_keys) made of the keys.
    pub(crate) extension: Option<Tensor<4>>,
    /// Of keys and values as they were prepared: what is selected from them adds up its gradients in the usual way.
    pub(crate) shared: Option<SharedGradients>,
    /// Who may read it; anyone, if it is nobody's.
    owner: Option<Owner>,
}

/// The type for which a memory was prepared: a scoring function, or an [`Alignment`](crate::Alignment) with a score of
/// its own.
#[derive(Clone, Copy, Debug)]
struct Owner {
    id: TypeId,
    name: &'static str,
}

impl Owner {
    fn of<T: 'static>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
        }
    }
}

impl Memory {
    /// Keys that are projected already, with the heads axis, and their values, for any score to read. Padding is
    /// cleared.
    ///
    /// # Shapes
    /// - keys `[batch, heads, keys, _]`, values `[batch, heads, keys, value_size]`
    ///
    /// # Panics
    /// If keys and values differ in batch, heads or number.
    pub fn of_projected(keys: Tensor<4>, values: Tensor<4>, mask: Mask) -> Self {
        let [batch, heads, num_keys, _] = keys.dims();
        assert_shape!(values, [batch, heads, num_keys, _]);
        let (known, num_queries) = mask.without_positions();
        let keys = ops::fill_padding(keys, &known, num_queries);
        Self::of_cleared(keys, values, mask)
    }

    /// [`of_projected`](Self::of_projected), where padding was cleared before the projection.
    pub(crate) fn of_cleared(keys: Tensor<4>, values: Tensor<4>, mask: Mask) -> Self {
        Self {
            keys,
            values,
            mask,
            extension: None,
            shared: None,
            owner: None,
        }
    }

    /// The same, for a `T` alone to read.
    pub(crate) fn owned_by<T: 'static>(self) -> Self {
        Self {
            owner: Some(Owner::of::<T>()),
            ..self
        }
    }

    /// # Panics
    /// If it was prepared for another type than `T`.
    pub(crate) fn expect_owner<T: 'static>(&self) {
        let expected = Owner::of::<T>();
        let got = self.owner.unwrap_or(expected);
        assert!(
            got.id == expected.id,
            "memory expected to be prepared for {}, got one for {}",
            expected.name,
            got.name
        );
    }

    /// The memory of the examples `indices`, in that order: what a beam search keeps after a step.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    pub fn select(&self, indices: Tensor<1, Int>) -> Self {
        Self {
            keys: self.keys.clone().select(0, indices.clone()),
            values: self.values.clone().select(0, indices.clone()),
            extension: self
                .extension
                .clone()
                .map(|extension| extension.select(0, indices.clone())),
            mask: self.mask.select(indices),
            shared: None,
            owner: self.owner,
        }
    }

    /// The memory with every example repeated `beam` times, the copies next to each other: `[batch * beam, ...]`.
    pub fn expand(&self, beam: usize) -> Self {
        let repeat = |tensor: Tensor<4>| {
            let [batch, heads, keys, size] = tensor.dims();
            let copies = reshape(tensor, [batch, 1, heads, keys, size]).repeat_dim(1, beam);
            reshape(copies, [batch * beam, heads, keys, size])
        };
        Self {
            keys: repeat(self.keys.clone()),
            values: repeat(self.values.clone()),
            extension: self.extension.clone().map(repeat),
            shared: None,
            owner: self.owner,
            mask: self.mask.expand(beam),
        }
    }

    /// The keys, as the scoring function projected them, `[batch, heads, keys, _]`.
    pub fn keys(&self) -> Tensor<4> {
        self.keys.clone()
    }

    /// The values, `[batch, heads, keys, value_size]`.
    pub fn values(&self) -> Tensor<4> {
        self.values.clone()
    }

    /// Which keys each query sees.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// What [`ScoringFunction::extend_keys`](crate::ScoringFunction::extend_keys) made of the keys; none in
    /// [`Attention::forward`](crate::Attention::forward), which has no use for it.
    pub fn extension(&self) -> Option<Tensor<4>> {
        self.extension.clone()
    }

    /// What there is to pool for projected `queries`.
    pub(crate) fn pooling(&self, queries: Tensor<4>, dropout: f64) -> Pooling<'_> {
        Pooling {
            queries,
            keys: self.keys.clone(),
            values: self.values.clone(),
            mask: &self.mask,
            dropout,
            shared: self.shared.clone(),
        }
    }

    /// The number of examples.
    pub fn batch_size(&self) -> usize {
        self.keys.dims()[0]
    }

    /// The number of keys, padding included.
    pub fn num_keys(&self) -> usize {
        self.keys.dims()[2]
    }
}
