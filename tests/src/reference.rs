//! PyTorch's results: `tests/reference`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use burn::tensor::DType;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Array, MaskSpec, Problem};

/// One case of a reference file.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// The name of the case.
    pub name: String,
    /// The beginning of the names of its parameters in a file.
    #[serde(default)]
    pub prefix: String,
    /// The keys that queries attend to.
    pub mask: MaskSpec,
    /// The factor on dot products, where it is not the default.
    pub scale: Option<f64>,
    /// Inputs, and the gradients that outputs receive.
    pub inputs: BTreeMap<String, Array>,
    /// Outputs.
    pub outputs: BTreeMap<String, Array>,
    /// Gradients of the inputs.
    pub gradients: BTreeMap<String, Array>,
}

/// One case of `gru.json` or `lstm.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct RecurrentCase {
    /// The name of the case.
    pub name: String,
    /// Whether the layers read in both directions.
    pub bidirectional: bool,
    /// The number of steps of each example; all if absent.
    pub lengths: Option<Vec<usize>>,
    /// The number of layers.
    pub layers: usize,
    /// Input, parameters and initial states, and the gradients that outputs receive.
    pub inputs: BTreeMap<String, Array>,
    /// Outputs.
    pub outputs: BTreeMap<String, Array>,
    /// Gradients of the inputs.
    pub gradients: BTreeMap<String, Array>,
}

/// One case of `transformer_encoder.json`, `transformer_decoder.json` or `transformer_feed_forward.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct TransformerCase {
    /// The name of the case, which begins with `layer` or `stack`.
    pub name: String,
    /// `pre`, `post` or `sandwich`.
    pub order: String,
    /// The activation of the feed-forward network.
    pub activation: String,
    /// Whether rows attend to those up to themselves alone.
    pub causal: bool,
    /// The number of rows of each example that are no padding; all if absent.
    pub lens: Option<Vec<i64>>,
    /// The same of the memory.
    pub memory_lens: Option<Vec<i64>>,
    /// Rows, memory and parameters, and the gradient that the output receives.
    pub inputs: BTreeMap<String, Array>,
    /// Outputs.
    pub outputs: BTreeMap<String, Array>,
    /// Gradients of the inputs.
    pub gradients: BTreeMap<String, Array>,
}

/// One case of `onnx_gru.json` or `onnx_lstm.json`, with the names, orders and axes of ONNX: of its own suite, by its
/// name there (`test_..`), or made for these tests.
#[derive(Clone, Debug, Deserialize)]
pub struct OnnxCase {
    /// The name of the case.
    pub name: String,
    /// `forward`, `reverse` or `bidirectional`.
    pub direction: String,
    /// 0 with steps before examples, 1 with examples first.
    pub layout: usize,
    /// 1 if a GRU resets after the product, 0 if before; 0 of an LSTM.
    pub linear_before_reset: usize,
    /// Input, parameters, initial states and lengths.
    pub inputs: BTreeMap<String, Array>,
    /// Outputs after each step and the last states, as far as the case has them.
    pub outputs: BTreeMap<String, Array>,
}

/// The texts of a language model, and the logits of the token that follows each.
#[derive(Clone, Debug, Deserialize)]
pub struct HuggingFaceLogits {
    /// The texts, `[batch][rows]`.
    pub tokens: Vec<Vec<u32>>,
    /// The logits, `[batch, rows, vocab_size]`.
    pub logits: Array,
}

/// The padded texts of a masked language model, and the logits at each of their tokens.
#[derive(Clone, Debug, Deserialize)]
pub struct HuggingFaceMasked {
    /// The texts, `[batch][rows]`.
    pub tokens: Vec<Vec<u32>>,
    /// The types of their tokens.
    pub types: Vec<Vec<u32>>,
    /// The number of tokens of each that are no padding.
    pub lens: Vec<usize>,
    /// The logits, `[batch, rows, vocab_size]`, or without a head the features; at padding they mean nothing.
    pub logits: Array,
    /// The mean of the features of each text, of length 1, of a model without a head.
    pub means: Option<Array>,
}

/// The padded texts that an encoder-decoder model reads, and what it makes of them.
#[derive(Clone, Debug, Deserialize)]
pub struct HuggingFaceTranslation {
    /// The texts that are read, `[batch][rows]`.
    pub tokens: Vec<Vec<u32>>,
    /// The number of tokens of each that are no padding.
    pub lens: Vec<usize>,
    /// The texts that are made, `[batch][rows]`.
    pub targets: Vec<Vec<u32>>,
    /// The logits of the token that follows each of these, `[batch, rows, vocab_size]`.
    pub logits: Array,
    /// The rows after the encoder, `[batch, rows, num_hiddens]`; those of padding mean nothing.
    pub encoded: Array,
    /// The most likely tokens after a 0.
    pub generated: Vec<Vec<u32>>,
    /// The results of beam searches after a 0, by their settings.
    #[serde(default)]
    pub beams: Vec<HuggingFaceBeams>,
}

/// The best text of a beam search, which never has the token of padding.
#[derive(Clone, Debug, Deserialize)]
pub struct HuggingFaceBeams {
    /// The number of beams.
    pub num_beams: usize,
    /// The number of tokens after which a text ends.
    pub max_new_tokens: usize,
    /// The token with which a text ends.
    pub end: u32,
    /// The token of padding.
    pub pad: u32,
    /// The exponent of the number of tokens in the score of a text.
    pub length_penalty: f64,
    /// Whether the search ends as soon as there are as many texts as beams.
    pub early_stopping: bool,
    /// Whether a text that is cut off ends with the end token.
    pub forces_end: bool,
    /// Whether probabilities are over the tokens without padding.
    pub renormalizes: bool,
    pub repetition_penalty: f64,
    pub no_repeat_ngram_size: usize,
    /// The smallest number of tokens before the end.
    pub min_new_tokens: usize,
    /// The tokens of each text, the end included.
    pub texts: Vec<Vec<u32>>,
}

