//! A model of either kind.

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::{Device, Tensor};

use super::{AttentionHead, Decoding, LossOutput, ModelKind, Seq2Seq, Seq2SeqModel, Transformer};
use crate::attention::{AnyAttention, AnyScore};
use crate::data::batch::{Batch, Source};
use crate::error::{Error, Result};
use crate::variants::{module_of_variants, of_either};

/// Either of the models that [`ModelKind`] names. Its parameters have the names of the model inside.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a program has one")]
pub enum AnyModel {
    /// A recurrent model.
    Rnn(Seq2Seq<AnyAttention>),
    /// A Transformer.
    Transformer(Transformer<AnyScore>),
}

module_of_variants!(AnyModel { Rnn, Transformer });

impl AnyModel {
    /// The kind of this model.
    pub fn kind(&self) -> ModelKind {
        match self {
            Self::Rnn(_) => ModelKind::Rnn,
            Self::Transformer(_) => ModelKind::Transformer,
        }
    }

    /// The weights of one head at each step of a given output for one source, `[steps, keys]` row by row; `ended` tells
    /// whether the end token is one of the steps.
    pub(crate) fn weights_of_head(
        &self,
        source: &Source,
        tokens: &[u32],
        ended: bool,
        head: AttentionHead,
    ) -> Result<Vec<f32>> {
        self.check_head(head)?;
        let (tokens, ended) = ([tokens.to_vec()], [ended]);
        Ok(elements(match self {
            Self::Rnn(model) => model.weights_of(source, &tokens, &ended),
            Self::Transformer(model) => model.weights_of_head(source, &tokens, &ended, head),
        }))
    }

    /// The weights of all heads at each step of a given output for one source, `[layers, heads, steps, keys]`.
    pub(crate) fn weights_of_heads(
        &self,
        source: &Source,
        tokens: &[u32],
        ended: bool,
    ) -> Result<Vec<f32>> {
        match self {
            Self::Rnn(_) => self.weights_of_head(source, tokens, ended, AttentionHead::default()),
            Self::Transformer(model) => {
                let tokens = [tokens.to_vec()];
                Ok(elements(model.weights_of_layers(source, &tokens, &[ended])))
            }
        }
    }

    fn check_head(&self, head: AttentionHead) -> Result<()> {
        match self {
            Self::Rnn(_) if head != AttentionHead::default() => {
                let what = "the layer and the head to look at";
                let expected = "a run of --model transformer";
                Err(Error::config(what, expected, "one of --model rnn"))
            }
            Self::Rnn(_) => Ok(()),
            Self::Transformer(model) => model.check_head(head),
        }
    }

    /// Whether the end of a source is one of the keys.
    pub(crate) fn attends_to_end(&self) -> bool {
        matches!(self, Self::Transformer(_))
    }

    /// The number of layers that attend to the source, and the number of heads of each. A recurrent model has one
    /// attention.
    pub(crate) fn heads(&self) -> [usize; 2] {
        match self {
            Self::Rnn(_) => [1, 1],
            Self::Transformer(model) => model.heads(),
        }
    }

    pub(crate) fn all_heads(&self) -> usize {
        self.heads().into_iter().product()
    }

    /// The memory of a step of [`weights_of_head`](Self::weights_of_head), in bytes.
    pub(crate) fn bytes_of_weights(&self, keys: usize) -> f64 {
        // The tensor of each step, its elements, and their copy.
        512.0 + 8.0 * self.all_heads() as f64 * keys as f64
    }
}

/// The elements of weights, one tensor after the other.
fn elements<const D: usize>(weights: Vec<Tensor<D>>) -> Vec<f32> {
    let weights = weights.into_iter().map(|it| it.try_into_vec_as::<f32>());
    let elements = weights.flat_map(|it| it.expect("weights are floats"));
    elements.collect()
}

impl Seq2SeqModel for AnyModel {
    fn loss(&self, batch: &Batch, label_smoothing: f64) -> LossOutput {
        of_either!(self, model => model.loss(batch, label_smoothing))
    }

    fn weights_of(&self, source: &Source, tokens: &[Vec<u32>], ended: &[bool]) -> Vec<Tensor<2>> {
        of_either!(self, model => model.weights_of(source, tokens, ended))
    }

    fn decoding<'a>(
        &'a self,
        source: &Source,
        max_len: usize,
        with_weights: bool,
    ) -> Box<dyn Decoding + 'a> {
        of_either!(self, model => model.decoding(source, max_len, with_weights))
    }
}
