//! Keys and values that many queries attend to.

use std::borrow::Cow;

use burn::tensor::{Device, Int, Tensor, assert_shape};
use burn_fused_layers::harness::checks::{Argument, assert_together};

use crate::functional::{SharedTensor, fill_padding};
use crate::mask::Mask;
use crate::ops::SharedGradients;
use crate::owner::Owner;
use crate::rank::repeat_examples;

/// Keys (already projected), values and their mask, made once by [`Attention::prepare`] and read by many
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
/// let context = attention.attend(Tensor::<3>::ones([2, 1, 3], &device), &memory, Mask::none());
/// assert_eq!(context.dims(), [2, 1, 5]);
/// // Beam search: three beams of each example, then the ones that a step keeps.
/// let beams = memory.expand(3).select(Tensor::from_ints([0, 0, 1, 5, 4, 4], &device));
/// assert_eq!(beams.batch_size(), 6);
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    /// `[batch, key_heads, keys, _]`, as the scoring function projected them.
    pub(crate) keys: Tensor<4>,
    /// `[batch, key_heads, keys, value_size]`
    pub(crate) values: Tensor<4>,
    pub(crate) mask: Mask,
    pub(crate) prepared: PreparedKeys,
    /// Keys and values as they were prepared: what is selected from them adds up its gradients in the usual way.
    pub(crate) shared: Option<Box<SharedMemory>>,
    /// Who may read it; anyone, if it is nobody's.
    owner: Option<Owner>,
}

/// Keys and values that many calls read.
#[derive(Clone, Debug)]
pub(crate) struct SharedMemory {
    pub(crate) keys: SharedTensor,
    pub(crate) values: SharedTensor,
}

impl SharedMemory {
    /// The keys and values of `memory`.
    pub(crate) fn of(memory: &Memory) -> Self {
        Self {
            keys: SharedTensor::new(memory.keys()),
            values: SharedTensor::new(memory.values()),
        }
    }
}

/// The preparation of the keys for the kernel of their score, beside their projection.
#[derive(Clone, Debug)]
pub(crate) enum PreparedKeys {
    /// Nothing.
    None,
    /// The bias on the dot products of each key, `[batch, heads, 1, keys]`.
    Bias(Tensor<4>),
    /// There is such a bias, and each call computes it: the keys are a leaf, so nothing may be computed from them
    /// before.
    BiasOfLeaf,
    /// The keys as the additive kernel reads them, `[batch, ..]`.
    Packed(Tensor<4>),
}

