//! A model by its folder alone.

use std::path::Path;

use attention_core::import::ImportError;
use attention_core::position::{Alibi, Biased, Rotary};
use attention_core::score::QkNormScore;
use attention_core::{DotProductScore, NewRows};
use burn::tensor::{Device, Int, Tensor};

use super::bert::load_bert_encoder;
use super::bloom::load_bloom;
use super::fields::Fields;
use super::folder::CONFIG;
use super::gemma2::load_gemma2;
use super::gemma3::load_gemma3;
use super::gpt2::load_gpt2;
use super::llama::{load_llama, load_mistral, load_qwen2};
use super::qwen3::load_qwen3;
use crate::language_model::LanguageModel;
use crate::text_encoder::TextEncoder;

/// A model that [`open`] has loaded, by its kind of positions.
#[derive(Debug)]
pub enum OpenModel {
    /// Llama, Mistral, Qwen 2 and Gemma 2.
    Rotary(LanguageModel<Rotary<DotProductScore>>),
    /// Qwen 3 and Gemma 3, whose queries and keys are normalized.
    NormalizedRotary(LanguageModel<Rotary<QkNormScore>>),
    /// BLOOM.
    Alibi(LanguageModel<Biased<DotProductScore, Alibi>>),
    /// GPT-2.
    Learned(LanguageModel<DotProductScore>),
    /// BERT, without its head.
    Encoder(TextEncoder<DotProductScore>),
}

impl OpenModel {
    /// What a text says at each of its tokens, after the last normalization and before a head.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, num_hiddens]`; what stands in padding means nothing
    ///
    /// # Panics
    /// If there is no such token, a text is longer than the model has positions, or `rows` do not fit.
    pub fn features(&self, tokens: Tensor<2, Int>, rows: NewRows) -> Tensor<3> {
        match self {
            Self::Rotary(model) => model.features(tokens, rows),
            Self::NormalizedRotary(model) => model.features(tokens, rows),
            Self::Alibi(model) => model.features(tokens, rows),
            Self::Learned(model) => model.features(tokens, rows),
            Self::Encoder(model) => model.features(tokens, None, rows),
        }
    }
}

type Load = fn(&Path, &Device) -> Result<OpenModel, ImportError>;

/// The families, by their `model_type`.
const FAMILIES: [(&str, Load); 9] = [
    ("llama", |folder, device| {
        load_llama(folder, device).map(OpenModel::Rotary)
    }),
    ("mistral", |folder, device| {
        load_mistral(folder, device).map(OpenModel::Rotary)
    }),
    ("qwen2", |folder, device| {
        load_qwen2(folder, device).map(OpenModel::Rotary)
    }),
    ("gemma2", |folder, device| {
        load_gemma2(folder, device).map(OpenModel::Rotary)
    }),
    ("qwen3", |folder, device| {
        load_qwen3(folder, device).map(OpenModel::NormalizedRotary)
    }),
    ("gemma3_text", |folder, device| {
        load_gemma3(folder, device).map(OpenModel::NormalizedRotary)
    }),
    ("bloom", |folder, device| {
        load_bloom(folder, device).map(OpenModel::Alibi)
    }),
    ("gpt2", |folder, device| {
        load_gpt2(folder, device).map(OpenModel::Learned)
    }),
    ("bert", |folder, device| {
        load_bert_encoder(folder, device).map(OpenModel::Encoder)
    }),
];

/// Loads the model of a folder of Hugging Face's, whichever of the [families](super) that are models of one text it is
/// (T5 reads one text and writes another: [`load_t5`](super::load_t5)).
///
/// # Errors
/// As [`hub`](super) says. For another `model_type` all that there are are named.
///
/// ```
/// use attention_core::NewRows;
/// use attention_transformers::hub;
/// use burn::prelude::*;
///
/// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/reference/hugging_face/qwen2");
/// let device = Device::flex();
/// let model = hub::open(folder, &device)?;
/// let features = model.features(Tensor::from_ints([[3, 1, 4]], &device), NewRows::All);
/// assert_eq!(features.dims(), [1, 3, 24]);
/// # Ok::<(), attention_core::import::ImportError>(())
/// ```
pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<OpenModel, ImportError> {
    let folder = folder.as_ref();
    let config = folder.join(CONFIG);
    let load = Fields::read(&config).and_then(|fields| {
        let got = fields.text("model_type")?;
        let family = FAMILIES.iter().find(|(name, _)| *name == got);
        family.map(|(_, load)| load).ok_or_else(|| {
            let names = FAMILIES.map(|(name, _)| name);
            fields.unknown("model_type", &names, got)
        })
    });
    load.map_err(ImportError::of(&config))?(folder, device)
}
