//! Configurations, stacks and caches that encoder and decoder share.

use attention_core::drop_in::{Cached, MhaCache};

/// Defines a configuration and its stack, with the names of Burn.
macro_rules! stack {
    ($config:ident, $stack:ident, $layer:ident, $own:literal) => {
        #[doc = concat!("Burn's `", stringify!($config), "`, field by field.")]
        #[derive(Config, Debug)]
        pub struct $config {
            /// The size of a row.
            pub d_model: usize,
            /// The number of hidden units of the feed-forward network.
            pub d_ff: usize,
            /// The number of heads.
            pub n_heads: usize,
            /// The number of layers.
            pub n_layers: usize,
            /// The probability to drop, while training, an attention weight, a hidden unit or an element of a
            /// sublayer's output.
            #[config(default = 0.1)]
            pub dropout: f64,
            /// Whether normalization comes before a sublayer, instead of after the sum.
            #[config(default = false)]
            pub norm_first: bool,
            /// Whether the weights of a query may sum to less than 1: `exp(score) / (1 + sum exp(score))`.
            #[config(default = false)]
            pub quiet_softmax: bool,
            /// The distribution of new parameters.
            #[config(default = "Initializer::KaimingUniform { gain: 1.0 / f64::sqrt(3.0), fan_out_only: false }")]
            pub initializer: Initializer,
            /// The activation of the feed-forward network.
            #[config(default = "burn::nn::activation::ActivationConfig::Gelu")]
            pub activation: burn::nn::activation::ActivationConfig,
            /// The epsilon of the normalizations.
            #[config(default = 1e-5)]
            pub layer_norm_eps: f64,
        }

        impl $config {
            /// The stack, with new random parameters on `device`.
            ///
            /// # Panics
            /// If `n_heads` does not divide `d_model`, a size is 0, or `dropout` is not in `[0, 1]`.
            pub fn init(&self, device: &Device) -> $stack {
                let layers = (0..self.n_layers).map(|_| $layer::new(self, device));
                $stack {
                    layers: layers.collect(),
                    d_model: self.d_model,
                    d_ff: self.d_ff,
                    n_heads: self.n_heads,
                    n_layers: self.n_layers,
                    dropout: self.dropout,
                    norm_first: self.norm_first,
                    quiet_softmax: self.quiet_softmax,
                }
            }

            fn attention(&self, device: &Device) -> MultiHeadAttention {
                attention_core::drop_in::MultiHeadAttentionConfig::new(self.d_model, self.n_heads)
                    .with_initializer(self.initializer.clone())
                    .with_dropout(self.dropout)
                    .with_quiet_softmax(self.quiet_softmax)
                    .init(device)
            }

            fn feed_forward(&self, device: &Device) -> PositionWiseFeedForward {
                burn::nn::transformer::PositionWiseFeedForwardConfig::new(self.d_model, self.d_ff)
                    .with_initializer(self.initializer.clone())
                    .with_dropout(self.dropout)
                    .with_activation(self.activation.clone())
                    .init(device)
            }

            fn norm(&self, device: &Device) -> Norm {
                let norm = crate::norm::NormConfig::Layer {
                    epsilon: self.layer_norm_eps,
                    bias: true,
                };
                norm.init(self.d_model, device)
            }

            fn dropout(&self) -> Dropout {
                burn::nn::DropoutConfig::new(self.dropout).init()
            }
        }

        #[doc = concat!(
            "Burn's `", stringify!($stack), "`, with its results, record and fields; see the ",
            "[differences](attention_core::drop_in).\n\n",
            "Vaswani et al. 2017, \"Attention Is All You Need\", section 3.1. The library's own", $own,
            " is [`attention_transformers::", stringify!($stack), "`](crate::", stringify!($stack), ").",
        )]
        #[derive(Module, Debug)]
        pub struct $stack {
            /// The layers, the first one first.
            pub layers: Vec<$layer>,
            /// The size of a row.
            pub d_model: usize,
            /// The number of hidden units of the feed-forward network.
            pub d_ff: usize,
            /// The number of heads.
            pub n_heads: usize,
            /// The number of layers.
            pub n_layers: usize,
            /// The probability of dropout.
            pub dropout: f64,
            /// Whether normalization comes before a sublayer.
            pub norm_first: bool,
            /// Whether the weights of a query may sum to less than 1.
            pub quiet_softmax: bool,
        }

        impl $stack {
            /// An empty cache.
            pub fn new_autoregressive_cache(&self) -> AutoregressiveCache {
                AutoregressiveCache::new(self.layers.len())
            }
        }
    };
}

pub(super) use stack;

/// Burn's `TransformerEncoderAutoregressiveCache` and `TransformerDecoderAutoregressiveCache`.
#[derive(Clone, Debug)]
pub struct AutoregressiveCache {
    layers: Vec<LayerAutoregressiveCache>,
}

impl AutoregressiveCache {
    pub(super) fn new(layers: usize) -> Self {
        let layers = vec![LayerAutoregressiveCache::empty(); layers];
        Self { layers }
    }

    /// The caches of the layers.
    ///
    /// # Panics
    /// If there is another number of them.
    pub(super) fn layers(&mut self, expected: usize) -> &mut [LayerAutoregressiveCache] {
        let got = self.layers.len();
        assert!(
            got == expected,
            "drop_in: a cache of {expected} layers expected, as many as the stack has, got one of {got}"
        );
        &mut self.layers
    }
}

/// Burn's `TransformerEncoderLayerAutoregressiveCache` and `TransformerDecoderLayerAutoregressiveCache`.
#[derive(Clone, Debug)]
pub struct LayerAutoregressiveCache {
    attention: MhaCache,
    /// The attention to a decoder's memory.
    cross_attention: MhaCache,
    feed_forward: Cached<3>,
    norms: [Cached<3>; 3],
}

impl LayerAutoregressiveCache {
    /// An empty cache.
    pub fn empty() -> Self {
        Self {
            attention: MhaCache::autoregressive(),
            cross_attention: MhaCache::autoregressive_cross_attention(),
            feed_forward: Cached::growing(),
            norms: std::array::from_fn(|_| Cached::growing()),
        }
    }
}

/// The parts of a layer's cache; all `None` without a cache.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) attention: Option<&'a mut MhaCache>,
    pub(super) cross_attention: Option<&'a mut MhaCache>,
    pub(super) feed_forward: Option<&'a mut Cached<3>>,
    pub(super) norms: [Option<&'a mut Cached<3>>; 3],
}

impl<'a> From<Option<&'a mut LayerAutoregressiveCache>> for Parts<'a> {
    fn from(cache: Option<&'a mut LayerAutoregressiveCache>) -> Self {
        cache.map_or_else(Self::default, |cache| Self {
            attention: Some(&mut cache.attention),
            cross_attention: Some(&mut cache.cross_attention),
            feed_forward: Some(&mut cache.feed_forward),
            norms: cache.norms.each_mut().map(Some),
        })
    }
}
