//! BERT and its kin, and models without a head: logits and features of `transformers` in every row that is no padding.

use std::path::Path;

use attention_core::NewRows;
use attention_tests::{Array, assert_close, assert_same, device, hugging_face_masked};
use attention_transformers::Pooling;
use attention_transformers::hub::{load_bert, load_bert_encoder, load_t5_encoder, open};
use burn_fused_layers::paths::Operation;
use burn_fused_layers::{PackedWeights, is_in_host_memory};
use serde_json::json;

use super::folder::{FolderCopy, original};
use super::references::tensor;

const TOLERANCE: f64 = 1e-5;

/// The rows of examples that are tokens.
pub(super) fn of_tokens(logits: &Array, lens: &[usize]) -> Array {
    let [_, _, size] = logits.shape[..] else {
        panic!("three axes expected");
    };
    let lens = lens.iter().enumerate();
    let rows: Vec<[usize; 2]> = lens
        .flat_map(|(b, len)| (0..*len).map(move |row| [b, row]))
        .collect();
    Array::from_fn(&[rows.len(), size], |at| {
        let [b, row] = rows[at[0]];
        logits.at(&[b, row, at[1]])
    })
}

/// Compares the logits of the BERT at `folder` with a family's logits.
fn check_bert(family: &str, folder: &Path) {
    let expected = hugging_face_masked(family);
    device::each(|device| {
        let model = load_bert(folder, device).unwrap();
        let [tokens, types] =
            [&expected.tokens, &expected.types].map(|tokens| tensor(tokens, device));
        let types = model.embedding.types.is_some().then_some(types);
        let logits = model.forward(tokens, types, NewRows::First(&expected.lens));
        let [got, expected] = [&Array::read(logits), &expected.logits]
            .map(|logits| of_tokens(logits, &expected.lens));
        assert_close(family, &got, &expected, TOLERANCE);
    });
}

/// The linear layers of the two layers of `bert_encoder`: four projections and two of a feed-forward network in each.
const LINEAR: usize = 12;

#[test]
fn bert_without_a_head_embeds_texts() {
    let expected = hugging_face_masked("bert_encoder");
    let folder = original("bert_encoder");
    device::each(|device| {
        let model = load_bert_encoder(&folder, device).unwrap();
        let inputs = || [&expected.tokens, &expected.types].map(|tokens| tensor(tokens, device));
        let rows = NewRows::First(&expected.lens);
        let [tokens, types] = inputs();
        let features = Array::read(model.features(tokens, Some(types), rows));
        let [got, wanted] =
            [&features, &expected.logits].map(|features| of_tokens(features, &expected.lens));
        assert_close("features", &got, &wanted, TOLERANCE);
        let [tokens, types] = inputs();
        let means = model.embeddings(tokens, Some(types), rows, Pooling::Mean);
        let wanted = expected.means.as_ref().unwrap();
        assert_close("means", means.clone(), wanted, TOLERANCE);
        let packed = PackedWeights::of(&model);
        for _ in 0..2 {
            let [tokens, types] = inputs();
            let run = || model.embeddings(tokens, Some(types), rows, Pooling::Mean);
            assert_same("packed", packed.scope(run), &Array::read(means.clone()));
        }
        // The weights lie contiguous as they are loaded.
        if Operation::Linear.is_on() && is_in_host_memory(device) {
            assert_eq!([packed.num_weights(), packed.num_packed()], [LINEAR; 2]);
            let opened = PackedWeights::of(&open(&folder, device).unwrap());
            assert_eq!(opened.num_weights(), LINEAR);
        }
        // A model with a head gives the same features when loaded without it.
        let folder = original("bert");
        let expected = hugging_face_masked("bert");
        let tokens = || tensor(&expected.tokens, device);
        let alone = load_bert_encoder(&folder, device)
            .unwrap()
            .features(tokens(), None, rows);
        let whole = load_bert(&folder, device)
            .unwrap()
            .features(tokens(), None, rows);
        assert_eq!(alone.into_data(), whole.into_data());
    });
}

#[test]
fn a_folder_that_is_no_bert_alone_is_refused() {
    for (field, value, expected) in [
        (
            "num_hidden_layers",
            json!(1),
            "expected no tensor `encoder.layer.1.",
        ),
        ("num_hidden_layers", json!(3), "encoder.layer.2."),
        (
            "quantization_config",
            json!({"bits": 4}),
            "`quantization_config`: expected none",
        ),
    ] {
        let folder = FolderCopy::of("bert_encoder");
        folder.change_json("config.json", |config| {
            config.insert(field.to_string(), value);
        });
        device::each(|device| {
            let error = load_bert_encoder(folder.path(), device)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        });
    }
}

