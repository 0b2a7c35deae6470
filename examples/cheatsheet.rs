//! The lines of the book's cheatsheet: what Burn has, and what is here, side by side, with the same results.
//!
//! Each cell of the cheatsheet (`docs/book/src/cheatsheet.md`) that is Rust stands in this file, word for word; a test
//! compares them. *Dive into Deep Learning* (D2L), "Attention Scoring Functions", and PyTorch's names for the rest.
//!
//! ```text
//! cargo run -p attention-examples --example cheatsheet
//! ```

use std::error::Error;
use std::path::Path;

use attention_core::functional::{AttentionOptions, dot_product_attention};
use attention_core::{
    AdditiveAttentionConfig, AttentionOutput, DotProductAttentionConfig, KeyValueCache, Mask,
    MultiHeadAttentionConfig, NewRows, drop_in, masked_softmax,
};
use attention_import::packages::d2l;
use attention_plot::HeatmapGrid;
use attention_transformers::{
    GenerateConfig, LanguageModelConfig, TokenEmbeddingConfig, TransformerEncoderConfig,
    TransformerLayerConfig, burn_nn,
};
use burn::module::Module;
use burn::nn::attention::MhaInput;
use burn::nn::gru::BiGruConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::softmax;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, Steps};

mod common;
use common::{println, scalar};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(13);
    softmax_and_masks(&device)?;
    modules(&device)?;
    tensors(&device)?;
    heads(&device)?;
    layers(&device)?;
    decoding(&device)?;
    training(&device)?;
    println!("each line of the cheatsheet has run");
    Ok(())
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Default, device)
}

#[track_caller]
fn assert_same<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Result<(), Box<dyn Error>> {
    let difference = scalar((a - b).abs().max())?;
    assert!(difference < 1e-5, "the columns differ by {difference:e}");
    Ok(())
}

fn softmax_and_masks(device: &Device) -> Result<(), Box<dyn Error>> {
    let scores = random([2, 2, 4], device);
    let lens = Tensor::<1, Int>::from_ints([2, 3], device);
    let keys = Tensor::<1, Int>::arange(0..4, device).reshape([1, 1, 4]);
    let padding = keys
        .expand([2, 2, 4])
        .greater_equal(lens.clone().reshape([2, 1, 1]).expand([2, 2, 4]));
    let again = scores.clone();
    let burns = softmax(scores.mask_fill(padding, -1e6), 2);
    let scores = again.clone();
    let ours = masked_softmax(scores, &Mask::valid_lens(lens));
    assert_same(burns, ours)?;

    let (scores, lens) = (again, Tensor::<2, Int>::from_ints([[1, 3], [2, 4]], device));
    let ours = masked_softmax(scores, &Mask::valid_lens_per_query(lens));
    assert_eq!(ours.dims(), [2, 2, 4]);
    Ok(())
}

fn modules(device: &Device) -> Result<(), Box<dyn Error>> {
    let [query_size, key_size, num_hiddens] = [20, 2, 8];
    let lens = Tensor::<1, Int>::from_ints([2, 6], device);
    let mask = Mask::valid_lens(lens);
    let keys_and_values = (random([2, 10, 2], device), random([2, 10, 4], device));
    let attention = AdditiveAttentionConfig::new(query_size, key_size, num_hiddens)
        .with_dropout(0.1)
        .init(device);
    let (queries, (keys, values)) = (random([2, 1, 20], device), keys_and_values.clone());
    let AttentionOutput { context, weights } =
        attention.forward_with_weights(queries, keys, values, &mask);
    assert_eq!((context.dims(), weights.dims()), ([2, 1, 4], [2, 1, 10]));

    let attention = DotProductAttentionConfig::new().with_dropout(0.5).init();
    let (queries, (keys, values)) = (random([2, 1, 2], device), keys_and_values);
    let context = attention.forward(queries, keys, values, &mask);
    assert_eq!(context.dims(), [2, 1, 4]);

    let shape = [1, 1, 2, 10];
    let weights = weights.try_into_vec_as::<f32>()?;
    let heatmaps = HeatmapGrid::new(weights, shape)?.with_axis_titles("keys", "queries");
    assert_eq!(heatmaps.shape(), shape);

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/reference");
    let path = folder.join("additive_state_dict.pt");
    let attention = d2l::pytorch::ADDITIVE.load(path, "", device)?;
    assert_eq!(attention.score.value.weight.dims(), [17, 1]);
    Ok(())
}

fn tensors(device: &Device) -> Result<(), Box<dyn Error>> {
    let inputs = [8, 8, 4].map(|size| random([2, 3, 5, size], device));
    let [q, k, _] = inputs.clone();
    let product = q.matmul(k.transpose());
    assert_eq!(product.dims(), [2, 3, 5, 5]);

    let [q, k, v] = inputs.clone();
    let options = AttentionModuleOptions {
        is_causal: true,
        ..Default::default()
    };
    let burns = attention(q, k, v, None, None, options);
    let [q, k, v] = inputs.clone();
    let options = AttentionOptions::from(&Mask::causal());
    let ours = dot_product_attention(q, k, v, &options);
    assert_same(burns, ours)?;

    let ([q, k, v], float_mask) = (inputs.clone(), random([2, 3, 5, 5], device));
    let bias = float_mask.clone();
    let options = AttentionModuleOptions {
        softcap: Some(30.0),
        ..Default::default()
    };
    let burns = attention(q, k, v, None, Some(bias), options);
    let ([q, k, v], bias) = (inputs, float_mask);
    let options = AttentionOptions {
        soft_cap: Some(30.0),
        bias: Some(bias),
        ..Default::default()
    };
    let ours = dot_product_attention(q, k, v, &options);
    assert_same(burns, ours)
}

