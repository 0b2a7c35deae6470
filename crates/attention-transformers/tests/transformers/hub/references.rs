//! Logits equal the logits of `transformers`, at every position, all at once and by a cache.

use std::path::{Path, PathBuf};

use attention_core::{NewRows, ScoringFunction};
use attention_import::ImportError;
use attention_tests::{Array, assert_close, assert_says, device, hugging_face_logits, parameters};
use attention_transformers::hub::{
    OpenModel, load_bert, load_bloom, load_gemma, load_gemma2, load_gemma3, load_gpt2, load_llama,
    load_mistral, load_opt, load_phi3, load_qwen2, load_qwen3, load_t5_encoder, open,
};
use attention_transformers::{GenerateConfig, LanguageModel};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};

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

/// A function of the library that loads a model.
pub(super) type Load<S> = fn(PathBuf, &Device) -> Result<LanguageModel<S>, ImportError>;

/// The model at `folder` has the features of the family's own.
pub(super) fn assert_same_features(family: &str, folder: &Path) {
    let device = &device::plain()[0];
    let [found, expected] = [folder, &original(family)].map(|folder| {
        let model = open(folder, device).unwrap();
        let tokens = tensor(&[vec![3, 1, 4, 2, 5]], device);
        model.features(tokens, NewRows::All).into_data()
    });
    assert_eq!(found, expected, "{family}");
}

/// Each of `count` parameters has a gradient by the logits.
pub(super) fn assert_all_learn(model: &impl Module, logits: Tensor<3>, count: usize) {
    let gradients = logits.powi_scalar(2).sum().backward();
    let gradients = parameters::gradients(model, Some(&gradients));
    assert_eq!(gradients.len(), count);
    for (path, gradient) in gradients {
        assert!(gradient.magnitude() > 0.0, "{path} has no gradient");
    }
}

/// Compares the logits of the model at `folder` with a family's logits.
pub(super) fn check_logits<S: ScoringFunction>(family: &str, folder: &Path, load: Load<S>) {
    let expected = hugging_face_logits(family);
    device::each(|device| {
        let model = load(folder.to_owned(), device).unwrap();
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
fn check_generation<S: ScoringFunction>(family: &str, load: Load<S>) {
    device::each(|device| {
        let model = load(original(family), device).unwrap();
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
                let best = last.into_data().iter::<i64>().next();
                assert_eq!(best, Some(i64::from(token)), "{family}: after {text:?}");
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
    llama: "llama", load_llama;
    llama_in_shards: "llama_sharded", load_llama;
    mistral: "mistral", load_mistral;
    ministral: "ministral", load_mistral;
    phi3: "phi3", load_phi3;
    gemma: "gemma", load_gemma;
    qwen2: "qwen2", load_qwen2;
    qwen2_tied: "qwen2_tied", load_qwen2;
    qwen3: "qwen3", load_qwen3;
    gemma2: "gemma2", load_gemma2;
    gemma3: "gemma3", load_gemma3;
    gemma3_beside_pictures: "gemma3_pictures", load_gemma3;
    gpt2: "gpt2", load_gpt2;
    opt: "opt", load_opt;
    bloom: "bloom", load_bloom;
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
            let model = open(original(family), device).unwrap();
            let features = model.features(tokens(), rows).into_data();
            assert_eq!(features, expected.into_data(), "{family}");
        }
        let other = FolderCopy::with_field("llama", "model_type", serde_json::json!("gpt_oss"));
        let error = open(other.path(), device).unwrap_err().to_string();
        let first = r#"expected "llama" or "mistral" or "ministral" or "qwen2" or "phi3""#;
        assert_says(&error, &format!("`model_type`: {first}"));
        let last = r#"or "bart" or "mbart", got "gpt_oss""#;
        assert!(error.ends_with(last), "{error}");
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
        ("bloom", "transformer."),
    ] {
        let alone = FolderCopy::of(family);
        alone.change_tensors(|tensors| drop(tensors.remove("lm_head.weight")));
        alone.rename(|name| name.replace(prefix, ""));
        let with_classes = FolderCopy::of(family);
        with_classes.change_tensors(|tensors| {
            tensors.remove("lm_head.weight");
            let tensor = tensors.first_key_value().unwrap().1.clone();
            for name in ["score.weight", "multiple_choice_head.summary.weight"] {
                tensors.insert(name.to_string(), tensor.clone());
            }
        });
        let wrapped = FolderCopy::of(family);
        wrapped.rename(|name| format!("module.{}", name.replace("mlp.", "_orig_mod.mlp.")));
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
    assert_says(&error, "expected a tensor `lm_head.weight`");
    let model = open(original("gemma"), device).unwrap();
    assert!(matches!(model, OpenModel::Rotary(_)));
}

/// A tied model whose file has the embedding under the name of the head alone, as `safetensors.torch.save_model` writes
/// it: the same features and logits. Without a tie the embedding is missing.
#[test]
fn tied_embeddings_under_another_name() {
    let device = &device::plain()[0];
    for (family, own) in [
        ("qwen2_tied", "model.embed_tokens.weight"),
        ("gpt2", "transformer.wte.weight"),
        ("opt", "model.decoder.embed_tokens.weight"),
        ("bloom", "transformer.word_embeddings.weight"),
        ("roberta", "roberta.embeddings.word_embeddings.weight"),
    ] {
        let head = match family {
            "roberta" => "lm_head.decoder.weight",
            _ => "lm_head.weight",
        };
        let copy = FolderCopy::of(family);
        copy.rename_one(own, head);
        assert_same_features(family, copy.path());
    }
    let copy = FolderCopy::of("llama");
    copy.change_tensors(|tensors| drop(tensors.remove("model.embed_tokens.weight")));
    let error = open(copy.path(), device).unwrap_err().to_string();
    assert_says(&error, "expected a tensor `model.embed_tokens.weight`");
}

/// `transformers` ignores the windows of a Llama's config.
#[test]
fn a_window_of_a_llama_is_ignored() {
    let copy = FolderCopy::with_field("llama", "sliding_window", serde_json::json!(3));
    check_logits("llama", copy.path(), load_llama);
}

/// Two names that differ by a wrapper alone are no two tensors.
#[test]
fn a_tensor_within_a_wrapper_and_outside_is_refused() {
    let copy = FolderCopy::of("llama");
    copy.copy_tensor("model.norm.weight", "model._orig_mod.norm.weight");
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
            "llama" => check_logits(family, copy.path(), load_llama),
            "qwen2" => check_logits(family, copy.path(), load_qwen2),
            _ => check_logits(family, copy.path(), load_phi3),
        }
    }
}