/// The vectors that a model of sentence-transformers makes.
#[derive(Clone, Debug, Deserialize)]
pub struct HuggingFaceSentences {
    /// The tokens of each text, those that the tokenizer adds included.
    pub tokens: Vec<Vec<u32>>,
    /// The vector of each text, `[batch, size]`.
    pub vectors: Array,
    /// The vectors by each pooling alone, `[batch, num_hiddens]`.
    pub poolings: BTreeMap<String, Array>,
}

/// The cases of `tests/reference/<name>.json`, all finite.
///
/// # Panics
/// If the file is missing, malformed or empty, or holds an element that is not finite.
pub fn reference(name: &str) -> Vec<Case> {
    let cases: Vec<Case> = cases(name);
    for case in &cases {
        let results = case.outputs.iter().chain(&case.gradients);
        for (tensor, array) in case.inputs.iter().chain(results) {
            let finite = array.data.iter().all(|number| number.is_finite());
            assert!(finite, "{name}: {}: {tensor} is not finite", case.name);
            let len: usize = array.shape.iter().product();
            assert_eq!(array.data.len(), len, "{name}: {tensor}");
        }
    }
    cases
}

/// The cases of `tests/reference/gru.json` or `lstm.json`.
///
/// # Panics
/// If the file is missing, malformed or empty.
pub fn recurrent_reference(name: &str) -> Vec<RecurrentCase> {
    cases(name)
}

/// The cases of `tests/reference/transformer_encoder.json` or another of [`TransformerCase`].
///
/// # Panics
/// If the file is missing, malformed or empty.
pub fn transformer_reference(name: &str) -> Vec<TransformerCase> {
    cases(name)
}

/// The cases of `tests/reference/onnx_gru.json` or `onnx_lstm.json`.
///
/// # Panics
/// If the file is missing, malformed or empty.
pub fn onnx_reference(name: &str) -> Vec<OnnxCase> {
    cases(name)
}

/// The results of `tests/reference/hugging_face/<family>`.
///
/// # Panics
/// If the file is missing or malformed.
pub fn hugging_face_logits(family: &str) -> HuggingFaceLogits {
    read(&format!("hugging_face/{family}/expected"))
}

/// The results of `tests/reference/hugging_face/<family>`, a masked language model.
///
/// # Panics
/// If the file is missing or malformed.
pub fn hugging_face_masked(family: &str) -> HuggingFaceMasked {
    read(&format!("hugging_face/{family}/expected"))
}

/// The results of `tests/reference/hugging_face/<family>`, an encoder-decoder model.
///
/// # Panics
/// If the file is missing or malformed.
pub fn hugging_face_translation(family: &str) -> HuggingFaceTranslation {
    read(&format!("hugging_face/{family}/expected"))
}

/// The results of `tests/reference/hugging_face/<family>`, a model of sentence-transformers.
///
/// # Panics
/// If the file is missing or malformed.
pub fn hugging_face_sentences(family: &str) -> HuggingFaceSentences {
    read(&format!("hugging_face/{family}/expected"))
}

fn cases<C: DeserializeOwned>(name: &str) -> Vec<C> {
    #[derive(Deserialize)]
    struct File<C> {
        cases: Vec<C>,
    }
    let file: File<C> = read(name);
    assert!(!file.cases.is_empty(), "{name}: no cases");
    file.cases
}

pub(crate) fn read<F: DeserializeOwned>(name: &str) -> F {
    let path = reference_path(&format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("cannot parse {}: {error}", path.display()))
}

/// How near a result of type `dtype` must come to a reference, whose file has ten digits: `single` in f32.
pub fn near_reference(dtype: DType, single: f64) -> f64 {
    match dtype {
        DType::F64 => 1e-8,
        _ => single,
    }
}

/// The path of a file in `tests/reference`.
pub fn reference_path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "reference", name]
        .iter()
        .collect()
}

impl Case {
    /// The case as a problem of the library, and the results that it must have.
    pub fn problem(&self) -> (Problem, BTreeMap<String, Array>) {
        let mut inputs = BTreeMap::new();
        let mut expected = self.outputs.clone();
        expected.remove("scores");
        for (name, array) in &self.inputs {
            if !name.starts_with("grad_") {
                inputs.insert(ours(name).to_string(), burn_layout(name, array));
            }
        }
        for (name, array) in &self.gradients {
            expected.insert(format!("grad {}", ours(name)), burn_layout(name, array));
        }
        let problem = Problem {
            inputs,
            scale: self.scale,
            mask: self.mask.clone(),
            grad_context: self.inputs.get("grad_context").cloned(),
            grad_weights: self.inputs.get("grad_weights").cloned(),
        };
        (problem, expected)
    }
}

fn ours(name: &str) -> &str {
    name.trim_end_matches(".weight")
}

/// PyTorch keeps the weight of a linear layer as `[out, in]`, Burn as `[in, out]`.
fn burn_layout(name: &str, array: &Array) -> Array {
    match name.ends_with(".weight") {
        true => array.permute(&[1, 0]),
        false => array.clone(),
    }
}
