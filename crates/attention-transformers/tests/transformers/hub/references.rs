//! Logits equal the logits of `transformers`, at every position, all at once and by a cache.

use std::path::Path;

use attention_core::import::ImportError;
use attention_core::{NewRows, ScoringFunction};
use attention_tests::{Array, assert_close, device, hugging_face_attention, hugging_face_logits};
use attention_transformers::hub::{
    OpenModel, load_bert, load_bloom, load_gemma, load_gemma2, load_gemma3, load_gpt_oss_attention,
    load_gpt2, load_llama, load_mistral, load_opt, load_phi3, load_qwen2, load_qwen3,
    load_t5_encoder, open,
};
use attention_transformers::{GenerateConfig, LanguageModel};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::folder::{FolderCopy, original};

/// Angles are f32 there, and of f64 here.
const TOLERANCE: f64 = 1e-5;

/// The parts in which texts come to a cache.
const PARTS: [[usize; 2]; 4] = [[0, 4], [4, 1], [5, 1], [6, 5]];

pub(super) fn tensor(texts: &[Vec<u32>], device: &Device) -> Tensor<2, Int> {
    let tokens: Vec<i64> = texts.concat().into_iter().map(i64::from).collect();
    let data = TensorData::new(tokens, [texts.len(), texts[0].len()]);
    Tensor::from_data(data, device)
}

/// Compares the logits of the model at `folder` with a family's logits.
pub(super) fn check_logits<S: ScoringFunction>(
    family: &str,
    folder: &Path,
    load: impl Fn(&Path, &Device) -> Result<LanguageModel<S>, ImportError>,
) {
    let expected = hugging_face_logits(family);
    device::each(|device| {
        let model = load(folder, device).unwrap();
        let tokens = tensor(&expected.tokens, device);
        let logits = model.forward(tokens.clone(), NewRows::All);
        assert_close(family, logits, &expected.logits, TOLERANCE);
        let mut cache = model.cache();
        let parts = PARTS.map(|[start, len]| {
            let tokens = tokens.clone().narrow(1, start, len);
            model.forward_cached(tokens, NewRows::All, &mut cache)
        });
        let cached = Array::read(Tensor::cat(parts.to_vec(), 1));
        let what = format!("{family}, cached");
        assert_close(&what, &cached, &expected.logits, TOLERANCE);
    });
}

/// Greedy tokens have the highest logits of whole texts.
fn check_generation<S: ScoringFunction>(
    family: &str,
    load: impl Fn(&Path, &Device) -> Result<LanguageModel<S>, ImportError>,
) {
    device::each(|device| {
        let model = load(&original(family), device).unwrap();
        let prompts = hugging_face_logits(family).tokens;
        // GPT-2 has 13 positions.
        let prompts = [prompts[0][..7].to_vec(), prompts[1][..4].to_vec()];
        let config = GenerateConfig::new(5);
        let generated = config.generate(&model, model.cache(), &prompts).run();
        for (prompt, generated) in prompts.iter().zip(generated) {
            let mut text = prompt.clone();
            for token in generated.tokens {
                let logits = model.forward(tensor(&[text.clone()], device), NewRows::All);
                let last = logits.narrow(1, text.len() - 1, 1).argmax(2);
                let [best] = last.into_data().iter::<i64>().collect::<Vec<_>>()[..] else {
                    panic!("one token expected");
                };
                assert_eq!(i64::from(token), best, "{family}: after {text:?}");
                text.push(token);
            }
        }
    });
}

macro_rules! families {
    ($($name:ident: $family:literal, $load:expr;)*) => {$(
        #[test]
        fn $name() {
            check_logits($family, &original($family), $load);
            check_generation($family, $load);
        }
    )*};
}

