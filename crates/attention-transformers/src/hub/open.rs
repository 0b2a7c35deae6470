//! A model from its folder alone.

use std::path::Path;

use attention_core::position::{Alibi, Rotary};
use attention_core::score::{Biased, QkNormScore};
use attention_core::{DotProductScore, NewRows};
use attention_import::ImportError;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use super::bart::load_bart_encoder;
use super::fields::Fields;
use super::folder::CONFIG;
use super::head::Decoder;
use super::layer_norm::{BLOOM, GPT2, OPT};
use super::sentences::refuse_dense;
use super::{bart, bert, encoder_families, gemma3, layer_norm, llama, qwen3, t5};
use crate::embedding::TokenEmbedding;
use crate::language_model::LanguageModel;
use crate::position_embedding::PositionLimit;
use crate::text_encoder::{Pooling, TextEncoder, pooled};

/// A model loaded by [`open`], by its kind of positions. A decoder whose file has no head, because it was saved alone
/// or with a head for classes, is a [`TextEncoder`]. For single texts, [`TextEncoder::pack`] packs the weights once.
#[derive(Module, Debug)]
pub enum OpenModel {
    /// Llama, Mistral, Qwen 2, Phi-3, Gemma and Gemma 2.
    Rotary(LanguageModel<Rotary<DotProductScore>>),
    /// These without a head.
    RotaryEncoder(TextEncoder<Rotary<DotProductScore>>),
    /// Qwen 3 and Gemma 3, whose queries and keys are normalized.
    NormalizedRotary(LanguageModel<Rotary<QkNormScore>>),
    /// These without a head.
    NormalizedRotaryEncoder(TextEncoder<Rotary<QkNormScore>>),
    /// BLOOM.
    Alibi(LanguageModel<Biased<DotProductScore, Alibi>>),
    /// BLOOM without a head.
    AlibiEncoder(TextEncoder<Biased<DotProductScore, Alibi>>),
    /// GPT-2 and OPT.
    Learned(LanguageModel<DotProductScore>),
    /// BERT and its relatives, and the encoder of T5 or BART, without a head; GPT-2 and OPT without a head.
    Encoder(TextEncoder<DotProductScore>),
}

/// An expression evaluated for any variant of [`OpenModel`], with or without a head.
macro_rules! on_each {
    ($self:expr, $with_head:ident => $of_head:expr, $alone:ident => $of_alone:expr) => {
        match $self {
            Self::Rotary($with_head) => $of_head,
            Self::RotaryEncoder($alone) => $of_alone,
            Self::NormalizedRotary($with_head) => $of_head,
            Self::NormalizedRotaryEncoder($alone) => $of_alone,
            Self::Alibi($with_head) => $of_head,
            Self::AlibiEncoder($alone) => $of_alone,
            Self::Learned($with_head) => $of_head,
            Self::Encoder($alone) => $of_alone,
        }
    };
}

impl OpenModel {
    /// The features of each token of a text, after the last normalization and before a head.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, rows, num_hiddens]`, zeros in padding
    ///
    /// # Panics
    /// If a token does not exist, a text is longer than the model's positions, or `rows` do not fit.
    pub fn features(&self, tokens: Tensor<2, Int>, rows: NewRows) -> Tensor<3> {
        on_each!(self,
            with_head => with_head.features(tokens, rows),
            alone => alone.features(tokens, None, rows)
        )
    }

    /// A vector of length 1 for each text, as in [`TextEncoder::embeddings`].
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, num_hiddens]`
    ///
    /// # Panics
    /// As [`features`](Self::features), or if a text has no tokens.
    pub fn embeddings(&self, tokens: Tensor<2, Int>, rows: NewRows, pooling: Pooling) -> Tensor<2> {
        pooled(self.features(tokens, rows), rows, pooling)
    }

    /// The number of positions of a text, if limited.
    pub fn position_limit(&self) -> Option<PositionLimit> {
        self.embedding().position_limit()
    }

    /// The embedding of tokens.
    pub(super) fn embedding(&self) -> &TokenEmbedding {
        on_each!(self, with_head => &with_head.embedding, alone => &alone.embedding)
    }
}

/// The kinds of a decoder with and without its head, by its score.
macro_rules! kinds {
    ($($score:ty: $with_head:ident, $alone:ident;)*) => {$(
        impl From<Decoder<$score>> for OpenModel {
            fn from(model: Decoder<$score>) -> Self {
                match model {
                    Decoder::WithHead(model) => Self::$with_head(model),
                    Decoder::Alone(model) => Self::$alone(model),
                }
            }
        }
    )*};
}

kinds! {
    Rotary<DotProductScore>: Rotary, RotaryEncoder;
    Rotary<QkNormScore>: NormalizedRotary, NormalizedRotaryEncoder;
    Biased<DotProductScore, Alibi>: Alibi, AlibiEncoder;
    DotProductScore: Learned, Encoder;
}

type Load = fn(&Path, &Device) -> Result<OpenModel, ImportError>;

macro_rules! families {
    ($($model_types:expr => $load:expr, $kind:expr;)*) => {
        [$(($model_types.to_vec(), |folder, device| $load(folder, device).map($kind))),*]
    };
}

/// The families, with their `model_type`s.
fn families() -> [(Vec<&'static str>, Load); 9] {
    families! {
        llama::model_types() => |folder, device| llama::load_with(folder, device, &llama::model_types()), Decoder::into;
        ["qwen3"] => qwen3::load_with, Decoder::into;
        ["gemma3_text", "gemma3"] => gemma3::load_with, Decoder::into;
        ["bloom"] => |folder, device| layer_norm::load_with(folder, device, &BLOOM), Decoder::into;
        ["gpt2"] => |folder, device| layer_norm::load_with(folder, device, &GPT2), Decoder::into;
        ["opt"] => |folder, device| layer_norm::load_with(folder, device, &OPT), Decoder::into;
        encoder_families::model_types() => bert::load_encoder, OpenModel::Encoder;
        t5::MODEL_TYPES => t5::load_encoder, OpenModel::Encoder;
        bart::MODEL_TYPES => load_bart_encoder, OpenModel::Encoder;
    }
}

/// Loads the model in a Hugging Face folder, of any of the [families](super), with or without its head; heads for
/// classes, choices, spans of answers or values are ignored. For T5 and BART, which read one text and write another, it
/// loads only the encoder; for the whole model use [`load_t5`](super::load_t5) or [`load_bart`](super::load_bart).
///
/// # Errors
/// As [`hub`](super) describes. For an unknown `model_type` the error names all known ones. A sentence-transformers
/// folder whose vectors are more than features, pooled and normalized, is refused: open it by
/// [`open_sentences`](super::open_sentences).
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
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<OpenModel, ImportError> {
    refuse_dense(folder.as_ref())?;
    open_alone(folder.as_ref(), device)
}

/// [`open`], regardless of `modules.json`.
pub(super) fn open_alone(folder: &Path, device: &Device) -> Result<OpenModel, ImportError> {
    let config = folder.join(CONFIG);
    let load = Fields::read(&config).and_then(|fields| {
        let got = fields.text("model_type")?;
        let mut all = families().into_iter();
        let family = all.find(|(names, _)| names.contains(&got));
        family.map(|(_, load)| load).ok_or_else(|| {
            let names = families().map(|(names, _)| names).concat();
            fields.unknown("model_type", &names, got)
        })
    });
    load.map_err(ImportError::of(&config))?(folder, device)
}
