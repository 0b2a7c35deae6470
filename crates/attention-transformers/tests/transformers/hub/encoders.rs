//! BERT and its kin, and models without a head: logits and features of `transformers` in every row that is no padding.

use std::path::Path;

use attention_core::NewRows;
use attention_tests::{Array, assert_close, assert_same, assert_says, device, hugging_face_masked};
use attention_transformers::hub::{load_bert, load_bert_encoder, load_t5_encoder, open};
use attention_transformers::text_encoder::Pooling;
use burn::tensor::Tensor;
use serde_json::json;

use super::folder::{FolderCopy, original};
use super::references::tensor;

const TOLERANCE: f64 = 1e-5;

/// The rows of examples that are tokens.
fn of_tokens(logits: &Array, lens: &[usize]) -> Array {
    let lens = lens.iter().enumerate();
    let rows = lens.flat_map(|(b, len)| (0..*len).map(move |row| [b, row]));
    let rows: Vec<[usize; 2]> = rows.collect();
    Array::from_fn(&[rows.len(), logits.shape[2]], |at| {
        let [b, row] = rows[at[0]];
        logits.at(&[b, row, at[1]])
    })
}

/// The rows of tokens are those of `expected`.
pub(super) fn assert_tokens_close(what: &str, rows: Tensor<3>, expected: &Array, lens: &[usize]) {
    let [got, expected] = [&Array::read(rows), expected].map(|rows| of_tokens(rows, lens));
    assert_close(what, &got, &expected, TOLERANCE);
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
        assert_tokens_close(family, logits, &expected.logits, &expected.lens);
    });
}

#[test]
fn bert_without_a_head_embeds_texts() {
    let expected = hugging_face_masked("bert_encoder");
    let folder = original("bert_encoder");
    device::each(|device| {
        let mut model = load_bert_encoder(&folder, device).unwrap();
        let inputs = || [&expected.tokens, &expected.types].map(|tokens| tensor(tokens, device));
        let rows = NewRows::First(&expected.lens);
        let [tokens, types] = inputs();
        let features = model.features(tokens, Some(types), rows);
        assert_tokens_close("features", features, &expected.logits, &expected.lens);
        let [tokens, types] = inputs();
        let means = model.embeddings(tokens, Some(types), rows, Pooling::Mean);
        let wanted = expected.means.as_ref().unwrap();
        assert_close("means", means.clone(), wanted, TOLERANCE);
        model.pack();
        for _ in 0..2 {
            let [tokens, types] = inputs();
            let packed = model.embeddings(tokens, Some(types), rows, Pooling::Mean);
            assert_same("packed", packed, &Array::read(means.clone()));
        }
        // A model with a head gives the same features when loaded without it.
        let folder = original("bert");
        let expected = hugging_face_masked("bert");
        let tokens = || tensor(&expected.tokens, device);
        let alone = load_bert_encoder(&folder, device).unwrap();
        let alone = alone.features(tokens(), None, rows);
        let whole = load_bert(&folder, device).unwrap();
        let whole = whole.features(tokens(), None, rows);
        assert_eq!(alone.into_data(), whole.into_data());
    });
}

#[test]
fn a_folder_that_is_no_bert_alone_is_refused() {
    #[rustfmt::skip]
    let cases = [
        ("num_hidden_layers", json!(1), "expected no tensor `encoder.layer.1."),
        ("num_hidden_layers", json!(3), "encoder.layer.2."),
        ("quantization_config", json!({"bits": 4}), "`quantization_config`: expected none"),
    ];
    for (field, value, expected) in cases {
        let folder = FolderCopy::with_field("bert_encoder", field, value);
        device::each(|device| {
            let error = load_bert_encoder(folder.path(), device).unwrap_err();
            assert_says(error, expected);
        });
    }
}

