//! Folders of sentence-transformers: vectors that its `encode` makes.

use attention_core::NewRows;
use attention_tests::{Array, assert_close, device, hugging_face_sentences};
use attention_transformers::hub::{OpenModel, load_bert_encoder, open, open_sentences};
use attention_transformers::text_encoder::Pooling;
use burn::tensor::{Device, Int, Tensor};
use serde_json::{Value, json};

use super::folder::{FolderCopy, original};
use super::references::tensor;

const TOLERANCE: f64 = 1e-5;

/// Texts padded with zeros, and their lengths.
fn padded(texts: &[Vec<u32>], device: &Device) -> (Tensor<2, Int>, Vec<usize>) {
    let lens: Vec<usize> = texts.iter().map(Vec::len).collect();
    let longest = *lens.iter().max().unwrap();
    let padded = |text: &Vec<u32>| [&text[..], &vec![0; longest - text.len()]].concat();
    let texts: Vec<Vec<u32>> = texts.iter().map(padded).collect();
    (tensor(&texts, device), lens)
}

/// A copy without the modules after the pooling, whose file has these fields.
fn pooled(fields: Value) -> FolderCopy {
    let copy = FolderCopy::of("sentences");
    let text = std::fs::read(copy.path().join("modules.json")).unwrap();
    let mut modules: Vec<Value> = serde_json::from_slice(&text).unwrap();
    modules.truncate(2);
    copy.write("modules.json", &serde_json::to_vec(&modules).unwrap());
    let file = "1_Pooling/config.json";
    copy.write(file, &serde_json::to_vec(&fields).unwrap());
    copy
}

/// Six poolings, two layers and two normalizations; and each pooling alone, by its name and by the flag of older files.
#[test]
fn vectors_of_sentence_transformers() {
    let expected = hugging_face_sentences("sentences");
    device::each(|device| {
        let vectors = |folder: &FolderCopy| {
            let model = open_sentences(folder.path(), device).unwrap();
            let (tokens, lens) = padded(&expected.tokens, device);
            model.embeddings(tokens, NewRows::First(&lens))
        };
        let all = vectors(&FolderCopy::of("sentences"));
        assert_close("all", all, &expected.vectors, TOLERANCE);
        let copy = FolderCopy::of("sentences");
        for size in [5, 700] {
            copy.change_json("config_sentence_transformers.json", |fields| {
                fields.insert("truncate_dim".into(), json!(size));
            });
            let [batch, all] = expected.vectors.shape[..] else {
                panic!("two axes")
            };
            let cut = Array::from_fn(&[batch, all.min(size)], |at| expected.vectors.at(at));
            assert_close(format!("{size}"), vectors(&copy), &cut, TOLERANCE);
        }
        for (mode, expected) in &expected.poolings {
            let fields = json!({ "pooling_mode": mode, "embedding_dimension": 12 });
            assert_close(mode, vectors(&pooled(fields)), expected, TOLERANCE);
            let ending = match mode.as_str() {
                "cls" => "_token",
                mode if mode.ends_with("token") || mode.ends_with("_tokens") => "",
                _ => "_tokens",
            };
            let mean = "pooling_mode_mean_tokens";
            let mut flags = json!({ mean: false, "word_embedding_dimension": 12 });
            flags[format!("pooling_mode_{mode}{ending}")] = json!(true);
            assert_close(mode, vectors(&pooled(flags)), expected, TOLERANCE);
        }
        let default = vectors(&pooled(json!({ "embedding_dimension": 12 })));
        assert_close("default", default, &expected.poolings["mean"], TOLERANCE);
    });
}

/// The same texts at the right of their rows have the same vectors, also of length 1 by each pooling.
#[test]
fn poolings_of_texts_at_the_right() {
    let expected = hugging_face_sentences("sentences");
    let device = &device::plain()[0];
    let model = load_bert_encoder(original("bert_encoder"), device).unwrap();
    for pooling in [Pooling::Max, Pooling::MeanSqrtLen, Pooling::WeightedMean] {
        let text = expected.tokens[0].clone();
        let [left, right] = [
            ([0, 2], NewRows::First(&[5])),
            ([2, 0], NewRows::Last(&[5])),
        ]
        .map(|([before, after], rows)| {
            let text = [vec![0; before], text.clone(), vec![0; after]].concat();
            let tokens = tensor(std::slice::from_ref(&text), device);
            Array::read(model.embeddings(tokens, None, rows, pooling))
        });
        assert_close(format!("{pooling:?}"), &left, &right, TOLERANCE);
        let length: f64 = left.data.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < TOLERANCE, "{pooling:?}");
    }
}

/// `max_seq_length` of older files comes first, then `model_max_length`, which may say nothing, and the positions.
#[test]
fn lengths_to_which_texts_are_cut() {
    let device = &device::plain()[0];
    let of = |file: &str, field: &str, value: Value| {
        let copy = FolderCopy::of("sentences");
        copy.change_json(file, |fields| drop(fields.insert(field.into(), value)));
        open_sentences(copy.path(), device).unwrap().max_tokens
    };
    const OLDER: &str = "sentence_bert_config.json";
    const TODAY: &str = "tokenizer_config.json";
    assert_eq!(of(OLDER, "max_seq_length", json!(7)), Some(7));
    assert_eq!(of(OLDER, "max_seq_length", json!(11)), Some(11));
    assert_eq!(of(OLDER, "max_seq_length", json!(null)), Some(9));
    assert_eq!(of(TODAY, "model_max_length", json!(1e30)), Some(13));
    assert_eq!(of(OLDER, "max_seq_length", json!(512)), Some(13));
    // Padding is no position of the second.
    for family in ["bert_encoder", "roberta"] {
        let limit = open(original(family), device).unwrap().position_limit();
        assert_eq!(limit.unwrap().max_positions, 13, "{family}");
    }
}

