//! Norms, residual connections and feed-forward networks of a layer.

use attention_core::Mask;
use attention_core::drop_in::{Cached, MhaCache, MhaInput, MultiHeadAttention};
use burn::nn::activation::Activation;
use burn::nn::transformer::PositionWiseFeedForward;
use burn::nn::{Dropout, Linear};
use burn::tensor::{Bool, Device, Tensor};
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::{Activation as Function, dropout_beside, linear};

use crate::feed_forward::activated_output;
use crate::norm::Norm;

/// The masks of an attention.
#[derive(Clone, Debug, Default)]
pub(super) struct Masks {
    pub(super) pad: Option<Tensor<2, Bool>>,
    pub(super) attn: Option<Tensor<3, Bool>>,
    pub(super) own: Mask,
}

impl Masks {
    /// A single mask of the pairs that all of them keep.
    pub(super) fn joined(&self) -> Mask {
        let pad = self.pad.clone().map_or_else(Mask::none, Mask::from);
        let attn = self.attn.clone().map_or_else(Mask::none, Mask::from);
        self.own.clone() & pad & attn
    }

    /// [`joined`](Self::joined), resolved for scores `[batch, heads, queries, keys]`: once for all layers.
    pub(super) fn resolved(&self, scores: [usize; 4], device: &Device) -> Mask {
        self.joined().resolved_for(scores, device)
    }
}

/// A residual connection around a sublayer, with its normalization first or last.
pub(super) struct Residual<'a> {
    pub(super) norm: &'a Norm,
    pub(super) norm_first: bool,
    pub(super) dropout: &'a Dropout,
}

impl Residual<'_> {
    /// The rows after a sublayer; `norms` is the cache of rows that are already normalized.
    pub(super) fn forward(
        &self,
        rows: Tensor<3>,
        norms: Option<&mut Cached<3>>,
        sublayer: impl FnOnce(Tensor<3>) -> Tensor<3>,
    ) -> Tensor<3> {
        let normalized = |rows| known_or(norms, rows, |rows| self.norm.forward(rows));
        if self.norm_first {
            let added = sublayer(normalized(rows.clone()));
            rows + self.dropout.forward(added)
        } else {
            let added = sublayer(rows.clone());
            normalized(rows + self.dropout.forward(added))
        }
    }
}

/// `of(rows)`; a cache has the first rows.
pub(super) fn known_or(
    cache: Option<&mut Cached<3>>,
    rows: Tensor<3>,
    of: impl FnOnce(Tensor<3>) -> Tensor<3>,
) -> Tensor<3> {
    match cache {
        Some(cache) => cache.forward(rows, of),
        None => of(rows),
    }
}

/// The context of each query.
pub(super) fn attend(
    attention: &MultiHeadAttention,
    input: MhaInput,
    cache: Option<&mut MhaCache>,
) -> Tensor<3> {
    match cache {
        Some(cache) => attention.forward_cache(input, cache).context,
        None => attention.context(input),
    }
}

/// Burn's feed-forward network, in kernels.
pub(super) fn feed_forward(network: &PositionWiseFeedForward, rows: Tensor<3>) -> Tensor<3> {
    let apply = |layer: &Linear, rows: Tensor<3>| {
        let (weight, bias) = of_linear(layer);
        linear(rows, weight, bias)
    };
    let hidden = apply(&network.linear_inner, rows);
    let function = match &network.activation {
        Activation::Gelu(gelu) if gelu.approximate => Function::GeluTanh,
        Activation::Gelu(_) => Function::Gelu,
        Activation::Relu(_) => Function::Relu,
        other => {
            let outer = &network.linear_outer;
            let devices = [outer.weight.device()];
            let hidden = dropout_beside(&network.dropout, other.forward(hidden), devices);
            return apply(outer, hidden);
        }
    };
    let (output, dropout) = (&network.linear_outer, &network.dropout);
    activated_output(output, dropout, None, hidden, function)
}
