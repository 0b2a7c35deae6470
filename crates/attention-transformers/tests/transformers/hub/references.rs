//! Logits are those of `transformers`, at every position, all at once and by a cache.

use std::path::Path;

use attention_core::import::ImportError;
use attention_core::{NewRows, ScoringFunction};
use attention_tests::{Array, assert_close, device, hugging_face_attention, hugging_face_logits};
use attention_transformers::hub::{
    load_bert, load_bloom, load_gemma2, load_gemma3, load_gpt_oss_attention, load_gpt2, load_llama,
    load_mistral, load_qwen2, load_qwen3, open,
};
use attention_transformers::{GenerateConfig, LanguageModel};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::folder::original;

/// Angles are f32 there, and of f64 here.
const TOLERANCE: f64 = 1e-5;

/// The parts in which texts come to a cache.
const PARTS: [[usize; 2]; 4] = [[0, 4], [4, 1], [5, 1], [6, 5]];

pub(super) fn tensor(texts: &[Vec<u32>], device: &Device) -> Tensor<2, Int> {
    let tokens: Vec<i64> = texts.concat().into_iter().map(i64::from).collect();
    let data = TensorData::new(tokens, [texts.len(), texts[0].len()]);
    Tensor::from_data(data, device)
}

/// Compares the logits of the model at `folder` with those of a family.
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

/// Greedy tokens are those of the highest logits of whole texts.
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
    qwen2: "qwen2", |folder, device| load_qwen2(folder, device);
    qwen2_tied: "qwen2_tied", |folder, device| load_qwen2(folder, device);
    qwen3: "qwen3", |folder, device| load_qwen3(folder, device);
    gemma2: "gemma2", |folder, device| load_gemma2(folder, device);
    gemma3: "gemma3", |folder, device| load_gemma3(folder, device);
    gpt2: "gpt2", |folder, device| load_gpt2(folder, device);
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
            features!(load_qwen2, "qwen2"),
            features!(load_qwen3, "qwen3"),
            features!(load_gemma2, "gemma2"),
            features!(load_gemma3, "gemma3"),
            features!(load_gpt2, "gpt2"),
            features!(load_bloom, "bloom"),
            features!(load_bert, "bert", None),
        ];
        for (family, expected) in by_name {
            let features = open(original(family), device)
                .unwrap()
                .features(tokens(), rows);
            assert_eq!(features.into_data(), expected.into_data(), "{family}");
        }
        let error = open(original("t5"), device).unwrap_err().to_string();
        let families = r#"`model_type`: expected "llama" or "mistral" or "qwen2""#;
        assert!(
            error.contains(families) && error.ends_with(r#"got "t5""#),
            "{error}"
        );
    });
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