#[test]
fn the_prompt_and_the_case_of_texts() {
    let device = &device::plain()[0];
    let copy = FolderCopy::of("sentences");
    let model = open_sentences(copy.path(), device).unwrap();
    assert_eq!((model.prompt, model.lower_case), (None, false));
    copy.change_json("config_sentence_transformers.json", |fields| {
        fields.insert("default_prompt_name".into(), json!("greeting"));
    });
    copy.change_json("sentence_bert_config.json", |fields| {
        fields.insert("do_lower_case".into(), json!(true));
        fields.insert("config_args".into(), json!({ "trust_remote_code": true }));
    });
    let model = open_sentences(copy.path(), device).unwrap();
    assert_eq!(model.prompt.as_deref(), Some("w7 w8 "));
    assert!(model.lower_case);
}

/// A folder whose vectors are more than features is opened by one function alone.
#[test]
fn other_loaders_refuse_the_layers() {
    let device = &device::plain()[0];
    let folder = original("sentences");
    for error in [
        open(&folder, device).map(drop).unwrap_err(),
        load_bert_encoder(&folder, device).map(drop).unwrap_err(),
    ] {
        let error = error.to_string();
        let expected = "modules.json`: expected no module `sentence_transformers.base.modules.dense.Dense`, without \
                        which the vectors of texts are others: load the folder by `hub::open_sentences`";
        assert!(error.ends_with(expected), "{error}");
    }
    let opened = open(pooled(json!({ "embedding_dimension": 12 })).path(), device);
    assert!(matches!(opened, Ok(OpenModel::Encoder(_))));
}

#[test]
fn modules_that_are_refused() {
    let device = &device::plain()[0];
    let refuses = |copy: &FolderCopy, expected: &str| {
        let error = open_sentences(copy.path(), device).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    #[rustfmt::skip]
    let cases = [
        ("1_Pooling", "pooling_mode", json!("attention"), r#"`pooling_mode`: expected "cls" or "max" or"#),
        ("1_Pooling", "embedding_dimension", json!(11), "`embedding_dimension`: expected 12, as the features have, got 11"),
        ("1_Pooling", "pooling_mode", json!([]), "`pooling_mode`: expected at least one, got none"),
        ("2_Dense", "in_features", json!(71), "`in_features`: expected 72, as the modules before it make, got 71"),
        ("2_Dense", "activation_function", json!("torch.nn.Mish"), r#"expected "Identity" or "Sigmoid" or"#),
        ("2_Dense", "activation_function", json!("mine.Tanh"), r#"expected "Identity" or "Sigmoid" or"#),
        ("2_Dense", "use_residual", json!(true), "`use_residual`: expected false"),
        ("2_Dense", "bias", json!(false), "expected no tensor `linear.bias`"),
        ("4_Dense", "module_input_name", json!("token_embeddings"), r#"expected "sentence_embedding""#),
        ("5_Normalize", "module_output_name", json!("x"), r#"expected "sentence_embedding", got "x""#),
    ];
    for (file, field, value, expected) in cases {
        let copy = FolderCopy::of("sentences");
        copy.change_json(&format!("{file}/config.json"), |fields| {
            fields.insert(field.into(), value);
        });
        refuses(&copy, expected);
    }
    let text = |name: &str, of: Value| json!({ "text": { name: of } });
    #[rustfmt::skip]
    let cases = [
        ("config_args", json!({ "num_hidden_layers": 1 }), "expected none, since the model is that of its"),
        ("config_kwargs", json!({ "is_causal": false }), "expected none, since the model is that of its"),
        ("modality_config", text("method", json!("encode")), r#"method`: expected "forward", got "encode""#),
        ("modality_config", text("method_output_name", json!(["hidden_states", 0])), "expected a string, got a list"),
    ];
    for (field, value, expected) in cases {
        let copy = FolderCopy::of("sentences");
        copy.change_json("sentence_bert_config.json", |fields| {
            fields.insert(field.into(), value);
        });
        refuses(&copy, expected);
    }
    #[rustfmt::skip]
    let cases = [
        (2, "type", "sentence_transformers.models.LSTM", "sentence-transformers, Dense or Normalize, got"),
        (0, "type", "custom_st.Transformer", "a module of sentence-transformers, Transformer, got `custom_st."),
        (2, "path", "../2_Dense", "`2.path`: expected a folder beside the file, got \"../2_Dense\""),
    ];
    for (at, field, value, expected) in cases {
        let copy = FolderCopy::of("sentences");
        let text = std::fs::read(copy.path().join("modules.json")).unwrap();
        let mut modules: Value = serde_json::from_slice(&text).unwrap();
        modules[at][field] = json!(value);
        copy.write("modules.json", modules.to_string().as_bytes());
        refuses(&copy, expected);
    }
    let copy = FolderCopy::of("bart");
    let modules = std::fs::read(original("sentences").join("modules.json")).unwrap();
    copy.write("modules.json", &modules);
    let expected =
        "`model_type`: expected a model whose features are those of an encoder, got \"bart\"";
    refuses(&copy, expected);
    let copy = FolderCopy::of("sentences");
    copy.write("modules.json", b"{}");
    refuses(&copy, "expected a list of modules in JSON");
    let copy = FolderCopy::of("bert_encoder");
    refuses(&copy, "modules.json`: No such file");
}