/// The first and the last token, and the mean, of texts at either end of their rows.
#[test]
fn embeddings_of_texts() {
    device::each(|device| {
        let model = open(original("bert_encoder"), device).unwrap();
        let text = vec![3, 1, 4, 1, 5];
        let tokens = tensor(std::slice::from_ref(&text), device);
        let features = model.features(tokens, NewRows::All);
        let [_, num_rows, size] = features.dims();
        let features = Array::read(features);
        let row = |at: usize| features.data[at * size..][..size].to_vec();
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
            assert_tokens_close(family, features, &expected.logits, &expected.lens);
        });
    }
    // The same by the other name of its embedding.
    let copy = FolderCopy::of("t5_encoder");
    copy.rename_one("shared.weight", "encoder.embed_tokens.weight");
    let device = &device::plain()[0];
    let [renamed, own] = [copy.path(), &original("t5_encoder")].map(|folder| {
        let model = load_t5_encoder(folder, device).unwrap();
        let tokens = tensor(&[vec![3, 1, 4]], device);
        model.features(tokens, None, NewRows::All).into_data()
    });
    assert_eq!(renamed, own);
}

/// The last with a head of its own, whose bias is not the one that a tied head has.
#[test]
fn bert_and_its_kin_mask() {
    for family in ["bert", "electra", "distilbert", "bert_untied"] {
        check_bert(family, &original(family));
    }
}

/// The field of its kin is none of a DistilBERT.
#[test]
fn a_distilbert_has_an_epsilon_of_its_own() {
    let copy = FolderCopy::with_field("distilbert", "layer_norm_eps", json!(0.1));
    check_bert("distilbert", copy.path());
}

/// Its kin have other names of the model, and the same of tensors and fields.
#[test]
fn roberta_and_its_kin_mask_too() {
    for model_type in ["roberta", "xlm-roberta", "camembert"] {
        let copy = FolderCopy::with_field("roberta", "model_type", json!(model_type));
        check_bert("roberta", copy.path());
    }
}

/// A token of padding within a text is no position, as by `transformers`.
#[test]
fn padding_within_a_text_of_roberta() {
    assert!(hugging_face_masked("roberta").tokens[0].contains(&1));
    check_bert("roberta", &original("roberta"));
    // Nor is padding before a text one.
    let device = &device::plain()[0];
    for padding in [1, 0] {
        let copy = FolderCopy::with_field("roberta", "pad_token_id", json!(padding));
        let model = open(copy.path(), device).unwrap();
        let text = [5, padding, 7, 3];
        let [text, padded] = [text.to_vec(), [&[1, padding, 0], &text[..]].concat()]
            .map(|text| tensor(std::slice::from_ref(&text), device));
        let alone = model.features(text, NewRows::All);
        let padded = model.features(padded, NewRows::Last(&[4])).narrow(1, 3, 4);
        assert_close(format!("{padding}"), padded, &Array::read(alone), TOLERANCE);
    }
}

/// Fields that the first configs lack.
#[test]
fn a_bert_without_a_model_type() {
    let copy = FolderCopy::of("bert");
    copy.unset("model_type");
    check_bert("bert", copy.path());
    // The class of another family is no BERT.
    copy.set("architectures", json!(["RobertaModel"]));
    let error = open(copy.path(), &device::plain()[0]).unwrap_err();
    assert_says(error, "`model_type`: expected a string, got none");
}

/// `transformers` 5 keeps a head with elements of its own, though the config calls it tied.
#[test]
fn a_head_of_bert_that_the_config_calls_tied() {
    let copy = FolderCopy::with_field("bert_untied", "tie_word_embeddings", json!(true));
    check_bert("bert_untied", copy.path());
}

/// The names of the first files, with the head of the other pretraining task, and what a tied head has twice.
#[test]
fn older_names_of_bert() {
    let copy = FolderCopy::of("bert");
    copy.rename(|name| {
        let name = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        name.replace("LayerNorm.bias", "LayerNorm.beta")
    });
    let embedding = "bert.embeddings.word_embeddings.weight";
    copy.copy_tensor(embedding, "cls.predictions.decoder.weight");
    for name in [
        "cls.predictions.decoder.bias",
        "cls.seq_relationship.weight",
        "bert.pooler.dense.weight",
        "bert.embeddings.position_ids",
    ] {
        copy.copy_tensor("cls.predictions.bias", name);
    }
    check_bert("bert", copy.path());
}