impl PreparedKeys {
    /// The same of other examples, which `f` takes along the batch.
    fn map(&self, f: impl FnOnce(Tensor<4>) -> Tensor<4>) -> Self {
        match self {
            Self::None | Self::BiasOfLeaf => Self::None,
            // A bias of one example serves all.
            Self::Bias(bias) if bias.dims()[0] == 1 => self.clone(),
            Self::Bias(bias) => Self::Bias(f(bias.clone())),
            Self::Packed(packed) => Self::Packed(f(packed.clone())),
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
    /// If keys and values differ in batch, heads, number, device or the type of their elements, or the mask does not
    /// fit them. Its heads axis is 1 or the heads of the queries to come, a multiple of the key heads.
    pub fn of_projected(keys: Tensor<4>, values: Tensor<4>, mask: Mask) -> Self {
        let [batch, heads, num_keys, _] = keys.dims();
        assert_shape!(values, [batch, heads, num_keys, _]);
        let others = [Argument::floats("values", &values)];
        assert_together("Memory", Argument::floats("keys", &keys), others);
        let keys = without_padding(keys, &mask);
        Self::of_cleared(keys, values, mask)
    }

    /// [`of_projected`](Self::of_projected), where padding was cleared before the projection, and the mask found to
    /// fit.
    pub(crate) fn of_cleared(keys: Tensor<4>, values: Tensor<4>, mask: Mask) -> Self {
        Self {
            keys,
            values,
            mask: mask.settled(),
            prepared: PreparedKeys::None,
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
            got == expected,
            "memory expected to be prepared for {}, got one for {}",
            expected.name,
            got.name
        );
    }

    /// The same, where a query attends to a key only if `mask` agrees; all operations of a call with `heads` heads of
    /// `num_queries` queries read the mask once.
    ///
    /// # Panics
    /// If a mask does not fit.
    pub(crate) fn for_queries(
        &self,
        mask: &Mask,
        [heads, num_queries]: [usize; 2],
    ) -> Cow<'_, Self> {
        let num_keys = self.num_keys();
        if mask.is_none() && self.mask.is_resolved_for([num_queries, num_keys]) {
            return Cow::Borrowed(self);
        }
        let mask = self.mask.clone() & mask.clone();
        let scores = [self.batch_size(), heads, num_queries, num_keys];
        Cow::Owned(Self {
            mask: mask.resolved_for(scores, &self.values.device()),
            ..self.clone()
        })
    }

    /// The memory of the examples `indices`, in that order: what a beam search keeps after a step.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    ///
    /// # Panics
    /// If the indices are on another device, or one is no example.
    pub fn select(&self, indices: Tensor<1, Int>) -> Self {
        let others = [Argument::on_device("indices", &indices)];
        assert_together(
            "Memory::select",
            Argument::on_device("keys", &self.keys),
            others,
        );
        let select = |tensor: Tensor<4>| tensor.select(0, indices.clone());
        Self {
            keys: select(self.read_cleared_keys()),
            values: select(self.read_values()),
            prepared: self.prepared.map(select),
            mask: self.mask.select(indices.clone()),
            shared: None,
            owner: self.owner,
        }
    }

    /// The memory with every example repeated `beam` times, the copies next to each other: `[batch * beam, ...]`.
    pub fn expand(&self, beam: usize) -> Self {
        let repeat = |tensor| repeat_examples(tensor, beam);
        Self {
            keys: repeat(self.read_cleared_keys()),
            values: repeat(self.read_values()),
            prepared: self.prepared.map(repeat),
            mask: self.mask.expand(beam),
            shared: None,
            owner: self.owner,
        }
    }

    /// The keys, as the scoring function projected them, `[batch, key_heads, keys, _]`.
    pub fn keys(&self) -> Tensor<4> {
        self.keys.clone()
    }

    /// The values, `[batch, key_heads, keys, value_size]`.
    pub fn values(&self) -> Tensor<4> {
        self.values.clone()
    }

    /// The keys, where their bias was not prepared and may be there.
    pub(crate) fn keys_without_bias(&self) -> Option<Cow<'_, Tensor<4>>> {
        match (&self.shared, &self.prepared) {
            (None, _) => Some(Cow::Borrowed(&self.keys)),
            (_, PreparedKeys::BiasOfLeaf) => Some(Cow::Owned(self.read_cleared_keys())),
            _ => None,
        }
    }

    /// [`read_keys`](Self::read_keys), for tensor operations: of a leaf, padding gets no gradient.
    pub(crate) fn read_cleared_keys(&self) -> Tensor<4> {
        let keys = self.read_keys();
        match &self.shared {
            Some(shared) if shared.keys.is_leaf() => without_padding(keys, &self.mask),
            _ => keys,
        }
    }

    /// The keys for one call that reads them.
    pub(crate) fn read_keys(&self) -> Tensor<4> {
        match &self.shared {
            Some(shared) => shared.keys.read(self.keys()),
            None => self.keys(),
        }
    }

    /// The values for one call that reads them.
    pub(crate) fn read_values(&self) -> Tensor<4> {
        match &self.shared {
            Some(shared) => shared.values.read(self.values()),
            None => self.values(),
        }
    }

    /// Where a call may deposit the gradients of what it has read.
    pub(crate) fn shared_gradients(&self) -> Option<SharedGradients> {
        self.shared.as_ref().map(|shared| SharedGradients {
            keys: shared.keys.slot(),
            values: shared.values.slot(),
        })
    }

    /// Which keys each query attends to.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    pub(crate) fn key_bias(&self) -> Option<Tensor<4>> {
        match &self.prepared {
            PreparedKeys::Bias(bias) => Some(bias.clone()),
            _ => None,
        }
    }

    pub(crate) fn packed_keys(&self) -> Option<Tensor<4>> {
        match &self.prepared {
            PreparedKeys::Packed(packed) => Some(packed.clone()),
            _ => None,
        }
    }

    /// The devices of keys and values, which autodiff may tell apart.
    pub(crate) fn devices(&self) -> [Device; 2] {
        [&self.keys, &self.values].map(Tensor::device)
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

/// The keys `[batch, key_heads, keys, _]` with zeros where the mask says, before any query is known, that none of the
/// heads which read them attends to them.
fn without_padding(keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let (known, num_queries) = mask.without_positions();
    let [_, key_heads, _, _] = keys.dims();
    let heads = known.heads_over(key_heads);
    fill_padding(keys, &known, [heads, num_queries])
}
