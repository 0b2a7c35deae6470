//! A model by its folder alone.

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

/// A model that [`open`] has loaded, by its kind of positions. A decoder whose file has no head, since it was saved
/// alone or for classes, is a [`TextEncoder`]. For texts that come one by one, [`TextEncoder::pack`] packs its weights
/// once.
#[derive(Module, Debug)]
pub enum OpenModel {
    /// Llama, Mistral, Qwen 2, Phi-3, Gemma and Gemma 2.
    Rotary(LanguageModel<Rotary<DotProductScore>>),
    /// The same without a head.
    RotaryEncoder(TextEncoder<Rotary<DotProductScore>>),
    /// Qwen 3 and Gemma 3, whose queries and keys are normalized.
    NormalizedRotary(LanguageModel<Rotary<QkNormScore>>),
    /// The same without a head.
    NormalizedRotaryEncoder(TextEncoder<Rotary<QkNormScore>>),
    /// BLOOM.
    Alibi(LanguageModel<Biased<DotProductScore, Alibi>>),
    /// The same without a head.
    AlibiEncoder(TextEncoder<Biased<DotProductScore, Alibi>>),
    /// GPT-2 and OPT.
    Learned(LanguageModel<DotProductScore>),
    /// BERT and its kin, and the encoder of T5 or BART, without a head; GPT-2 and OPT without a head.
    Encoder(TextEncoder<DotProductScore>),
}

/// An expression for whichever model an [`OpenModel`] is, with a head or alone.
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
    /// If there is no such token, a text is longer than the model has positions, or `rows` do not fit.
    pub fn features(&self, tokens: Tensor<2, Int>, rows: NewRows) -> Tensor<3> {
        on_each!(self,
            with_head => with_head.features(tokens, rows),
            alone => alone.features(tokens, None, rows)
        )
    }

    /// One vector of length 1 for each text, as [`TextEncoder::embeddings`].
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, num_hiddens]`
    ///
    /// # Panics
    /// As [`features`](Self::features), or if a text has no token.
    pub fn embeddings(&self, tokens: Tensor<2, Int>, rows: NewRows, pooling: Pooling) -> Tensor<2> {
        pooled(self.features(tokens, rows), rows, pooling)
    }

    /// The number of positions of a text, if it is limited.
    pub fn position_limit(&self) -> Option<PositionLimit> {
        self.embedding().position_limit()
    }

    /// The embedding of tokens.
    pub(super) fn embedding(&self) -> &TokenEmbedding {
        on_each!(self, with_head => &with_head.embedding, alone => &alone.embedding)
    }
}

/// The kinds of a decoder with its head and without one, by its score.
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

/// The families, by their `model_type`s.
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

/// Loads the model of a folder of Hugging Face's, whichever of the [families](super) it is, with its head or without
/// one: heads for classes, choices, spans of answers or values are left alone. T5 and BART, which read one text and
/// write another, are the encoder alone; the whole is [`load_t5`](super::load_t5) or [`load_bart`](super::load_bart).
///
/// # Errors
/// As [`hub`](super) says. For another `model_type` all that there are are named. A folder of sentence-transformers
/// whose vectors are more than features, pooled and normalized, is refused:
/// [`open_sentences`](super::open_sentences) opens it.
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

/// [`open`], whatever `modules.json` says.
pub(super) fn open_alone(folder: &Path, device: &Device) -> Result<OpenModel, ImportError> {
    let config = folder.join(CONFIG);
    let load = Fields::read(&config).and_then(|fields| {
        let got = fields.text("model_type")?;
        let family = families()
            .into_iter()
            .find(|(names, _)| names.contains(&got));
        family.map(|(_, load)| load).ok_or_else(|| {
            let names = families().map(|(names, _)| names).concat();
            fields.unknown("model_type", &names, got)
        })
    });
    load.map_err(ImportError::of(&config))?(folder, device)
}
