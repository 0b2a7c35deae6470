//! Encoder-decoder models: what they are made of, padding, caches and generation.

use attention_core::position::RelativePositionBiasConfig;
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, Mask, NewRows};
use attention_tests::{Array, assert_close, assert_zero, device};
use attention_transformers::layer::NormConfig;
use attention_transformers::{
    EncoderDecoder, EncoderDecoderConfig, FeedForwardActivation, GenerateConfig,
    PositionEmbeddingConfig, TokenEmbeddingConfig, TransformerDecoderConfig,
    TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::tensor::{Device, Int, Tensor};

use super::models::{
    HEADS, HIDDENS, VOCAB, drawn, every_parameter_learns, half_is_near, layer, new_rows, padded,
    tensor, text,
};

const SCALE: f64 = 0.75;
const TOLERANCE: f64 = 1e-5;

/// The lengths of the texts that are read, and of those that are made.
const SOURCES: [usize; 3] = [6, 2, 4];
const TARGETS: [usize; 3] = [3, 5, 1];

fn config(layer: TransformerLayerConfig) -> EncoderDecoderConfig {
    let bias = RelativePositionBiasConfig::new(HEADS).with_max_distance(20);
    let of_decoder = bias.clone().with_bidirectional(false);
    EncoderDecoderConfig::new(
        TokenEmbeddingConfig::new(VOCAB, HIDDENS),
        TransformerEncoderConfig::new(layer.clone(), 2).with_position_bias(Some(bias)),
        TransformerDecoderConfig::new(layer, 2).with_position_bias(Some(of_decoder)),
    )
}

/// A small T5, tied.
fn t5(device: &Device) -> EncoderDecoder<DotProductScore> {
    let layer = layer().with_head_size(Some(5)).with_norm(NormConfig::rms());
    let layer = layer.with_activation(FeedForwardActivation::GeGluTanh);
    let layer = layer
        .with_attention_bias(false)
        .with_feed_forward_bias(false);
    let score = |_| DotProductScoreConfig::new().with_scale(Some(1.0)).init();
    let config = config(layer).with_feature_scale(SCALE);
    drawn(config.init_with(score, score, score, device))
}

/// An embedding of its own for what is read, by another number of tokens, with positions, and a head of its own.
fn separate(device: &Device) -> EncoderDecoder<DotProductScore> {
    let source = TokenEmbeddingConfig::new(VOCAB + 2, HIDDENS)
        .with_positions(PositionEmbeddingConfig::Learned { max_positions: 8 });
    let config = config(layer())
        .with_source_embedding(Some(source))
        .with_tied(false)
        .with_head_bias(true);
    drawn(config.init(device))
}

fn models(device: &Device) -> [(&'static str, EncoderDecoder<DotProductScore>); 2] {
    [("T5", t5(device)), ("separate", separate(device))]
}

/// Runs a check on both models, on every device.
fn each(check: impl Fn(&str, EncoderDecoder<DotProductScore>, &Device)) {
    device::each(|device| {
        for (name, model) in models(device) {
            check(name, model, device);
        }
    });
}

fn texts(seed: u64, lens: [usize; 3]) -> [Vec<u32>; 3] {
    std::array::from_fn(|b| text(seed + b as u64, [1, lens[b]]).concat())
}

/// The first rows of example `b`.
fn of_example(array: &Array, b: usize, rows: std::ops::Range<usize>) -> Array {
    let shape = [1, rows.len(), array.shape[2]];
    Array::from_fn(&shape, |at| array.at(&[b, rows.start + at[1], at[2]]))
}

/// The logits of one text alone.
fn alone(model: &EncoderDecoder<DotProductScore>, source: &[u32], target: &[u32]) -> Array {
    let device = &model.embedding.tokens.weight.device();
    let memory = model.encode(tensor(&[source.to_vec()], device), NewRows::All);
    Array::read(model.forward(tensor(&[target.to_vec()], device), NewRows::All, &memory))
}

#[test]
fn each_text_is_as_it_is_alone() {
    each(|name, model, device| {
        let (sources, targets) = (texts(1, SOURCES), texts(5, TARGETS));
        for is_left in [false, true] {
            let source = padded(&sources, 7, is_left, device);
            let memory = model.encode(source, new_rows(&SOURCES, is_left));
            let target = padded(&targets, 6, is_left, device);
            let rows = new_rows(&TARGETS, is_left);
            let logits = Array::read(model.forward(target.clone(), rows, &memory));
            let features = Array::read(model.features(target, rows, &memory));
            for b in 0..3 {
                let len = TARGETS[b];
                let [own, padding] = match is_left {
                    true => [6 - len..6, 0..6 - len],
                    false => [0..len, len..6],
                };
                let expected = alone(&model, &sources[b], &targets[b]);
                let got = of_example(&logits, b, own);
                let what = format!("{name}, text {b}, padding at the left: {is_left}");
                assert_close(&what, &got, &expected, TOLERANCE);
                assert_zero(&what, &of_example(&features, b, padding));
            }
        }
    });
}

#[test]
fn a_cache_gives_what_the_whole_text_gives() {
    each(|name, model, device| {
        let (sources, targets) = (texts(1, SOURCES), texts(5, TARGETS));
        let source = padded(&sources, 6, false, device);
        let mut state = model.state(model.encode(source, NewRows::First(&SOURCES)));
        let mut seen = [0; 3];
        for lens in [[1, 2, 1], [2, 1, 0], [0, 2, 0]] {
            let new: [_; 3] = std::array::from_fn(|b| targets[b][seen[b]..][..lens[b]].to_vec());
            let tokens = padded(&new, 2, false, device);
            let logits = model.forward_cached(tokens, NewRows::First(&lens), &mut state);
            let logits = Array::read(logits);
            for b in 0..3 {
                let expected = alone(&model, &sources[b], &targets[b]);
                let expected = of_example(&expected, 0, seen[b]..seen[b] + lens[b]);
                let got = of_example(&logits, b, 0..lens[b]);
                assert_close(format!("{name}, text {b}"), &got, &expected, TOLERANCE);
                seen[b] += lens[b];
            }
        }
        assert_eq!(state.cache.lengths(), TARGETS);
    });
}

#[test]
fn beams_are_copies_of_their_texts() {
    each(|name, model, device| {
        let (sources, targets) = (texts(1, SOURCES), texts(5, TARGETS));
        let source = padded(&sources, 6, false, device);
        let mut state = model.state(model.encode(source, NewRows::First(&SOURCES)));
        let first = targets.clone().map(|target| vec![target[0]]);
        model.forward_cached(tensor(&first, device), NewRows::All, &mut state);
        state.expand(2);
        state.select(Tensor::<1, Int>::from_ints([5, 2, 0], device));
        let tokens = tensor(&[vec![4], vec![7], vec![1]], device);
        let logits = Array::read(model.forward_cached(tokens, NewRows::All, &mut state));
        for (b, (text, token)) in [(2, 4), (1, 7), (0, 1)].into_iter().enumerate() {
            let target = [first[text][0], token];
            let expected = of_example(&alone(&model, &sources[text], &target), 0, 1..2);
            let got = of_example(&logits, b, 0..1);
            assert_close(format!("{name}, beam {b}"), &got, &expected, TOLERANCE);
        }
    });
}

/// The tokens that are the most likely ones by the whole text so far.
#[test]
fn generation_takes_the_most_likely_tokens() {
    each(|name, model, device| {
        let sources = texts(1, SOURCES);
        let source = padded(&sources, 6, false, device);
        let state = model.state(model.encode(source, NewRows::First(&SOURCES)));
        let prompts = [vec![0], vec![0, 3], vec![0]];
        let generated = GenerateConfig::new(4).generate(&model, state, &prompts);
        let generated = generated.run();
        for (b, prompt) in prompts.into_iter().enumerate() {
            let mut target = prompt.clone();
            for _ in 0..4 {
                let logits = alone(&model, &sources[b], &target);
                let last = logits.data.chunks(VOCAB).next_back().unwrap();
                let likelier = |a: &usize, b: &usize| last[*a].total_cmp(&last[*b]);
                target.push((0..VOCAB).max_by(likelier).unwrap() as u32);
            }
            let expected = &target[prompt.len()..];
            assert_eq!(generated[b].tokens, expected, "{name}, text {b}");
        }
        // The first and the last text begin alike: what was read makes the difference.
        let differ = generated[0].tokens != generated[2].tokens;
        assert!(differ || name == "separate", "{name}");
    });
}

/// There is nothing to attend to, in a text of padding alone as in one without rows.
#[test]
fn a_text_may_be_empty() {
    each(|name, model, device| {
        let targets = texts(5, [3, 3, 3]);
        let source = padded(&[vec![], vec![1, 4]], 3, false, device);
        let memory = model.encode(source, NewRows::First(&[0, 2]));
        let target = tensor(&targets[..2], device);
        let logits = Array::read(model.forward(target, NewRows::All, &memory));
        for (b, source) in [&[][..], &[1, 4]].into_iter().enumerate() {
            let expected = alone(&model, source, &targets[b]);
            let got = of_example(&logits, b, 0..3);
            assert_close(format!("{name}, text {b}"), &got, &expected, TOLERANCE);
        }
    });
}

#[test]
fn half_precision_is_near() {
    device::each(|device| {
        for model in models(device) {
            half_is_near(model, device, 16.0, |model, _| {
                let source = padded(&texts(1, SOURCES), 6, false, device);
                let memory = model.encode(source, NewRows::First(&SOURCES));
                let target = tensor(&text(5, [3, 5]), device);
                model.forward(target, NewRows::All, &memory)
            });
        }
    });
}

#[test]
fn a_head_is_the_embedding_or_its_own() {
    each(|name, model, device| {
        let source = || tensor(&text(1, [2, 5]), device);
        let target = || tensor(&text(2, [2, 3]), device);
        let memory = model.encode(source(), NewRows::All);
        let features = model.features(target(), NewRows::All, &memory);
        let scale = if name == "T5" { SCALE } else { 1.0 };
        // The output of the stack, which ends with a normalization of gains near 1.
        let embedded = model.embedding.tokens.forward(target());
        let rows = model.decoder.forward(embedded, Mask::none(), &memory);
        assert_close(name, features.clone(), rows * scale, TOLERANCE);
        let (weight, bias) = match &model.head {
            Some(head) => (head.weight.val(), head.bias.as_ref().unwrap().val()),
            None => {
                let embedding = model.embedding.tokens.weight.val();
                (embedding.transpose(), Tensor::zeros([VOCAB], device))
            }
        };
        let expected = features.matmul(weight.unsqueeze()) + bias.unsqueeze();
        let logits = model.forward(target(), NewRows::All, &memory);
        assert_close(name, logits, expected, TOLERANCE);
    });
}

#[test]
fn all_parameters_learn() {
    device::each_training(|device| {
        for (name, model) in models(device) {
            let source = padded(&texts(1, SOURCES), 6, false, device);
            let memory = model.encode(source, NewRows::First(&SOURCES));
            let target = padded(&texts(5, TARGETS), 5, false, device);
            let features = model.features(target, NewRows::First(&TARGETS), &memory);
            every_parameter_learns(name, &model, model.logits(features));
        }
    });
}
