//! Attentions that a text goes through whole or by a cache.

use attention_core::position::{AlibiConfig, RelativePositionBiasConfig, RotaryConfig};
use attention_core::score::{
    AdditiveScoreConfig, Biased, DotProductScoreConfig, GaussianScoreConfig, Kernel,
    KernelScoreConfig,
};
use attention_core::{
    Attention, KeyValueCache, Mask, MultiHeadAttention, MultiHeadAttentionConfig, NewRows,
    Normalizer, ScoringFunction,
};
use attention_tests::Array;
use burn::module::Param;
use burn::tensor::{Device, Tensor};

pub(super) const BATCH: usize = 3;
pub(super) const HEADS: usize = 4;
pub(super) const KEY_HEADS: usize = 2;
pub(super) const HEAD_SIZE: usize = 6;
pub(super) const HIDDENS: usize = HEADS * HEAD_SIZE;

/// Attention of one text to itself, through a cache or whole.
pub(super) trait Model {
    fn whole(&self, rows: Tensor<3>, mask: &Mask) -> Tensor<3>;
    fn cached(&self, rows: Tensor<3>, new: NewRows, cache: &mut KeyValueCache) -> Tensor<3>;
}

impl<S: ScoringFunction> Model for MultiHeadAttention<S> {
    fn whole(&self, rows: Tensor<3>, mask: &Mask) -> Tensor<3> {
        self.forward(rows.clone(), rows.clone(), rows, mask)
    }

    fn cached(&self, rows: Tensor<3>, new: NewRows, cache: &mut KeyValueCache) -> Tensor<3> {
        self.forward_cached(rows.clone(), rows.clone(), rows, new, cache, Mask::none())
    }
}

impl<S: ScoringFunction> Model for Attention<S> {
    fn whole(&self, rows: Tensor<3>, mask: &Mask) -> Tensor<3> {
        self.forward(rows.clone(), rows.clone(), rows, mask)
    }

    fn cached(&self, rows: Tensor<3>, new: NewRows, cache: &mut KeyValueCache) -> Tensor<3> {
        self.forward_cached(rows.clone(), rows.clone(), rows, new, cache, Mask::none())
    }
}

/// Every kind of score: with kernels and without, with positions of each kind, and a term of keys.
#[rustfmt::skip]
pub(super) fn models(device: &Device) -> Vec<(&'static str, Box<dyn Model>)> {
    let dot = || DotProductScoreConfig::new().init();
    let heads = |config: MultiHeadAttentionConfig| config.with_num_key_value_heads(Some(KEY_HEADS));
    let config = || heads(MultiHeadAttentionConfig::new(HIDDENS, HEADS));
    let rotary = RotaryConfig::new(HEAD_SIZE, 64).init_with(dot(), device);
    let alibi = Biased::new(dot(), AlibiConfig::new(HEADS).init());
    let relative = RelativePositionBiasConfig::new(HEADS).with_max_distance(20);
    let relative = Biased::new(dot(), relative.init(device));
    let capped = || config().with_soft_cap(Some(0.5)).with_sinks(true);
    let mut sinks = capped().init(device);
    sinks.attention.sinks = Some(drawn_sinks(device));
    let mut biased_sinks = capped().init_with(alibi.clone(), device);
    biased_sinks.attention.sinks = Some(drawn_sinks(device));
    let mut sigmoid = config().init_with(relative.clone(), device);
    sigmoid.attention.normalizer = Normalizer::Sigmoid;
    let kernel = KernelScoreConfig::new(Kernel::Gaussian).init();
    let composed = Biased::new(kernel, AlibiConfig::new(HEADS).init());
    let additive = AdditiveScoreConfig::new(HIDDENS, HIDDENS, 5).init(device);
    vec![
        ("dot products", Box::new(config().init(device))),
        ("values of 5", Box::new(config().with_value_head_size(Some(5)).init(device))),
        ("rotary", Box::new(config().init_with(rotary, device))),
        ("ALiBi", Box::new(config().init_with(alibi, device))),
        ("relative", Box::new(config().init_with(relative, device))),
        ("soft-cap and sinks", Box::new(sinks)),
        ("soft-cap, sinks and ALiBi", Box::new(biased_sinks)),
        ("relative, sigmoid", Box::new(sigmoid)),
        ("composed, ALiBi", Box::new(config().init_with(composed, device))),
        ("additive", Box::new(Attention::new(additive, 0.0))),
        ("gaussian", Box::new(Attention::new(GaussianScoreConfig::new().init(device), 0.0))),
        ("composed", Box::new(Attention::new(KernelScoreConfig::new(Kernel::Gaussian).init(), 0.0))),
    ]
}

fn drawn_sinks(device: &Device) -> Param<Tensor<1>> {
    Param::from_tensor(Array::draw(17, &[HEADS]).f32(device))
}

pub(super) fn text(seed: u64, tokens: usize, device: &Device) -> Tensor<3> {
    Array::draw(seed, &[BATCH, tokens, HIDDENS]).f32(device)
}

pub(super) fn causal(window: Option<usize>) -> Mask {
    window.map_or_else(Mask::causal, Mask::sliding_window)
}

/// `text` in chunks of these sizes, through a cache.
pub(super) fn in_chunks(
    model: &dyn Model,
    text: &Tensor<3>,
    chunks: &[usize],
    mut cache: KeyValueCache,
) -> Tensor<3> {
    let parts = text.clone().split_with_sizes(chunks.to_vec(), 1);
    let context = |rows| model.cached(rows, NewRows::All, &mut cache);
    let contexts = parts.into_iter().map(context).collect();
    assert_eq!(cache.lengths(), [text.dims()[1]; BATCH]);
    Tensor::cat(contexts, 1)
}
