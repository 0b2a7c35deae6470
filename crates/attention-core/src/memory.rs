//! Keys and values that many queries attend to.

use std::borrow::Cow;

use burn::tensor::{Int, Tensor};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use crate::functional::{KeysAndValues, assert_a_value_for_each_key, without_padding};
use crate::mask::Mask;
use crate::owner::Owner;
use crate::rank::repeat_examples;

/// Keys (already projected), values and their mask, made once by [`Attention::prepare`] and read by many
/// calls of [`Attention::attend`], such as the steps of a decoder. It is for the module that prepared it, whose
/// parameters projected the keys; a module with another type of score panics.
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
/// let context = attention.attend(Tensor::<3>::ones([2, 1, 3], &device), &memory, Mask::none());
/// assert_eq!(context.dims(), [2, 1, 5]);
/// // Beam search: three beams of each example, then the ones that a step keeps.
/// let beams = memory.expand(3).select(Tensor::from_ints([0, 0, 1, 5, 4, 4], &device));
/// assert_eq!(beams.batch_size(), 6);
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    pub(crate) rows: KeysAndValues,
    /// The type that may read it; `None` for any.
    owner: Option<Owner>,
}

impl Memory {
    /// Keys that are already projected, with the heads axis, and their values, for any score to read. Padding is
    /// cleared.
    ///
    /// # Shapes
    /// - keys `[batch, heads, keys, _]`, values `[batch, heads, keys, value_size]`
    ///
    /// # Panics
    /// If keys and values differ in batch, heads, number, device or the type of their elements, or the mask does not
    /// fit them: its heads axis is 1 or the number of query heads of later calls, a multiple of the key heads.
    pub fn of_projected(keys: Tensor<4>, values: Tensor<4>, mask: Mask) -> Self {
        assert_a_value_for_each_key(keys.dims(), values.dims());
        let others = [Argument::floats("values", &values)];
        assert_together("Memory", Argument::floats("keys", &keys), others);
        let keys = without_padding(keys, &mask);
        Self {
            rows: KeysAndValues::new(keys.into(), values.into(), mask),
            owner: None,
        }
    }

    /// A memory that only a `T` may read.
    pub(crate) fn owned_by<T: 'static>(rows: KeysAndValues) -> Self {
        Self {
            rows,
            owner: Some(Owner::of::<T>()),
        }
    }

    /// # Panics
    /// If it was prepared for another type than `T`.
    pub(crate) fn expect_owner<T: 'static>(&self) {
        let expected = Owner::of::<T>();
        let got = self.owner.unwrap_or(expected);
        assert!(
            got == expected,
            "memory expected to be prepared for {}, got one for {}",
            expected.name,
            got.name
        );
    }

    /// Keys and values with the mask for `[heads, num_queries]` of a call; see [`KeysAndValues::for_queries`].
    ///
    /// # Panics
    /// If a mask does not fit, or the memory was prepared for another type than `T`.
    pub(crate) fn for_queries<T: 'static>(
        &self,
        mask: &Mask,
        queries: [usize; 2],
    ) -> Cow<'_, KeysAndValues> {
        self.expect_owner::<T>();
        self.rows.for_queries(mask, queries)
    }

    /// The memory of the examples `indices`, in that order, as beam search keeps it after a step.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// If the indices are on another device, or an index is no example.
    pub fn select(&self, indices: Tensor<1, Int>) -> Self {
        let first = self.rows.keys.argument("keys");
        let others = [Argument::on_device("indices", &indices)];
        assert_together("Memory::select", first, others);
        let mask = self.rows.mask.select(indices.clone());
        Self {
            rows: (self.rows).map(mask, |tensor| tensor.select(0, indices.clone())),
            owner: self.owner,
        }
    }

    /// The memory with every example repeated `beam` times, the copies next to each other: `[batch * beam, ...]`.
    pub fn expand(&self, beam: usize) -> Self {
        let mask = self.rows.mask.expand(beam);
        Self {
            rows: (self.rows).map(mask, |tensor| repeat_examples(tensor, beam)),
            owner: self.owner,
        }
    }

    /// The keys, as the scoring function projected them, `[batch, key_heads, keys, _]`.
    pub fn keys(&self) -> Tensor<4> {
        self.rows.keys.to_tensor()
    }

    /// The values, `[batch, key_heads, keys, value_size]`.
    pub fn values(&self) -> Tensor<4> {
        self.rows.values.to_tensor()
    }

    /// Which keys each query attends to.
    pub fn mask(&self) -> &Mask {
        &self.rows.mask
    }

    /// The number of examples.
    pub fn batch_size(&self) -> usize {
        self.rows.keys.dims()[0]
    }

    /// The number of keys, padding included.
    pub fn num_keys(&self) -> usize {
        self.rows.num_keys()
    }
}