fn heads(device: &Device) -> Result<(), Box<dyn Error>> {
    let (size, heads) = (16, 4);
    let flags = [[false; 5], [false, false, false, true, true]];
    let inputs = (
        random([2, 5, 16], device),
        Tensor::<2, Bool>::from_data(flags, device),
    );
    let theirs = burn::nn::attention::MultiHeadAttentionConfig::new(size, heads).init(device);
    let dropped_in = drop_in::MultiHeadAttention::from(theirs.clone());
    let (x, padding) = inputs.clone();
    let burns = theirs.forward(MhaInput::self_attn(x).mask_pad(padding));
    let (x, padding) = inputs.clone();
    let ours = dropped_in.forward(drop_in::MhaInput::self_attn(x).mask_pad(padding));
    assert_same(burns.context.clone(), ours.context)?;

    // The library's own: any score, any mask, no weights unless they are asked for.
    let ours = MultiHeadAttentionConfig::new(size, heads)
        .with_bias(true)
        .init(device);
    let ours = ours.load_record(theirs.into_record());
    let (x, padding) = inputs;
    let mask = Mask::padding(padding);
    let context = ours.forward(x.clone(), x.clone(), x, &mask);
    assert_same(burns.context, context)
}

fn layers(device: &Device) -> Result<(), Box<dyn Error>> {
    use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};

    let (input_size, hidden_size) = (5, 7);
    let x = random([2, 4, 5], device);
    let burns = BiGruConfig::new(input_size, hidden_size, true).init(device);
    let (states, _) = burns.forward(x.clone(), None);
    let gru = RecurrentConfig::new(CellKind::Gru, input_size, hidden_size)
        .with_bidirectional(true)
        .init(device);
    let (outputs, last) = gru.forward(x, None, &Steps::of_lens([4, 3]));
    assert_eq!((states.dims(), outputs.dims()), ([2, 4, 14], [2, 4, 14]));
    assert_eq!(last.len(), 2);

    let x = random([2, 5, 16], device);
    let encoder = TransformerEncoderConfig::new(16, 32, 4, 2).init(device);
    let burns = encoder.forward(TransformerEncoderInput::new(x.clone()));
    let config = burn_nn::TransformerEncoderConfig::new(16, 32, 4, 2);
    let ours = config.init(device).load_record(encoder.into_record());
    let ours = ours.forward(burn_nn::TransformerEncoderInput::new(x));
    assert_same(burns, ours)
}

fn decoding(device: &Device) -> Result<(), Box<dyn Error>> {
    let attention = AdditiveAttentionConfig::new(6, 3, 8).init(device);
    let (keys, values, query) = (
        random([2, 7, 3], device),
        random([2, 7, 5], device),
        random([2, 1, 6], device),
    );
    let mask = Mask::valid_lens(Tensor::from_ints([7, 4], device));
    let expected = attention.forward(query.clone(), keys.clone(), values.clone(), &mask);
    let memory = attention.prepare(keys, values, mask);
    let context = attention.attend(query, &memory, Mask::none());
    assert_same(expected, context)?;

    let attention = MultiHeadAttentionConfig::new(16, 4).init(device);
    let mut cache = KeyValueCache::new();
    let [q, k, v] = [1, 2, 3].map(|_| random([2, 1, 16], device));
    let context = attention.forward_cached(q, k, v, NewRows::All, &mut cache, Mask::none());
    assert_eq!(context.dims(), [2, 1, 16]);

    let stack = TransformerEncoderConfig::new(TransformerLayerConfig::new(16, 4, 32), 2);
    let model = LanguageModelConfig::new(TokenEmbeddingConfig::new(31, 16), stack).init(device);
    let prompts = [vec![3, 1, 4], vec![1, 5]];
    let texts = GenerateConfig::new(20)
        .generate(&model, model.cache(), &prompts)
        .run();
    assert_eq!(texts[1].tokens.len(), 20);
    Ok(())
}

fn training(device: &Device) -> Result<(), Box<dyn Error>> {
    let device = device.clone().autodiff();
    let mut model = AdditiveAttentionConfig::new(6, 3, 8)
        .with_dropout(0.1)
        .init(&device);
    let mut adam = AdamConfig::new().init();
    let (queries, keys) = (random([2, 4, 6], &device), random([2, 7, 3], &device));
    let context = model.forward(queries, keys.clone(), keys, Mask::none());
    let loss = context.powf_scalar(2.0).mean();
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    model = adam.step(1e-3, model, gradients);
    let model = model.valid();
    assert_eq!(model.score.value.weight.dims(), [8, 1]);
    Ok(())
}
