//! T5, Marian and BART: logits of `transformers`, all at once and by a cache, and the tokens that it generates.

use std::path::{Path, PathBuf};

use attention_core::{DotProductScore, NewRows};
use attention_import::ImportError;
use attention_tests::{Array, assert_close, device, hugging_face_translation};
use attention_transformers::generate::EarlyStopping;
use attention_transformers::generate::search::LengthPenalty;
use attention_transformers::hub::{load_bart, load_t5, open};
use attention_transformers::{BeamConfig, EncoderDecoder, GenerateConfig};
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::json;

use super::encoders::assert_tokens_close;
use super::folder::{FolderCopy, original};
use super::references::{assert_all_learn, assert_same_features, tensor};

const TOLERANCE: f64 = 1e-5;

/// Compares the logits of the T5 at `folder` with a family's logits.
fn check_t5(family: &str, folder: &Path) {
    check_translator(family, folder, load_t5);
}

/// Compares the logits of the model at `folder`, all at once and by a cache, and its tokens, with a family's.
fn check_translator(
    family: &str,
    folder: &Path,
    load: fn(PathBuf, &Device) -> Result<EncoderDecoder<DotProductScore>, ImportError>,
) {
    let expected = hugging_face_translation(family);
    device::each(|device| {
        let model = load(folder.to_owned(), device).unwrap();
        let (lens, tokens) = (&expected.lens, || tensor(&expected.tokens, device));
        let memory = model.encode(tokens(), NewRows::First(lens));
        let targets = tensor(&expected.targets, device);
        let logits = model.forward(targets.clone(), NewRows::All, &memory);
        assert_close(family, logits, &expected.logits, TOLERANCE);

        let opened = open(folder, device).unwrap();
        let features = opened.features(tokens(), NewRows::First(lens));
        assert_tokens_close(family, features, &expected.encoded, lens);

        let mut state = model.state(memory.clone());
        let parts = [[0, 3], [3, 1], [4, 2]].map(|[start, len]| {
            let targets = targets.clone().narrow(1, start, len);
            model.forward_cached(targets, NewRows::All, &mut state)
        });
        let cached = Array::read(Tensor::cat(parts.to_vec(), 1));
        let what = format!("{family}, cached");
        assert_close(&what, &cached, &expected.logits, TOLERANCE);

        let config = GenerateConfig::new(expected.generated[0].len());
        let texts = config.generate(&model, model.state(memory), &[[0], [0]]);
        let tokens = texts.run().into_iter().map(|of| of.tokens);
        assert_eq!(tokens.collect::<Vec<_>>(), expected.generated, "{family}");
    });
}

/// Also version 1.1, with a gate and a head of its own.
#[test]
fn t5_translates() {
    for family in ["t5", "mt5", "t5_gated"] {
        check_t5(family, &original(family));
    }
}

/// By learned positions, by sines and by a table of the file for each stack in the place of sines, with norms on either
/// side of the sublayers, and with tokens for each language.
#[test]
fn marian_and_bart_translate() {
    for family in ["bart", "mbart", "marian", "marian_apart"] {
        check_translator(family, &original(family), load_bart);
    }
}

/// In a file that has it, a `scale_decoder_outputs` of null is false.
#[test]
fn features_of_t5_without_a_scale() {
    let logits = |value: serde_json::Value| {
        let copy = FolderCopy::with_field("t5", "scale_decoder_outputs", value);
        tied_logits("t5", copy.path())
    };
    assert_eq!(logits(json!(null)), logits(json!(false)));
    assert_ne!(logits(json!(null)), logits(json!(true)));
}

/// A size under two names.
#[test]
fn names_of_sizes_that_disagree_are_refused() {
    let device = &device::plain()[0];
    for (family, field, value) in [
        ("bart", "num_attention_heads", 2),
        ("marian", "num_hidden_layers", 7),
        ("t5", "num_hidden_layers", 7),
        ("t5", "head_dim", 7),
    ] {
        let copy = FolderCopy::with_field(family, field, json!(value));
        let error = open(copy.path(), device).map(drop).unwrap_err().to_string();
        let expected = format!("`{field}`: expected ");
        assert!(
            error.contains(&expected) && error.contains("is the same size, got"),
            "{error}"
        );
    }
}

