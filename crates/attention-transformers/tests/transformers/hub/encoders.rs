//! BERT and T5: logits of `transformers` in every row that is no padding, and the tokens that it generates.

use std::path::Path;

use attention_core::import::ImportError;
use attention_core::{DotProductScore, NewRows};
use attention_tests::{
    Array, assert_close, device, hugging_face_masked, hugging_face_translation, parameters,
};
use attention_transformers::hub::{
    load_bart, load_bert, load_bert_encoder, load_t5, load_t5_encoder, open,
};
use attention_transformers::{EncoderDecoder, GenerateConfig, Pooling};
use burn::tensor::{Device, Tensor};
use serde_json::json;

use super::folder::{FolderCopy, original};
use super::references::tensor;

const TOLERANCE: f64 = 1e-5;

/// The rows of examples that are tokens.
fn of_tokens(logits: &Array, lens: &[usize]) -> Array {
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

/// Compares the logits of the BERT at `folder` with those of a family.
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

/// Compares the logits of the T5 at `folder` with those of a family.
fn check_t5(family: &str, folder: &Path) {
    check_translator(family, folder, |folder, device| load_t5(folder, device));
}

/// Compares the logits of the model at `folder`, all at once and by a cache, and its tokens, with those of a family.
fn check_translator(
    family: &str,
    folder: &Path,
    load: fn(&Path, &Device) -> Result<EncoderDecoder<DotProductScore>, ImportError>,
) {
    let expected = hugging_face_translation(family);
    device::each(|device| {
        let model = load(folder, device).unwrap();
        let memory = model.encode(
            tensor(&expected.tokens, device),
            NewRows::First(&expected.lens),
        );
        let targets = tensor(&expected.targets, device);
        let logits = model.forward(targets.clone(), NewRows::All, &memory);
        assert_close(family, logits, &expected.logits, TOLERANCE);

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
        assert_close("means", means, wanted, TOLERANCE);
        // Of one with a head, the same features as with it.
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

#[test]
fn t5_translates() {
    check_t5("t5", &original("t5"));
}

#[test]
fn mt5_translates() {
    check_t5("mt5", &original("mt5"));
}

/// By learned positions and by sines, with norms on either side of the sublayers, and with tokens for each language.
#[test]
fn marian_and_bart_translate() {
    for family in ["bart", "mbart", "marian", "marian_apart"] {
        check_translator(family, &original(family), |folder, device| {
            load_bart(folder, device)
        });
    }
}

/// Names of a model saved without its head, the embedding and positions that older files have several times, and a bias
/// of zeros that is not there.
#[test]
fn other_files_of_bart() {
    for family in ["bart", "marian"] {
        let alone = FolderCopy::of(family);
        alone.change_tensors(|tensors| {
            tensors.remove("final_logits_bias").unwrap();
            let all = std::mem::take(tensors).into_iter();
            tensors.extend(all.map(|(name, tensor)| (name.replace("model.", ""), tensor)));
        });
        let older = FolderCopy::of(family);
        older.change_tensors(|tensors| {
            tensors.get_mut("final_logits_bias").unwrap().1.fill(0);
            let embedding = tensors["model.shared.weight"].clone();
            for name in [
                "model.encoder.embed_tokens.weight",
                "model.decoder.embed_tokens.weight",
                "lm_head.weight",
            ] {
                tensors.insert(name.to_string(), embedding.clone());
            }
            for name in [
                "model.encoder.embed_positions.weight",
                "model.decoder.embed_positions.weight",
            ] {
                tensors.entry(name.to_string()).or_insert(embedding.clone());
            }
        });
        let device = &device::plain()[0];
        let logits = |folder: &FolderCopy| {
            let model = load_bart(folder.path(), device).unwrap();
            assert!(model.head.is_none());
            let tokens = || tensor(&[vec![3, 1, 4]], device);
            let memory = model.encode(tokens(), NewRows::All);
            model.forward(tokens(), NewRows::All, &memory).into_data()
        };
        assert_eq!(logits(&alone), logits(&older), "{family}");
    }
}

/// `transformers` 5 keeps a head with elements of its own, beside the bias of the logits.
#[test]
fn a_head_of_its_own_of_bart() {
    let copy = FolderCopy::of("bart");
    copy.change_tensors(|tensors| {
        let mut head = tensors["model.shared.weight"].clone();
        head.1.fill(0);
        tensors.insert("lm_head.weight".to_string(), head);
    });
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

/// Version 1.1.
#[test]
fn t5_with_a_gate_and_a_head_of_its_own() {
    check_t5("t5_gated", &original("t5_gated"));
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

/// Fields that the first configs lack, the embedding of each stack, and a bias that nothing reads.
#[test]
fn older_files_of_t5() {
    let copy = FolderCopy::of("t5");
    copy.change_json("config.json", |config| {
        for name in [
            "feed_forward_proj",
            "scale_decoder_outputs",
            "tie_word_embeddings",
        ] {
            config.remove(name).unwrap();
        }
    });
    copy.change_tensors(|tensors| {
        let bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight";
        let unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
        let copies = [
            ("encoder.embed_tokens.weight", "shared.weight"),
            ("decoder.embed_tokens.weight", "shared.weight"),
            ("lm_head.weight", "shared.weight"),
            (unused, &format!("encoder.{bias}")),
        ];
        for (name, of) in copies {
            let tensor = tensors[of].clone();
            tensors.insert(name.to_string(), tensor);
        }
    });
    check_t5("t5", copy.path());
    // A copy is no head of its own.
    let model = load_t5(copy.path(), &device::plain()[0]).unwrap();
    assert!(model.head.is_none());
}

/// `transformers` 5 writes that every head is tied, also of a model whose head has elements of its own.
#[test]
fn a_head_of_its_own_that_the_config_calls_tied() {
    let copy = FolderCopy::with_field("t5_gated", "tie_word_embeddings", json!(true));
    copy.change_json("config.json", |config| {
        config.insert("scale_decoder_outputs".into(), json!(false));
    });
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
        let targets = tensor(&expected.targets, device);
        let logits = model.forward(targets, NewRows::All, &memory);
        let gradients = logits.powi_scalar(2).sum().backward();
        let gradients = parameters::gradients(&model, Some(&gradients));
        // Of a layer four matrices of an attention, three of the feed-forward network, and a norm of each sublayer;
        // the embedding, the head, and of each stack a norm and a bias.
        assert_eq!(gradients.len(), 2 * (4 + 3 + 2) + 3 * (8 + 3 + 3) + 6);
        for (path, gradient) in gradients {
            assert!(gradient.magnitude() > 0.0, "{path} has no gradient");
        }
    });
}
