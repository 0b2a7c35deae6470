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
use attention_core::import::load_additive_attention;
use attention_core::transformer::{
    GenerateConfig, LanguageModelConfig, TokenEmbeddingConfig, TransformerEncoderConfig,
    TransformerLayerConfig,
};
use attention_core::{
    AdditiveAttentionConfig, DotProductAttentionConfig, KeyValueCache, Mask,
    MultiHeadAttentionConfig, NewRows, drop_in, masked_softmax,
};
use attention_plot::HeatmapGrid;
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
    let burns = softmax(scores.clone().mask_fill(padding, -1e6), 2);
    let ours = masked_softmax(scores.clone(), &Mask::valid_lens(lens));
    assert_same(burns, ours)?;

    let lens = Tensor::<2, Int>::from_ints([[1, 3], [2, 4]], device);
    let ours = masked_softmax(scores, &Mask::valid_lens_per_query(lens));
    assert_eq!(ours.dims(), [2, 2, 4]);
    Ok(())
}

fn modules(device: &Device) -> Result<(), Box<dyn Error>> {
    let [query_size, key_size, num_hiddens] = [20, 2, 8];
    let lens = || Tensor::<1, Int>::from_ints([2, 6], device);
    let (queries, keys, values) = (
        random([2, 1, 20], device),
        random([2, 10, 2], device),
        random([2, 10, 4], device),
    );
    let attention = AdditiveAttentionConfig::new(query_size, key_size, num_hiddens)
        .with_dropout(0.1)
        .init(device);
    let mask = Mask::valid_lens(lens());
    let context = attention.forward(queries.clone(), keys.clone(), values.clone(), &mask);
    let weights = attention
        .forward_with_weights(queries, keys.clone(), values.clone(), &mask)
        .weights;
    assert_eq!((context.dims(), weights.dims()), ([2, 1, 4], [2, 1, 10]));

    let attention = DotProductAttentionConfig::new().with_dropout(0.5).init();
    let queries = random([2, 1, 2], device);
    let context = attention.forward(queries, keys, values, &Mask::valid_lens(lens()));
    assert_eq!(context.dims(), [2, 1, 4]);

    let shape = [1, 1, 2, 10];
    let weights = weights.try_into_vec_as::<f32>()?;
    let heatmaps = HeatmapGrid::new(weights, shape)?.with_axis_titles("keys", "queries");
    assert_eq!(heatmaps.shape(), shape);

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/reference");
    let path = folder.join("additive_state_dict.pt");
    let json = std::fs::read_to_string(folder.join("additive_state_dict.json"))?;
    let json: serde_json::Value = serde_json::from_str(&json)?;
    let size = |name: &str, axis: usize| {
        json["cases"][0]["inputs"][name]["shape"][axis]
            .as_u64()
            .map(|size| size as usize)
    };
    let sizes = size("W_q.weight", 1)
        .zip(size("W_k.weight", 1))
        .zip(size("W_q.weight", 0));
    let ((query_size, key_size), num_hiddens) = sizes.ok_or("a shape is missing")?;
    let attention = AdditiveAttentionConfig::new(query_size, key_size, num_hiddens).init(device);
    let attention = load_additive_attention(attention, path, "")?;
    assert_eq!(attention.score.value.weight.dims(), [num_hiddens, 1]);
    Ok(())
}

fn tensors(device: &Device) -> Result<(), Box<dyn Error>> {
    let (q, k, v) = (
        random([2, 3, 5, 8], device),
        random([2, 3, 5, 8], device),
        random([2, 3, 5, 4], device),
    );
    let product = q.clone().matmul(k.clone().transpose());
    assert_eq!(product.dims(), [2, 3, 5, 5]);

    let (query, key, value) = (q.clone(), k.clone(), v.clone());
    let options = AttentionModuleOptions {
        is_causal: true,
        ..Default::default()
    };
    let burns = attention(query, key, value, None, None, options);
    let ours = dot_product_attention(
        q.clone(),
        k.clone(),
        v.clone(),
        &AttentionOptions::from(&Mask::causal()),
    );
    assert_same(burns, ours)?;

    let bias = random([2, 3, 5, 5], device);
    let (query, key, value) = (q.clone(), k.clone(), v.clone());
    let options = AttentionModuleOptions {
        softcap: Some(30.0),
        ..Default::default()
    };
    let burns = attention(query, key, value, None, Some(bias.clone()), options);
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
    let x = random([2, 5, 16], device);
    let padding =
        Tensor::<2, Bool>::from_data([[false; 5], [false, false, false, true, true]], device);
    let burns = burn::nn::attention::MultiHeadAttentionConfig::new(size, heads).init(device);
    let ours = drop_in::MultiHeadAttention::from(burns.clone());
    let of_burn = burns
        .forward(MhaInput::self_attn(x.clone()).mask_pad(padding.clone()))
        .context;
    let mha = ours
        .forward(drop_in::MhaInput::self_attn(x.clone()).mask_pad(padding.clone()))
        .context;
    assert_same(of_burn.clone(), mha)?;

    // The library's own: any score, any mask, no weights unless they are asked for.
    let own = MultiHeadAttentionConfig::new(size, heads)
        .with_bias(true)
        .init(device);
    let own = own.load_record(burns.into_record());
    let mask = Mask::padding(padding);
    let context = own.forward(x.clone(), x.clone(), x, &mask);
    assert_same(of_burn, context)
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
    let config = drop_in::transformer::TransformerEncoderConfig::new(16, 32, 4, 2);
    let ours = config.init(device).load_record(encoder.into_record());
    let ours = ours.forward(drop_in::transformer::TransformerEncoderInput::new(x));
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
    let memory = attention.prepare(keys.clone(), values.clone(), mask.clone());
    let context = attention.attend(query.clone(), &memory);
    assert_same(attention.forward(query, keys, values, &mask), context)?;

    let attention = MultiHeadAttentionConfig::new(16, 4).init(device);
    let mut cache = KeyValueCache::new();
    let token = random([2, 1, 16], device);
    let context = attention.forward_cached(
        token.clone(),
        token.clone(),
        token,
        NewRows::All,
        &mut cache,
    );
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
    let context = model.forward(queries, keys.clone(), keys, &Mask::none());
    let loss = context.powf_scalar(2.0).mean();
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    model = adam.step(1e-3, model, gradients);
    let model = model.valid();
    assert_eq!(model.score.value.weight.dims(), [8, 1]);
    Ok(())
}