/// The texts of beam searches, by their settings.
#[test]
fn beams_are_those_of_transformers() {
    let expected = hugging_face_translation("marian_apart");
    assert!(!expected.beams.is_empty());
    device::each(|device| {
        let model = load_bart(original("marian_apart"), device).unwrap();
        let rows = NewRows::First(&expected.lens);
        let memory = model.encode(tensor(&expected.tokens, device), rows);
        for beams in &expected.beams {
            let config = BeamConfig::new(beams.num_beams, beams.max_new_tokens)
                .with_stop_tokens(vec![beams.end])
                .with_excluded_tokens(vec![beams.pad])
                .with_renormalize(beams.renormalizes)
                .with_repetition_penalty(beams.repetition_penalty)
                .with_no_repeat_ngram_size(beams.no_repeat_ngram_size)
                .with_min_tokens(match beams.min_new_tokens {
                    0 => 0,
                    tokens => tokens + 1,
                })
                .with_last_token(beams.forces_end.then_some(beams.end))
                .with_length_penalty(LengthPenalty::Average(beams.length_penalty))
                .with_early_stopping(match beams.early_stopping {
                    true => EarlyStopping::AtOnce,
                    false => EarlyStopping::Likely,
                });
            let found = config.generate(&model, model.state(memory.clone()), &[[0], [0]]);
            let best = found.iter().map(|of| of[0].tokens.clone());
            assert_eq!(best.collect::<Vec<_>>(), beams.texts, "{beams:?}");
        }
    });
}

/// Names of a model saved without its head, the embedding and positions that older files have several times, and a bias
/// of zeros that is not there.
#[test]
fn other_files_of_bart() {
    for family in ["bart", "marian"] {
        let alone = FolderCopy::of(family);
        alone.change_tensors(|tensors| drop(tensors.remove("final_logits_bias").unwrap()));
        alone.rename(|name| name.replace("model.", ""));
        let older = FolderCopy::of(family);
        older.change_tensors(|tensors| tensors.get_mut("final_logits_bias").unwrap().1.fill(0));
        for name in "model.encoder.embed_tokens model.decoder.embed_tokens lm_head".split(' ') {
            older.copy_tensor("model.shared.weight", &format!("{name}.weight"));
        }
        let [alone, older] = [alone, older].map(|folder| tied_logits(family, folder.path()));
        assert_eq!(alone, older, "{family}");
    }
}

/// The logits of a model whose head is its embedding.
fn tied_logits(family: &str, folder: &Path) -> TensorData {
    let device = &device::plain()[0];
    let tokens = || tensor(&[vec![3, 1, 4]], device);
    let model = match family {
        "t5" => load_t5(folder, device),
        _ => load_bart(folder, device),
    };
    let model = model.unwrap();
    assert!(model.head.is_none(), "{family}");
    let memory = model.encode(tokens(), NewRows::All);
    model.forward(tokens(), NewRows::All, &memory).into_data()
}

/// A tied model under one of its names, as `safetensors.torch.save_model` writes it, or another.
#[test]
fn tied_embeddings_under_another_name() {
    #[rustfmt::skip]
    let cases = [
        ("bart", "model.shared.weight", vec!["lm_head.weight", "model.decoder.embed_tokens.weight"]),
        ("mbart", "model.shared.weight", vec!["lm_head.weight", "model.encoder.embed_tokens.weight"]),
        ("marian", "model.shared.weight", vec!["lm_head.weight"]),
        ("marian_apart", "model.decoder.embed_tokens.weight", vec!["lm_head.weight"]),
        ("t5", "shared.weight", vec!["decoder.embed_tokens.weight", "lm_head.weight"]),
    ];
    for (family, own, others) in cases {
        for other in others {
            let copy = FolderCopy::of(family);
            copy.rename_one(own, other);
            let got = tied_logits(family, copy.path());
            let expected = tied_logits(family, &original(family));
            assert_eq!(got, expected, "{family}: {other}");
        }
    }
}

/// Heads with classes and spans of answers, beside the whole model or its encoder.
#[test]
fn other_heads_are_left_alone_by_open() {
    let within = "transformer.";
    for (family, prefix) in [("bart", ""), ("mbart", ""), ("t5", within), ("mt5", within)] {
        let copy = FolderCopy::of(family);
        if !prefix.is_empty() {
            copy.rename(|name| format!("{prefix}{name}"));
        }
        copy.change_tensors(|tensors| {
            tensors.remove(&format!("{prefix}lm_head.weight"));
            let tensor = tensors.first_key_value().unwrap().1.clone();
            let dense = "classification_head.dense.weight";
            for name in [dense, "qa_outputs.bias", "classifier.weight"] {
                tensors.insert(name.to_string(), tensor.clone());
            }
        });
        assert_same_features(family, copy.path());
    }
}

