//! The interface of a model for the rest of the crate.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Int, Tensor, TensorData};

use super::{Decoding, greedy_search};
use crate::data::batch::{Batch, Source};
use crate::text::vocab::Vocab;

/// The interface of a model for training, evaluation and translation. [`Seq2Seq`](crate::Seq2Seq) and
/// [`Transformer`](crate::Transformer) implement it, [`AnyModel`](crate::model::AnyModel) is either of them, and
/// [`Training`](crate::Training) trains and checkpoints a model of your own just as well.
pub trait Seq2SeqModel: Module + ModuleDisplay {
    /// The loss of teacher forcing: each target token is predicted from the tokens before it. `label_smoothing` is the
    /// part of each target that is spread over all tokens.
    fn loss(&self, batch: &Batch, label_smoothing: f64) -> LossOutput;

    /// Greedy search: the most likely token of each step is the input of the next, until every example has ended or has
    /// `max_len` tokens.
    ///
    /// A step chooses among the tokens of the data and the end; padding, begin and the unknown token are never chosen.
    /// If no token is the most likely, because all logits are equal or NaN, the example ends. The search runs without
    /// autodiff: in training, call it on `valid()`.
    ///
    /// # Panics
    /// If the target vocabulary is smaller than [`Vocab::SPECIAL_TOKENS`](crate::Vocab::SPECIAL_TOKENS).
    fn greedy(&self, source: &Source, max_len: usize, with_weights: bool) -> Translation {
        let mut outputs = greedy_search(&mut *self.decoding(source, max_len, false), max_len);
        if with_weights {
            outputs.weights = self.weights_of(source, &outputs.tokens, &outputs.ended);
        }
        outputs
    }

    /// The attention weights of each step of given outputs, `[batch, keys]`, which are decoded once more: the steps of
    /// the longest output, including its end token if `ended`. Empty for a model whose decoding has no weights.
    fn weights_of(&self, source: &Source, tokens: &[Vec<u32>], ended: &[bool]) -> Vec<Tensor<2>> {
        let lens = tokens.iter().zip(ended);
        let steps = lens.map(|(tokens, ended)| tokens.len() + usize::from(*ended));
        let steps = steps.max().unwrap_or(0);
        let mut decoding = self.decoding(source, steps, true);
        let device = source.tokens().device();
        let weights = (0..steps).map_while(|step| {
            // After its end, a row continues with tokens that do not matter.
            let token = |tokens: &Vec<u32>| tokens.get(step - 1).copied().unwrap_or(Vocab::EOS);
            let before = tokens.iter().filter(|_| step > 0);
            let previous: Vec<u32> = before.map(token).collect();
            let rows = decoding.step(&previous).weights?;
            let width = rows.iter().map(Vec::len).max().unwrap_or(0);
            let shape = [rows.len(), width];
            let padded = rows.into_iter().flat_map(|mut row| {
                row.resize(width, 0.0);
                row
            });
            let elements = TensorData::new(padded.collect::<Vec<f32>>(), shape);
            Some(Tensor::from_data(elements, &device))
        });
        weights.collect()
    }

    /// The steps of decoding, for a search such as
    /// [`BeamSearchConfig::search`](crate::model::BeamSearchConfig::search): one row per source, at most `max_len`
    /// steps. Each step comes with its attention weights, if requested and available.
    fn decoding<'a>(
        &'a self,
        source: &Source,
        max_len: usize,
        with_weights: bool,
    ) -> Box<dyn Decoding + 'a>;
}

/// The output of [`Seq2SeqModel::loss`].
#[derive(Clone, Debug)]
pub struct LossOutput {
    /// The mean cross-entropy over target tokens, plus the attention's penalty per token, `[1]`.
    pub loss: Tensor<1>,
    /// The most likely token at each place of the target, `[batch, target tokens]`.
    pub predictions: Tensor<2, Int>,
}

/// The output of [`Seq2SeqModel::greedy`], for a batch.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The target tokens of each example, without the end token: only tokens of the data, no special ones.
    pub tokens: Vec<Vec<u32>>,
    /// Whether each example has ended. Otherwise it was cut off at the limit of tokens.
    pub ended: Vec<bool>,
    /// The attention weights of each step, `[batch, keys]`; empty if not requested. The keys are the source tokens, in
    /// a [`Transformer`](crate::Transformer) including the end token.
    pub weights: Vec<Tensor<2>>,
}
