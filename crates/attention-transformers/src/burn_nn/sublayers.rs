//! Norms, residual connections and feed-forward networks of a layer.

use attention_core::drop_in::{
    Cached, MhaCache, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig,
};
use burn::nn::activation::Activation;
use burn::nn::transformer::{PositionWiseFeedForward, PositionWiseFeedForwardConfig};
use burn::nn::{Dropout, DropoutConfig, Initializer, Linear, activation::ActivationConfig};
use burn::tensor::{Device, Tensor};
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::{Activation as Function, dropout_beside, linear};

use crate::feed_forward::activated_output;
use crate::norm::{Norm, NormConfig};

/// The settings that the layers of encoder and decoder have in common.
pub(super) struct LayerSettings<'a> {
    pub(super) d_model: usize,
    pub(super) d_ff: usize,
    pub(super) n_heads: usize,
    pub(super) dropout: f64,
    pub(super) quiet_softmax: bool,
    pub(super) initializer: &'a Initializer,
    pub(super) activation: &'a ActivationConfig,
    pub(super) layer_norm_eps: f64,
}

impl LayerSettings<'_> {
    pub(super) fn attention(&self, device: &Device) -> MultiHeadAttention {
        MultiHeadAttentionConfig::new(self.d_model, self.n_heads)
            .with_initializer(self.initializer.clone())
            .with_dropout(self.dropout)
            .with_quiet_softmax(self.quiet_softmax)
            .init(device)
    }

    pub(super) fn feed_forward(&self, device: &Device) -> PositionWiseFeedForward {
        PositionWiseFeedForwardConfig::new(self.d_model, self.d_ff)
            .with_initializer(self.initializer.clone())
            .with_dropout(self.dropout)
            .with_activation(self.activation.clone())
            .init(device)
    }

    pub(super) fn norm(&self, device: &Device) -> Norm {
        let norm = NormConfig::Layer {
            epsilon: self.layer_norm_eps,
            bias: true,
        };
        norm.init(self.d_model, device)
    }

    pub(super) fn dropout(&self) -> Dropout {
        DropoutConfig::new(self.dropout).init()
    }
}

/// A residual connection around a sublayer, with its normalization first or last.
pub(super) struct Residual<'a> {
    pub(super) norm: &'a Norm,
    pub(super) norm_first: bool,
    pub(super) dropout: &'a Dropout,
}

impl Residual<'_> {
    /// The rows after a sublayer; `norms` knows those that are normalized already.
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

/// `of(rows)`; a cache knows the first rows.
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

/// Burn's feed-forward network, by kernels.
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
