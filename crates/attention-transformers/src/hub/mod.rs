//! Open models, by the names of Hugging Face's `transformers` (version 5.24).
//!
//! A folder has `config.json`, which gives all sizes, and the parameters: `model.safetensors`, or
//! `model.safetensors.index.json` and the shards that it names, otherwise `pytorch_model.bin` or its index. A model has
//! the float type of the device, whatever type the file has.
//!
//! | family | `model_type` | function | positions | peculiarities |
//! | --- | --- | --- | --- | --- |
//! | Llama 1 to 3 | `llama` | [`load_llama`] | rotary | grouped heads |
//! | Mistral, Nemo, Ministral | `mistral`, `ministral` | [`load_mistral`] | rotary | windows |
//! | Qwen 2 and 2.5 | `qwen2` | [`load_qwen2`] | rotary | biases of queries, keys and values |
//! | Phi-3 and Phi-4 | `phi3` | [`load_phi3`] | rotary, also partial | fused queries, keys and values, and gates |
//! | Gemma 1 | `gemma` | [`load_gemma`] | rotary | a scaled embedding |
//! | Qwen 3 | `qwen3` | [`load_qwen3`] | rotary | normalized queries and keys |
//! | Gemma 2 | `gemma2` | [`load_gemma2`] | rotary | soft-caps, windows, norms on both sides of a sublayer |
//! | Gemma 3, also with pictures | `gemma3_text`, `gemma3` | [`load_gemma3`] | rotary, of two kinds | normalized queries and keys, windows |
//! | GPT-2 | `gpt2` | [`load_gpt2`] | learned | fused queries, keys and values |
//! | OPT | `opt` | [`load_opt`] | learned | positions from the third row |
//! | BLOOM | `bloom` | [`load_bloom`] | ALiBi | queries, keys and values fused by head; a norm after the embedding |
//! | BERT, ELECTRA | `bert`, `electra` | [`load_bert`] | learned | types of tokens, a norm after the embedding and each sublayer |
//! | RoBERTa, XLM-R, CamemBERT | `roberta`, `xlm-roberta`, `camembert` | [`load_bert`] | learned | positions begin after that of padding |
//! | DistilBERT | `distilbert` | [`load_bert`] | learned | no types of tokens |
//! | the preceding four without a head, such as MiniLM, BGE and E5 | the same | [`load_bert_encoder`] | learned | for features and sentence embeddings |
//! | sentence-transformers: LaBSE, GTR, MiniLM, .. | any, and `modules.json` | [`open_sentences`] | the model's | poolings, layers and normalizations after a model |
//! | T5 1.0 and 1.1, mT5 | `t5`, `mt5` | [`load_t5`], [`load_t5_encoder`] | relative bias | an encoder and a decoder, a bias that layers share |
//! | Marian (OPUS-MT), BART, mBART | `marian`, `bart`, `mbart` | [`load_bart`] | sinusoidal, learned | an encoder and a decoder, a bias of the logits |
//!
//! [`open`] takes any of them, with or without a head. The name parts `module.` and `_orig_mod.`, which distributed and
//! compiled modules insert, are ignored anywhere.
//!
//! Results equal those of `attn_implementation="eager"` in f32. Dropout follows the config, and is active on a device
//! of autodiff.
//!
//! # Angles
//!
//! `rope_scaling`, since version 5 of `transformers` `rope_parameters`, may have the `rope_type` (or `type`) `default`,
//! `linear`, `yarn` or `llama3`. Layers share tables, which grow with the texts, also beyond `max_position_embeddings`:
//! that does not limit angles. Two further kinds change the angles of all tokens once a text exceeds a length, which
//! would make cached keys wrong. So texts of `dynamic` have at most `max_position_embeddings` tokens, and texts of
//! `longrope` at most `original_max_position_embeddings`. A longer text panics, naming the kind; generation ends at
//! this length, with [`FinishReason::PositionLimit`](crate::generate::FinishReason::PositionLimit), and keeps the
//! tokens so far.
//!
//! # Errors
//!
//! Nothing is guessed. An [`ImportError`](attention_import::ImportError) names the file and one of
//!
//! - a field of `config.json` that is missing, has the wrong type, is out of range or contradicts another (sizes that
//!   do not divide), names another `model_type`, or requests something that the library does not compute: another
//!   activation or `rope_type`, quantized parameters (`quantization_config`), cross-attention, a field of another
//!   family that would change the numbers, ..
//! - a tensor that is missing, has another shape or is unreadable, or that the model has no place for, as in a file of
//!   another model or with more layers; known buffers are ignored
//! - a PEFT adapter next to the model (`adapter_config.json`), which is not read
//! - a shard that is missing, or lacks a tensor that the index places there
//!
//! # The attention of a layer
//!
//! To get one attention, load the model and take the field: `model.stack.layers[0].attention` of a language model or
//! BERT, `model.encoder.layers[0].attention` and `model.decoder.layers[0].cross_attention` of T5. The layer also has
//! the normalization before it, `attention_residual.norm`, and its `window`.
//! [`load_multi_head_attention`](attention_import::load_multi_head_attention) reads the names of `torch.nn`'s layers,
//! not these (`q_proj.weight`).
//!
//! # Example
//!
//! ```
//! use attention_core::Mask;
//! use attention_transformers::hub::{load_llama, load_qwen3};
//! use attention_transformers::GenerateConfig;
//! use burn::prelude::*;
//!
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/reference/hugging_face/llama");
//! let device = Device::flex();
//! let model = load_llama(folder, &device)?;
//! let prompt = [vec![3, 1, 4]];
//! let texts = GenerateConfig::new(5).generate(&model, model.cache(), &prompt).run();
//! assert_eq!(texts[0].tokens.len(), 5);
//! // Its first attention, alone.
//! let attention = &model.stack.layers[0].attention;
//! let [size, _] = attention.query.weight.dims();
//! let rows = Tensor::<3>::ones([1, 7, size], &device);
//! let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::causal());
//! assert_eq!(context.dims(), [1, 7, size]);
//! // It is no Qwen.
//! let error = load_qwen3(folder, &device).unwrap_err().to_string();
//! assert!(error.ends_with(r#"`model_type`: expected "qwen3", got "llama""#));
//! # Ok::<(), attention_import::ImportError>(())
//! ```

mod activation;
mod bart;
mod bert;
mod decoder;
mod encoder_families;
mod fields;
mod folder;
mod fused;
mod gemma3;
mod head;
mod layer_norm;
mod layer_types;
mod llama;
mod names;
mod open;
mod qwen3;
mod rotary;
mod sentences;
mod t5;

pub use bart::load_bart;
pub use bert::{load_bert, load_bert_encoder};
pub use gemma3::load_gemma3;
pub use layer_norm::{load_bloom, load_gpt2, load_opt};
pub use llama::{load_gemma, load_gemma2, load_llama, load_mistral, load_phi3, load_qwen2};
pub use open::{OpenModel, open};
pub use qwen3::load_qwen3;
pub use sentences::{SentenceDense, SentenceEncoder, open_sentences};
pub use t5::{load_t5, load_t5_encoder};