/// The first and the last token, and the mean, of texts at either end of their rows.
#[test]
fn embeddings_of_texts() {
    device::each(|device| {
        let model = open(original("bert_encoder"), device).unwrap();
        let text = vec![3, 1, 4, 1, 5];
        let features =
            Array::read(model.features(tensor(std::slice::from_ref(&text), device), NewRows::All));
        let [_, num_rows, size] = features.shape[..] else {
            panic!("three axes expected");
        };
        let row = |at: usize| -> Vec<f64> {
            (0..size)
                .map(|feature| features.at(&[0, at, feature]))
                .collect()
        };
        let mean = |feature: usize| (0..num_rows).map(|at| row(at)[feature]).sum::<f64>();
        let cases = [
            (Pooling::First, row(0)),
            (Pooling::Last, row(num_rows - 1)),
            (Pooling::Mean, (0..size).map(mean).collect()),
        ];
        let [at_left, at_right] = [[0, 2], [2, 0]]
            .map(|[before, after]| [vec![0; before], text.clone(), vec![0; after]].concat());
        for (pooling, vector) in cases {
            let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
            let expected = Array::from_fn(&[1, size], |at| vector[at[1]] / length);
            for (tokens, rows) in [
                (&at_left, NewRows::First(&[5])),
                (&at_right, NewRows::Last(&[5])),
            ] {
                let tokens = tensor(std::slice::from_ref(tokens), device);
                let got = model.embeddings(tokens, rows, pooling);
                assert_close(format!("{pooling:?}"), got, &expected, TOLERANCE);
            }
        }
    });
}

#[test]
#[should_panic(expected = "at least one token expected in each text, got none in text 1")]
fn a_text_without_a_token_has_no_embedding() {
    let device = &device::plain()[0];
    let model = open(original("bert_encoder"), device).unwrap();
    let tokens = tensor(&[vec![3, 1], vec![0, 0]], device);
    model.embeddings(tokens, NewRows::First(&[2, 0]), Pooling::Mean);
}

/// Features of models that were saved without a head.
#[test]
fn models_saved_alone() {
    for family in ["llama_alone", "t5_encoder"] {
        let expected = hugging_face_masked(family);
        device::each(|device| {
            let model = open(original(family), device).unwrap();
            let rows = NewRows::First(&expected.lens);
            let features = model.features(tensor(&expected.tokens, device), rows);
            let [got, wanted] = [&Array::read(features), &expected.logits]
                .map(|features| of_tokens(features, &expected.lens));
            assert_close(family, &got, &wanted, TOLERANCE);
        });
    }
    // The same by the other name of its embedding.
    let copy = FolderCopy::of("t5_encoder");
    copy.change_tensors(|tensors| {
        let embedding = tensors.remove("shared.weight").unwrap();
        tensors.insert("encoder.embed_tokens.weight".to_string(), embedding);
    });
    let device = &device::plain()[0];
    let [renamed, own] = [copy.path(), &original("t5_encoder")].map(|folder| {
        let model = load_t5_encoder(folder, device).unwrap();
        let tokens = tensor(&[vec![3, 1, 4]], device);
        model.features(tokens, None, NewRows::All).into_data()
    });
    assert_eq!(renamed, own);
}

#[test]
fn bert_masks() {
    check_bert("bert", &original("bert"));
}

#[test]
fn electra_masks() {
    check_bert("electra", &original("electra"));
}

#[test]
fn distilbert_masks() {
    check_bert("distilbert", &original("distilbert"));
}

/// Its kin have other names of the model, and the same of tensors and fields.
#[test]
fn roberta_and_its_kin_mask() {
    for model_type in ["roberta", "xlm-roberta", "camembert"] {
        let copy = FolderCopy::with_field("roberta", "model_type", json!(model_type));
        check_bert("roberta", copy.path());
    }
}

/// Fields that the first configs lack.
#[test]
fn a_bert_without_a_model_type() {
    let copy = FolderCopy::of("bert");
    copy.change_json("config.json", |config| drop(config.remove("model_type")));
    check_bert("bert", copy.path());
    // The class of another family is no BERT.
    copy.change_json("config.json", |config| {
        config.insert("architectures".into(), json!(["RobertaModel"]));
    });
    let error = open(copy.path(), &device::plain()[0]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`model_type`: expected a string, got none")
    );
}

/// `transformers` 5 keeps a head with elements of its own, though the config calls it tied.
#[test]
fn a_head_of_bert_that_the_config_calls_tied() {
    let copy = FolderCopy::with_field("bert_untied", "tie_word_embeddings", json!(true));
    check_bert("bert_untied", copy.path());
}

/// A head of its own, whose bias is not the one that a tied head has.
#[test]
fn bert_with_a_head_of_its_own() {
    check_bert("bert_untied", &original("bert_untied"));
}

/// The names of the first files, with the head of the other pretraining task, and what a tied head has twice.
#[test]
fn older_names_of_bert() {
    let copy = FolderCopy::of("bert");
    copy.change_tensors(|tensors| {
        let all = std::mem::take(tensors).into_iter();
        let renamed = all.map(|(name, tensor)| {
            let name = name.replace("LayerNorm.weight", "LayerNorm.gamma");
            (name.replace("LayerNorm.bias", "LayerNorm.beta"), tensor)
        });
        tensors.extend(renamed);
        let copies = [
            (
                "cls.predictions.decoder.weight",
                "bert.embeddings.word_embeddings.weight",
            ),
            ("cls.predictions.decoder.bias", "cls.predictions.bias"),
            ("cls.seq_relationship.weight", "cls.predictions.bias"),
            ("bert.pooler.dense.weight", "cls.predictions.bias"),
            ("bert.embeddings.position_ids", "cls.predictions.bias"),
        ];
        for (name, of) in copies {
            let tensor = tensors[of].clone();
            tensors.insert(name.to_string(), tensor);
        }
    });
    check_bert("bert", copy.path());
}
