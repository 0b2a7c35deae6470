//! The keys and values that queries attend to.

use std::borrow::Cow;

use burn::tensor::{Device, Tensor};

use super::padding::fill_padding;
use super::shared::SharedTensor;
use crate::mask::Mask;
use crate::ops::SharedGradients;
use crate::rank::Sequences;

/// Keys as the score compares them, their values and their mask.
#[derive(Clone, Debug)]
pub(crate) struct KeysAndValues {
    /// `[batch, key_heads, keys, _]`
    pub(crate) keys: Sequences,
    /// `[batch, key_heads, keys, value_size]`
    pub(crate) values: Sequences,
    pub(crate) mask: Mask,
    pub(crate) prepared: PreparedKeys,
    /// Keys and values as they were prepared; `None` for a selection of them, whose gradients Burn sums.
    pub(crate) shared: Option<Box<SharedRows>>,
}

/// Keys and values that many calls read.
#[derive(Clone, Debug)]
pub(crate) struct SharedRows {
    pub(crate) keys: SharedTensor,
    pub(crate) values: SharedTensor,
}

/// The preparation of the keys for the kernel of their score, beside their projection.
#[derive(Clone, Debug)]
pub(crate) enum PreparedKeys {
    /// Nothing.
    None,
    /// The bias on the dot products of each key, `[batch, heads, 1, keys]`.
    Bias(Tensor<4>),
    /// There is a bias, but each call computes it: the keys are a leaf, so nothing may be computed from them in
    /// advance.
    BiasOfLeaf,
    /// The keys as the additive kernel reads them, `[batch, ..]`.
    Packed(Tensor<4>),
}

impl PreparedKeys {
    /// The preparation for other examples, which `f` selects along the batch.
    fn map(&self, f: impl FnOnce(Tensor<4>) -> Tensor<4>) -> Self {
        match self {
            Self::None | Self::BiasOfLeaf => Self::None,
            // A bias of one example serves every example.
            Self::Bias(bias) if bias.dims()[0] == 1 => self.clone(),
            Self::Bias(bias) => Self::Bias(f(bias.clone())),
            Self::Packed(packed) => Self::Packed(f(packed.clone())),
        }
    }
}

impl KeysAndValues {
    /// Keys whose padding is cleared, where it reaches a gradient, and a mask that was found to fit.
    pub(crate) fn new(keys: Sequences, values: Sequences, mask: Mask) -> Self {
        Self {
            keys,
            values,
            mask: mask.settled(),
            prepared: PreparedKeys::None,
            shared: None,
        }
    }

    /// Keys and values for many calls to read, from here on with four axes, as the deposits of gradients have.
    pub(crate) fn share(&mut self) -> SharedRows {
        for rows in [&mut self.keys, &mut self.values] {
            *rows = rows.to_tensor().into();
        }
        SharedRows {
            keys: SharedTensor::new(self.keys.clone().into_dispatch()),
            values: SharedTensor::new(self.values.clone().into_dispatch()),
        }
    }

    /// These keys and values with `mask` as a further mask; all operations of a call with `heads` heads of
    /// `num_queries` queries share one resolved mask.
    ///
    /// # Panics
    /// If a mask does not fit.
    pub(crate) fn for_queries(
        &self,
        mask: &Mask,
        [heads, num_queries]: [usize; 2],
    ) -> Cow<'_, Self> {
        let [batch, _, num_keys, _] = self.keys.dims();
        if mask.is_none() && self.mask.is_resolved_for([num_queries, num_keys]) {
            return Cow::Borrowed(self);
        }
        let mask = self.mask.clone() & mask.clone();
        let scores = [batch, heads, num_queries, num_keys];
        Cow::Owned(Self {
            mask: mask.resolved_for(scores, &self.values.device()),
            ..self.clone()
        })
    }

    /// The keys and values of other examples, which `f` selects along the batch, and their mask.
    pub(crate) fn map(&self, mask: Mask, f: impl Fn(Tensor<4>) -> Tensor<4>) -> Self {
        Self {
            keys: f(self.read_cleared_keys().into_tensor()).into(),
            values: f(self.read_values().into_tensor()).into(),
            mask,
            prepared: self.prepared.map(&f),
            shared: None,
        }
    }

    /// The keys to compute a bias from; `None` if that was settled when they were prepared.
    pub(crate) fn keys_without_bias(&self) -> Option<Sequences> {
        match (&self.shared, &self.prepared) {
            (None, _) => Some(self.keys.clone()),
            (_, PreparedKeys::BiasOfLeaf) => Some(self.read_cleared_keys()),
            _ => None,
        }
    }

    /// [`read_keys`](Self::read_keys) for tensor operations: in a leaf, padding gets no gradient.
    pub(crate) fn read_cleared_keys(&self) -> Sequences {
        let keys = self.read_keys();
        if self.are_keys_a_leaf() {
            without_padding(keys.into_tensor(), &self.mask).into()
        } else {
            keys
        }
    }

    /// Whether the keys that many calls read are a leaf of the graph.
    pub(crate) fn are_keys_a_leaf(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.keys.is_leaf())
    }

    /// The keys, for one call to read.
    pub(crate) fn read_keys(&self) -> Sequences {
        match &self.shared {
            Some(shared) => shared.keys.read(self.keys.clone()),
            None => self.keys.clone(),
        }
    }

    /// The values, for one call to read.
    pub(crate) fn read_values(&self) -> Sequences {
        match &self.shared {
            Some(shared) => shared.values.read(self.values.clone()),
            None => self.values.clone(),
        }
    }

    /// The place where a call may deposit the gradients of the tensors it read.
    pub(crate) fn shared_gradients(&self) -> Option<SharedGradients> {
        self.shared.as_ref().map(|shared| SharedGradients {
            keys: shared.keys.slot(),
            values: shared.values.slot(),
        })
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
        [&self.keys, &self.values].map(Sequences::device)
    }

    /// The number of keys, padding included.
    pub(crate) fn num_keys(&self) -> usize {
        self.keys.dims()[2]
    }
}

/// The keys `[batch, key_heads, keys, _]`, with zeros for keys that, as the mask says before any query is known, no
/// head attends to.
pub(crate) fn without_padding(keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
    let (known, num_queries) = mask.without_positions();
    let [_, key_heads, _, _] = keys.dims();
    let heads = known.heads_over(key_heads);
    fill_padding(keys, &known, [heads, num_queries])
}