families! {
    llama: "llama", |folder, device| load_llama(folder, device);
    llama_in_shards: "llama_sharded", |folder, device| load_llama(folder, device);
    mistral: "mistral", |folder, device| load_mistral(folder, device);
    ministral: "ministral", |folder, device| load_mistral(folder, device);
    phi3: "phi3", |folder, device| load_phi3(folder, device);
    gemma: "gemma", |folder, device| load_gemma(folder, device);
    qwen2: "qwen2", |folder, device| load_qwen2(folder, device);
    qwen2_tied: "qwen2_tied", |folder, device| load_qwen2(folder, device);
    qwen3: "qwen3", |folder, device| load_qwen3(folder, device);
    gemma2: "gemma2", |folder, device| load_gemma2(folder, device);
    gemma3: "gemma3", |folder, device| load_gemma3(folder, device);
    gemma3_beside_pictures: "gemma3_pictures", |folder, device| load_gemma3(folder, device);
    gpt2: "gpt2", |folder, device| load_gpt2(folder, device);
    opt: "opt", |folder, device| load_opt(folder, device);
    bloom: "bloom", |folder, device| load_bloom(folder, device);
}

/// Opened by the folder alone, each family has the features that it has by its name.
#[test]
fn any_family_is_opened() {
    device::each(|device| {
        let tokens = || tensor(&[vec![3, 1, 4, 1, 5]], device);
        let rows = NewRows::All;
        macro_rules! features {
            ($load:ident, $family:literal $(, $types:ident)?) => {{
                let model = $load(original($family), device).unwrap();
                ($family, model.features(tokens() $(, $types)?, rows))
            }};
        }
        let by_name = [
            features!(load_llama, "llama"),
            features!(load_mistral, "mistral"),
            features!(load_mistral, "ministral"),
            features!(load_phi3, "phi3"),
            features!(load_gemma, "gemma"),
            features!(load_opt, "opt"),
            features!(load_gemma3, "gemma3_pictures"),
            features!(load_qwen2, "qwen2"),
            features!(load_qwen3, "qwen3"),
            features!(load_gemma2, "gemma2"),
            features!(load_gemma3, "gemma3"),
            features!(load_gpt2, "gpt2"),
            features!(load_bloom, "bloom"),
            features!(load_bert, "bert", None),
            features!(load_bert, "roberta", None),
            features!(load_bert, "distilbert", None),
            features!(load_bert, "electra", None),
            features!(load_t5_encoder, "t5", None),
            features!(load_t5_encoder, "mt5", None),
        ];
        for (family, expected) in by_name {
            let features = open(original(family), device)
                .unwrap()
                .features(tokens(), rows);
            assert_eq!(features.into_data(), expected.into_data(), "{family}");
        }
        let error = open(original("gpt_oss"), device).unwrap_err().to_string();
        let families =
            r#"`model_type`: expected "llama" or "mistral" or "ministral" or "qwen2" or "phi3""#;
        assert!(
            error.contains(families) && error.ends_with(r#"or "bart" or "mbart", got "gpt_oss""#),
            "{error}"
        );
    });
}

/// Names as they are where a decoder was saved alone, within other modules, or with another head: the same features.
#[test]
fn decoders_with_other_heads_or_without_one() {
    for (family, prefix) in [
        ("llama", "model."),
        ("phi3", "model."),
        ("qwen3", "model."),
        ("gemma2", "model."),
        ("gemma3_pictures", "language_model.model."),
        ("gpt2", "transformer."),
        ("opt", "model."),
    ] {
        let alone = FolderCopy::of(family);
        alone.change_tensors(|tensors| {
            tensors.remove("lm_head.weight");
            let all = std::mem::take(tensors).into_iter();
            tensors.extend(all.map(|(name, tensor)| (name.replace(prefix, ""), tensor)));
        });
        let with_classes = FolderCopy::of(family);
        with_classes.change_tensors(|tensors| {
            tensors.remove("lm_head.weight");
            let tensor = tensors.first_key_value().unwrap().1.clone();
            tensors.insert("score.weight".to_string(), tensor);
        });
        let wrapped = FolderCopy::of(family);
        wrapped.change_tensors(|tensors| {
            let all = std::mem::take(tensors).into_iter();
            let name = |name: String| format!("module.{}", name.replace("mlp.", "_orig_mod.mlp."));
            tensors.extend(all.map(|(own, tensor)| (name(own), tensor)));
        });
        device::each(|device| {
            let tokens = || tensor(&[vec![3, 1, 4, 1, 5], vec![9, 2, 6, 0, 0]], device);
            let rows = NewRows::First(&[5, 3]);
            let features = |folder: &Path| {
                let model = open(folder, device).unwrap();
                model.features(tokens(), rows).into_data()
            };
            let expected = features(&original(family));
            for folder in [&alone, &with_classes, &wrapped] {
                assert_eq!(features(folder.path()), expected, "{family}");
            }
        });
    }
    // Llama's head is its own, so without it there are no logits; Gemma's is the embedding.
    let device = &device::plain()[0];
    let folder = FolderCopy::of("llama");
    folder.change_tensors(|tensors| drop(tensors.remove("lm_head.weight")));
    let model = open(folder.path(), device).unwrap();
    assert!(matches!(model, OpenModel::RotaryEncoder(_)));
    let error = load_llama(folder.path(), device).unwrap_err().to_string();
    assert!(
        error.contains("expected a tensor `lm_head.weight`"),
        "{error}"
    );
    let model = open(original("gemma"), device).unwrap();
    assert!(matches!(model, OpenModel::Rotary(_)));
}

/// Two names that differ by a wrapper alone are no two tensors.
#[test]
fn a_tensor_within_a_wrapper_and_outside_is_refused() {
    let copy = FolderCopy::of("llama");
    copy.change_tensors(|tensors| {
        let tensor = tensors["model.norm.weight"].clone();
        tensors.insert("model._orig_mod.norm.weight".to_string(), tensor);
    });
    let error = load_llama(copy.path(), &device::plain()[0]).unwrap_err();
    let expected = "expected one tensor `model.norm.weight`, got both `model._orig_mod.norm.weight` and \
                    `model.norm.weight`";
    assert!(error.to_string().ends_with(expected), "{error}");
}

/// `transformers` 5 keeps a head with elements of its own, though the config calls it tied.
#[test]
fn heads_of_their_own_that_the_config_calls_tied() {
    for family in ["llama", "qwen2", "phi3"] {
        let copy = FolderCopy::with_field(family, "tie_word_embeddings", serde_json::json!(true));
        match family {
            "llama" => check_logits(family, copy.path(), |folder, device| {
                load_llama(folder, device)
            }),
            "qwen2" => check_logits(family, copy.path(), |folder, device| {
                load_qwen2(folder, device)
            }),
            _ => check_logits(family, copy.path(), |folder, device| {
                load_phi3(folder, device)
            }),
        }
    }
}

#[test]
fn attention_of_gpt_oss() {
    let expected = hugging_face_attention("gpt_oss");
    let [layers, batch, num_rows, size] = expected.outputs.shape[..] else {
        panic!("four axes expected");
    };
    device::each(|device| {
        for layer in 0..layers {
            let attention = load_gpt_oss_attention(original("gpt_oss"), layer, device).unwrap();
            let outputs = &expected.outputs;
            let outputs = Array::from_fn(&[batch, num_rows, size], |at| {
                outputs.at(&[layer, at[0], at[1], at[2]])
            });
            let rows = expected.rows.tensor::<3>(device, DType::F32);
            let whole = Array::read(attention.forward(rows.clone()));
            assert_close(format!("layer {layer}"), &whole, &outputs, TOLERANCE);
            let mut cache = attention.cache();
            let parts = PARTS.map(|[start, len]| {
                let rows = rows.clone().narrow(1, start, len);
                attention.forward_cached(rows, NewRows::All, &mut cache)
            });
            let cached = Array::read(Tensor::cat(parts.to_vec(), 1));
            let what = format!("layer {layer}, cached");
            assert_close(&what, &cached, &outputs, TOLERANCE);
        }
    });
}