/// `transformers` 5 keeps a head with elements of its own, beside the bias of the logits.
#[test]
fn a_head_of_its_own_of_bart() {
    let copy = FolderCopy::of("bart");
    copy.copy_tensor("model.shared.weight", "lm_head.weight");
    copy.change_tensors(|tensors| tensors.get_mut("lm_head.weight").unwrap().1.fill(0));
    let device = &device::plain()[0];
    let model = load_bart(copy.path(), device).unwrap();
    let tokens = || tensor(&[vec![3, 1, 4]], device);
    let memory = model.encode(tokens(), NewRows::All);
    let logits = model.forward(tokens(), NewRows::All, &memory);
    let bias = load_bart(original("bart"), device).unwrap().head_bias;
    let bias = Array::read(bias.unwrap().val());
    let expected = Array::from_fn(&[1, 3, bias.shape[0]], |at| bias.at(&[at[2]]));
    assert_close("the bias alone", logits, &expected, TOLERANCE);
}

/// Fields that the first configs lack, the embedding of each stack, and a bias that nothing reads.
#[test]
fn older_files_of_t5() {
    let copy = FolderCopy::of("t5");
    copy.change_json("config.json", |config| {
        for name in "feed_forward_proj scale_decoder_outputs tie_word_embeddings".split(' ') {
            config.remove(name).unwrap();
        }
    });
    for name in "encoder.embed_tokens decoder.embed_tokens lm_head".split(' ') {
        copy.copy_tensor("shared.weight", &format!("{name}.weight"));
    }
    copy.copy_tensor(
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    );
    check_t5("t5", copy.path());
    // A copy is no head of its own.
    let model = load_t5(copy.path(), &device::plain()[0]).unwrap();
    assert!(model.head.is_none());
}

/// `transformers` 5 ties the head of every T5; the older flag says only that features are not scaled.
#[test]
fn a_t5_that_the_config_calls_untied_and_that_has_no_head() {
    let flag = FolderCopy::with_field("t5", "tie_word_embeddings", json!(false));
    let scale = FolderCopy::with_field("t5", "scale_decoder_outputs", json!(false));
    flag.unset("scale_decoder_outputs");
    let [by_flag, by_scale, scaled] =
        [flag.path(), scale.path(), &original("t5")].map(|folder| tied_logits("t5", folder));
    assert_eq!(by_flag, by_scale);
    assert_ne!(by_flag, scaled);
}

/// `transformers` 5 writes that every head is tied, also of a model whose head has elements of its own.
#[test]
fn a_head_of_its_own_that_the_config_calls_tied() {
    let copy = FolderCopy::with_field("t5_gated", "tie_word_embeddings", json!(true));
    copy.set("scale_decoder_outputs", json!(false));
    check_t5("t5_gated", copy.path());
}

/// The position bias of a stack, which all of its layers add, is one parameter.
#[test]
fn every_parameter_is_learned() {
    device::each_training(|device| {
        let expected = hugging_face_translation("t5_gated");
        let copy = FolderCopy::with_field("t5_gated", "dropout_rate", json!(0.0));
        let model = load_t5(copy.path(), device).unwrap();
        let tokens = tensor(&expected.tokens, device);
        let memory = model.encode(tokens, NewRows::First(&expected.lens));
        let logits = model.forward(tensor(&expected.targets, device), NewRows::All, &memory);
        // Each layer has four matrices of an attention, three of the feed-forward network, and a norm for each
        // sublayer; then the embedding, the head, and a norm and a bias for each stack.
        assert_all_learn(&model, logits, 2 * (4 + 3 + 2) + 3 * (8 + 3 + 3) + 6);
    });
}

/// The first files of BART have tensors that nothing reads.
#[test]
fn a_bart_with_versions() {
    let copy = FolderCopy::of("bart");
    for name in ["model.encoder.version", "model.decoder.version"] {
        copy.copy_tensor("final_logits_bias", name);
    }
    check_translator("bart", copy.path(), load_bart);
}
