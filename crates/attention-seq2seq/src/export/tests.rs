use attention_import::packages::d2l;
use attention_import::{load_multi_head_attention, load_recurrent};
use attention_tests::parameters;
use attention_transformers::torch::{load_transformer_decoder, load_transformer_encoder};
use burn_fused_layers::recurrent::CellKind;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use safetensors::SafeTensors;
use tempfile::NamedTempFile;

use super::*;
use crate::attention::{AnyAttention, AnyScore, AttentionKind};
use crate::device::test_device;
use crate::model::{Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig};

/// The model with parameters that all differ: a gain of 1 would be any gain.
fn drawn<M: Module>(model: M) -> M {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    parameters::changed(model, |_, mut value| {
        value.data.fill_with(|| random.random_range(-0.7..0.7));
        value
    })
}

fn config() -> Seq2SeqConfig {
    Seq2SeqConfig::new(13, 11)
        .with_embedding_size(5)
        .with_hidden_size(6)
}

fn recurrent(kind: AttentionKind, config: &Seq2SeqConfig) -> Seq2Seq<AnyAttention> {
    let device = test_device();
    drawn(config.init(kind.init(config, &device), &device))
}

fn transformer_config() -> TransformerConfig {
    TransformerConfig::new(13, 11)
        .with_hidden_size(6)
        .with_heads(3)
        .with_feed_forward_size(7)
}

fn transformer(kind: AttentionKind) -> Transformer<AnyScore> {
    let device = test_device();
    let score = |_| kind.score(2, &device).unwrap();
    drawn(transformer_config().init_with(score, &device))
}

fn bytes_of(module: &impl Module) -> Vec<u8> {
    to_safetensors(module, "{}".to_string()).unwrap()
}

/// A file that an importer reads.
fn file_of(module: &impl Module) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes_of(module)).unwrap();
    file
}

/// The importer has brought back every parameter, to the last bit.
#[track_caller]
fn assert_same(loaded: &impl Module, exported: &impl Module) {
    let [loaded, exported] = [parameters::values(loaded), parameters::values(exported)];
    assert!(!exported.is_empty());
    assert!(loaded.keys().eq(exported.keys()), "{loaded:?}");
    for (name, expected) in &exported {
        assert_eq!(loaded[name].data, expected.data, "{name}");
    }
}

/// Every parameter is in the file, once.
#[track_caller]
fn assert_whole(what: &str, model: &impl Module) {
    let bytes = bytes_of(model);
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let elements: usize = file.iter().map(|(_, view)| view.data().len() / 4).sum();
    assert_eq!(elements, model.num_params(), "{what}");
}

#[test]
fn every_parameter_is_exported() {
    for &kind in AttentionKind::ALL {
        assert_whole(&format!("rnn, {kind}"), &recurrent(kind, &config()));
    }
    for &kind in AttentionKind::SCORES {
        assert_whole(&format!("transformer, {kind}"), &transformer(kind));
    }
}

#[test]
fn recurrent_layers_are_those_that_are_imported() {
    for cell in [CellKind::Gru, CellKind::Lstm] {
        for (layers, bidirectional) in [(1, true), (2, true), (3, false)] {
            let config = config()
                .with_cell(cell)
                .with_layers(layers)
                .with_bidirectional(bidirectional);
            let model = recurrent(AttentionKind::Dot, &config);
            let file = file_of(&model);
            let device = test_device();
            let new = config.init(AttentionKind::Dot.init(&config, &device), &device);
            let load = |layers, prefix| load_recurrent(layers, file.path(), prefix).unwrap();
            let loaded = load(new.encoder.recurrent, "encoder.rnn.");
            assert_same(&loaded, &model.encoder.recurrent);
            let loaded = load(new.decoder.recurrent, "decoder.rnn.");
            assert_same(&loaded, &model.decoder.recurrent);
        }
    }
}

#[test]
fn attentions_of_d2l_and_pytorch_are_those_that_are_imported() {
    let (config, device, prefix) = (config(), test_device(), "decoder.attention.score.");
    let new = |kind: AttentionKind| kind.init(&config, &device);
    for kind in [AttentionKind::Additive, AttentionKind::Sparse] {
        let model = recurrent(kind, &config);
        let file = file_of(&model);
        let loaded = d2l::pytorch::ADDITIVE.load(file.path(), prefix, &device);
        assert_same(&loaded.unwrap(), &model.decoder.attention);
    }
    let model = recurrent(AttentionKind::Heads, &config);
    let AnyAttention::Heads(new) = new(AttentionKind::Heads) else {
        panic!("it has heads");
    };
    let file = file_of(&model);
    let loaded = load_multi_head_attention(new, file.path(), "decoder.attention.").unwrap();
    assert_same(&loaded, &model.decoder.attention);
}

