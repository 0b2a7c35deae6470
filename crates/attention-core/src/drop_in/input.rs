//! The input of multi-head attention, as Burn's callers build it.

use burn::tensor::{Bool, Tensor};

use crate::mask::Mask;

/// Burn's `MhaInput`. (burn-nn 0.22.1 does not let other crates read the fields of its type.)
#[derive(Clone, Debug)]
pub struct MhaInput {
    /// `[batch, queries, d_model]`
    pub query: Tensor<3>,
    /// `[batch, keys, d_model]`
    pub key: Tensor<3>,
    /// `[batch, keys, d_model]`
    pub value: Tensor<3>,
    mask_pad: Option<Tensor<2, Bool>>,
    mask_attn: Option<Tensor<3, Bool>>,
    mask: Mask,
}

impl MhaInput {
    /// Self-attention: queries, keys and values from one tensor, without a mask.
    ///
    /// # Shapes
    /// - tensor `[batch, rows, d_model]`
    pub fn self_attn(tensor: Tensor<3>) -> Self {
        Self::new(tensor.clone(), tensor.clone(), tensor)
    }

    /// Queries, keys and values, without a mask.
    ///
    /// # Shapes
    /// - query `[batch, queries, d_model]`, key and value `[batch, keys, d_model]`
    pub fn new(query: Tensor<3>, key: Tensor<3>, value: Tensor<3>) -> Self {
        Self {
            query,
            key,
            value,
            mask_pad: None,
            mask_attn: None,
            mask: Mask::none(),
        }
    }

    /// Sets the mask of keys, true where masked.
    ///
    /// # Shapes
    /// - mask_pad `[batch, keys]`
    pub fn mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.mask_pad = Some(mask_pad);
        self
    }

    /// Sets the mask of pairs, true where masked.
    ///
    /// # Shapes
    /// - mask_attn `[batch, queries, keys]`
    pub fn mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.mask_attn = Some(mask_attn);
        self
    }

    /// Sets a mask of this library, which is combined with the boolean ones. Burn has no such method: [`Mask::causal`]
    /// instead of a triangle of flags leaves the masked half uncomputed.
    pub fn mask(self, mask: Mask) -> Self {
        Self { mask, ..self }
    }

    /// The pairs that every mask keeps.
    pub(super) fn all_masks(&self) -> Mask {
        let mask_pad = self.mask_pad.clone().map_or_else(Mask::none, Mask::from);
        let mask_attn = self.mask_attn.clone().map_or_else(Mask::none, Mask::from);
        self.mask.clone() & mask_pad & mask_attn
    }
}
