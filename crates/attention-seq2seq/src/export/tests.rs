use std::collections::BTreeSet;

use attention_core::import::{
    load_additive_attention, load_multi_head_attention, load_recurrent, load_transformer_decoder,
    load_transformer_encoder,
};
use attention_core::{Mask, StatefulAttention};
use attention_tests::parameters;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_fused_layers::recurrent::CellKind;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use safetensors::SafeTensors;
use tempfile::NamedTempFile;

use super::*;
use crate::attention::{AnyAttention, AnyScore, AttentionKind};
use crate::device::test_device;
use crate::model::{Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig};

/// The model with parameters of which none is another's neighbour: a gain of 1 would be any gain.
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

fn bytes_of(module: &impl Parameters) -> Vec<u8> {
    let metadata = "{}".to_string();
    StateDict::of(module)
        .into_safetensors("key", metadata)
        .unwrap()
}

/// A file that an importer reads.
fn file_of(module: &impl Parameters) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes_of(module)).unwrap();
    file
}

/// The importer has brought back every parameter, to the last bit.
#[track_caller]
fn assert_same(loaded: &impl Module, exported: &impl Module) {
    let [loaded, exported] = [parameters::values(loaded), parameters::values(exported)];
    assert!(!exported.is_empty());
    assert_eq!(
        loaded.keys().collect::<Vec<_>>(),
        exported.keys().collect::<Vec<_>>()
    );
    for (name, expected) in &exported {
        assert_eq!(loaded[name].data, expected.data, "{name}");
    }
}

/// Every parameter is in the file, once.
#[track_caller]
fn assert_whole<M: Module + Parameters>(what: &str, model: &M) {
    assert_eq!(
        StateDict::of(model).num_elements(),
        model.num_params(),
        "{what}"
    );
    let bytes = bytes_of(model);
    let names = SafeTensors::deserialize(&bytes).unwrap().names().len();
    let state_dict = StateDict::of(model);
    let unique: BTreeSet<&str> = state_dict.names().collect();
    assert_eq!(unique.len(), names, "{what}");
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
    let (config, device, prefix) = (config(), test_device(), "decoder.attention.");
    let new = |kind: AttentionKind| kind.init(&config, &device);
    for kind in [AttentionKind::Additive, AttentionKind::Sparse] {
        let model = recurrent(kind, &config);
        let file = file_of(&model);
        let (AnyAttention::Additive(new) | AnyAttention::Sparse(new)) = new(kind) else {
            panic!("{kind} is additive");
        };
        let loaded = load_additive_attention(new, file.path(), prefix).unwrap();
        assert_same(&loaded, &model.decoder.attention);
    }
    let model = recurrent(AttentionKind::Heads, &config);
    let AnyAttention::Heads(new) = new(AttentionKind::Heads) else {
        panic!("it has heads");
    };
    let file = file_of(&model);
    let loaded = load_multi_head_attention(new, file.path(), prefix).unwrap();
    assert_same(&loaded, &model.decoder.attention);
}

/// D2L's attention knows no length of w_v: its importer refuses the file.
#[test]
fn a_normalized_attention_is_not_taken_for_an_additive_one() {
    let file = file_of(&recurrent(AttentionKind::Normalized, &config()));
    let AnyAttention::Additive(new) = AttentionKind::Additive.init(&config(), &test_device())
    else {
        panic!("it is additive");
    };
    let error = load_additive_attention(new, file.path(), "decoder.attention.").unwrap_err();
    assert!(error.to_string().contains("W_q.bias"), "{error}");
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

/// A tensor of the file, row by row.
fn tensor(bytes: &[u8], name: &str) -> (Vec<usize>, Vec<f32>) {
    let file = SafeTensors::deserialize(bytes).unwrap();
    let view = file.tensor(name).unwrap();
    let (elements, _) = view.data().as_chunks::<4>();
    let elements = elements.iter().map(|it| f32::from_le_bytes(*it)).collect();
    (view.shape().to_vec(), elements)
}

fn elements<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

#[test]
fn embeddings_are_as_they_are_and_linear_layers_transposed() {
    let model = recurrent(AttentionKind::Dot, &config());
    let bytes = bytes_of(&model);
    let (shape, table) = tensor(&bytes, "decoder.embedding.weight");
    assert_eq!(shape, [11, 5]);
    assert_eq!(table, elements(model.decoder.embedding.weight.val()));
    let (shape, weight) = tensor(&bytes, "decoder.output.weight");
    assert_eq!(shape, [11, 12]);
    let expected = elements(model.decoder.output.weight.val());
    for (at, element) in weight.into_iter().enumerate() {
        assert_eq!(element, expected[at % 12 * 11 + at / 12]);
    }
    let (shape, _) = tensor(&bytes, "decoder.start.0.bias");
    assert_eq!(shape, [6]);
}

/// `weight[0]` of the bilinear layer between vectors, which have a 1 after their features where there are biases: the
/// scores up to what is the same for all keys, and with it the weights.
#[test]
fn a_bilinear_matrix_makes_the_scores() {
    for (kind, ones) in [(AttentionKind::Bilinear, 0), (AttentionKind::Biaffine, 1)] {
        let model = recurrent(kind, &config());
        let (shape, matrix) = tensor(&bytes_of(&model), "decoder.attention.bilinear.weight");
        let size = 6 + ones;
        assert_eq!(shape, [1, size, size]);
        let vector = |seed: usize| -> Vec<f32> {
            let features = (0..6).map(|at| ((seed * 7 + at * 3) % 5) as f32 / 4.0 - 0.4);
            features.collect()
        };
        let with_ones = |vector: &[f32]| [vector, &vec![1.0; ones]].concat();
        let (query, keys) = (vector(1), [vector(2), vector(3), vector(4)]);
        let score = |key: &Vec<f32>| -> f32 {
            let (query, key) = (with_ones(&query), with_ones(key));
            let pairs = (0..size).flat_map(|row| (0..size).map(move |column| (row, column)));
            pairs
                .map(|(row, column)| query[row] * matrix[row * size + column] * key[column])
                .sum()
        };
        let powers = keys.each_ref().map(|key| score(key).exp());
        let sum: f32 = powers.iter().sum();

        let device = test_device();
        let rows = |rows: &[Vec<f32>], device: &Device| {
            Tensor::<1>::from_floats(rows.concat().as_slice(), device).reshape([1, rows.len(), 6])
        };
        let attention = &model.decoder.attention;
        let keys = rows(&keys, &device);
        let memory = attention.setup(keys.clone(), keys, Mask::none());
        let (output, _) = attention.step_with_weights(
            rows(&[query], &device),
            &memory,
            attention.initial_state(&memory),
        );
        for (weight, power) in elements(output.weights).into_iter().zip(powers) {
            assert!(
                (weight - power / sum).abs() < 1e-6,
                "{kind}: {weight}, {power}"
            );
        }
    }
}

#[test]
fn the_same_model_makes_the_same_bytes() {
    let model = recurrent(AttentionKind::Location, &config());
    assert!(bytes_of(&model) == bytes_of(&model));
}