/// D2L's attention knows no length of w_v: its importer refuses the file.
#[test]
fn a_normalized_attention_is_not_taken_for_an_additive_one() {
    let file = file_of(&recurrent(AttentionKind::Normalized, &config()));
    let prefix = "decoder.attention.score.";
    let error = d2l::pytorch::ADDITIVE.load(file.path(), prefix, &test_device());
    let error = error.map(drop).unwrap_err().to_string();
    let expected = "D2L's AdditiveAttention has none of this name";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn layers_of_transformers_are_those_that_are_imported() {
    let model = transformer(AttentionKind::Dot);
    let file = file_of(&model);
    let device = test_device();
    let score = |_| AttentionKind::Dot.score(2, &device).unwrap();
    let new = transformer_config().init_with(score, &device);
    // The importers refuse tensors that they have no place for.
    let loaded = load_transformer_encoder(new.encoder, file.path(), "encoder.").unwrap();
    assert_same(&loaded, &model.encoder);
    let loaded = load_transformer_decoder(new.decoder, file.path(), "decoder.").unwrap();
    assert_same(&loaded, &model.decoder);
}

/// The names of a module's parameters in `docs/export.md`, with their shapes.
fn shapes(module: &impl Module) -> Vec<String> {
    let bytes = bytes_of(module);
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut shapes: Vec<_> = file.iter().collect();
    shapes.sort_by_key(|(name, _)| name.to_string());
    let shapes = shapes.into_iter();
    let shapes = shapes.map(|(name, view)| format!("{name} {:?}", view.shape()));
    shapes.collect()
}

#[track_caller]
fn assert_has(module: &impl Module, expected: &[&str]) {
    let found = shapes(module);
    for expected in expected {
        let is_there = found.iter().any(|it| it == expected);
        assert!(is_there, "{expected} expected, got {found:#?}");
    }
}

#[test]
fn models_have_these_names_and_shapes() {
    let config = config().with_layers(2).with_cell(CellKind::Lstm);
    let expected = [
        "encoder.embedding.weight [13, 5]",
        "encoder.rnn.weight_ih_l0 [12, 5]",
        "encoder.rnn.weight_hh_l1_reverse [12, 3]",
        "encoder.rnn.bias_ih_l1_reverse [12]",
        "decoder.embedding.weight [11, 5]",
        "decoder.start.1.weight [6, 6]",
        "decoder.start.1.bias [6]",
        "decoder.rnn.weight_ih_l0 [24, 11]",
        "decoder.rnn.bias_hh_l1 [24]",
        "decoder.output.weight [11, 12]",
        "decoder.output.bias [11]",
    ];
    assert_has(&recurrent(AttentionKind::Dot, &config), &expected);
    let expected = [
        "source_embedding.weight [13, 6]",
        "target_embedding.weight [11, 6]",
        "encoder.layers.1.self_attn.in_proj_weight [18, 6]",
        "encoder.layers.1.self_attn.in_proj_bias [18]",
        "encoder.layers.1.self_attn.out_proj.weight [6, 6]",
        "encoder.layers.1.linear1.weight [7, 6]",
        "encoder.layers.1.linear2.bias [6]",
        "encoder.layers.1.norm2.weight [6]",
        "encoder.norm.bias [6]",
        "decoder.layers.1.multihead_attn.in_proj_weight [18, 6]",
        "decoder.layers.1.multihead_attn.score.temperature [1]",
        "decoder.layers.1.norm3.bias [6]",
        "decoder.norm.weight [6]",
        "output.weight [11, 6]",
        "output.bias [11]",
    ];
    assert_has(&transformer(AttentionKind::Cosine), &expected);
}

#[test]
fn attentions_have_these_names_and_shapes() {
    use AttentionKind::*;
    #[rustfmt::skip]
    let cases = [
        (Additive, "score.W_k.weight [6, 6], score.W_q.weight [6, 6], score.w_v.weight [1, 6]"),
        (Dot, ""),
        (Normalized, "score.W_k.weight [6, 6], score.W_q.bias [6], score.W_q.weight [6, 6], score.gain [1], \
                      score.w_v.weight [1, 6]"),
        (Concat, "score.hidden.weight [6, 12], score.value.weight [1, 6]"),
        (Bilinear, "score.query.weight [6, 6]"),
        (Biaffine, "score.offset.bias [1], score.offset.weight [1, 6], score.query.bias [6], \
                    score.query.weight [6, 6]"),
        (Projected, "score.key.weight [6, 6], score.query.weight [6, 6]"),
        (Cosine, "score.temperature [1]"),
        (QkNorm, "score.key [6], score.query [6]"),
        (Gaussian, "score.inverse_width [1]"),
        (Kernel, ""),
        (Heads, "in_proj_weight [18, 6], out_proj.weight [6, 6]"),
        (Location, "filters.weight [10, 1, 31], key.bias [6], key.weight [6, 6], location.weight [6, 10], \
                    query.weight [6, 6], value.weight [1, 6]"),
        (Coverage, "coverage.weight [6, 1], key.bias [6], key.weight [6, 6], query.weight [6, 6], \
                    value.weight [1, 6]"),
        (Monotonic, "offset [1], score.W_k.weight [6, 6], score.W_q.bias [6], score.W_q.weight [6, 6], \
                     score.gain [1], score.w_v.weight [1, 6]"),
    ];
    for (kind, expected) in cases {
        let found = shapes(&recurrent(kind, &config()).decoder.attention);
        assert_eq!(found.join(", "), expected, "{kind}");
    }
}

#[test]
fn linear_layers_are_transposed() {
    let model = recurrent(AttentionKind::Dot, &config());
    let bytes = bytes_of(&model);
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor("decoder.output.weight").unwrap();
    let (elements, _) = view.data().as_chunks::<4>();
    let expected: Vec<f32> = {
        let weight = model.decoder.output.weight.val();
        weight.into_data().iter::<f32>().collect()
    };
    assert_eq!(elements.len(), 12 * 11);
    for (at, element) in elements.iter().enumerate() {
        let element = f32::from_le_bytes(*element);
        assert_eq!(element, expected[at % 12 * 11 + at / 12]);
    }
}

#[test]
fn the_same_model_makes_the_same_bytes() {
    let model = recurrent(AttentionKind::Location, &config());
    assert!(bytes_of(&model) == bytes_of(&model));
}
