//! The Transformer, generic over the score of its decoder's attention to the source.

mod config;
mod decoding;
mod positions;

pub use config::TransformerConfig;

use attention_core::position::Positions;
use attention_core::{DotProductScore, Mask, NewRows, ScoringFunction};
use attention_transformers::{
    DecoderMemory, TokenEmbedding, TransformerDecoder, TransformerEncoder,
};
use burn::module::Module;
use burn::nn::{Dropout, Linear};
use burn::tensor::{Int, Tensor};
use burn_fused_layers::{dropout, linear, linear_cross_entropy};
use serde::Serialize;

use super::greedy::greedy_search;
use super::loss::class_targets;
use super::{Decoding, LossOutput, Seq2SeqModel, Translation};
use crate::data::batch::{Batch, Source, decoder_inputs};
use crate::error::{Error, Result};
use decoding::{StepState, TransformerDecoding};
use positions::sinusoids;

/// A Transformer: an encoder and a decoder of self-attention. The decoder also attends to the source, by a score
/// of its own.
///
/// Positions are sinusoids, added to the embeddings, so that there is no longest text. Normalizations stand before each
/// sublayer. The encoder reads the end of a source as a token, from which it knows how far each other is from the end.
///
/// Vaswani et al. 2017, "Attention Is All You Need"; normalizations: Xiong et al. 2020, "On Layer Normalization in the
/// Transformer Architecture".
#[derive(Module, Debug)]
pub struct Transformer<C: ScoringFunction = DotProductScore> {
    /// The embedding of source tokens.
    pub source_embedding: TokenEmbedding,
    /// The encoder, from embedded source tokens to the rows that the decoder attends to.
    pub encoder: TransformerEncoder<DotProductScore>,
    /// The embedding of target tokens.
    pub target_embedding: TokenEmbedding,
    /// The decoder.
    pub decoder: TransformerDecoder<DotProductScore, C>,
    /// Dropout on the sum of embedding and position, active while training.
    pub dropout: Dropout,
    /// The output projection, from rows to the logits of the tokens.
    pub output: Linear,
    pub(super) heads: usize,
}

/// The weights to look at, of all with which the decoder of a [`Transformer`] attends to the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AttentionHead {
    /// The layer, from 1; by default the last.
    pub layer: Option<usize>,
    /// The head, from 1; by default the mean over all of the layer.
    pub head: Option<usize>,
}

impl<C: ScoringFunction> Transformer<C> {
    /// The logits of every target token, each predicted from the target's tokens before it (teacher forcing).
    ///
    /// # Shapes
    /// - result `[batch, target tokens, target_vocab_size]`; the end of a target is one of its tokens
    pub fn forward(&self, batch: &Batch) -> Tensor<3> {
        let bias = self.output.bias.as_ref().map(|bias| bias.val());
        linear(self.features(batch), self.output.weight.val(), bias)
    }

    /// [`Seq2SeqModel::loss`]. The logits of all tokens are never there at once, which matters where a vocabulary is
    /// large.
    pub fn loss(&self, batch: &Batch, label_smoothing: f64) -> LossOutput {
        let rows = self.features(batch);
        let [examples, steps, size] = rows.dims();
        let rows = rows.reshape([examples * steps, size]);
        let targets = batch.target.clone().reshape([examples * steps]);
        let weight = self.output.weight.val();
        let bias = self.output.bias.as_ref().map(|bias| bias.val());
        let count = batch.target_tokens();
        let targets = class_targets(targets, count, weight.dtype(), label_smoothing);
        let (loss, predictions) = linear_cross_entropy(rows, weight, bias, targets);
        LossOutput {
            loss,
            predictions: predictions.reshape([examples, steps]),
        }
    }

    /// [`Seq2SeqModel::greedy`], with the last layer's weights, the mean over its heads. It is without autodiff: in
    /// training, call it on `valid()`.
    ///
    /// # Panics
    /// If the target vocabulary is smaller than [`Vocab::SPECIAL_TOKENS`](crate::Vocab::SPECIAL_TOKENS).
    pub fn greedy(&self, source: &Source, max_len: usize, with_weights: bool) -> Translation {
        if with_weights {
            return self.greedy_with_weights(source, max_len, AttentionHead::default());
        }
        self.search(source, &self.encode(source), max_len)
    }

    /// [`greedy`](Self::greedy) with the weights of one head.
    ///
    /// # Panics
    /// If there is no such layer or head, and as [`greedy`](Self::greedy).
    pub fn greedy_with_weights(
        &self,
        source: &Source,
        max_len: usize,
        head: AttentionHead,
    ) -> Translation {
        if let Err(error) = self.check_head(head) {
            panic!("Transformer: {error}");
        }
        let memory = self.encode(source);
        let outputs = self.search(source, &memory, max_len);
        let weights = self.weights_of(&outputs.tokens, &outputs.ended, &memory, head);
        Translation { weights, ..outputs }
    }

    pub(super) fn check_head(&self, AttentionHead { layer, head }: AttentionHead) -> Result<()> {
        let parts = [
            ("layer", "layers", layer, self.layers()),
            ("head", "heads", head, self.heads),
        ];
        for (part, parts, number, count) in parts {
            if let Some(number) = number.filter(|number| !(1..=count).contains(number)) {
                let what = format!("the {part} to look at");
                let expected = format!("1 to {count}, the {parts} of the model");
                return Err(Error::config(what, expected, number));
            }
        }
        Ok(())
    }

    /// The number of layers of the decoder.
    pub(super) fn layers(&self) -> usize {
        self.decoder.layers.len()
    }

    /// The rows that predict the target tokens, `[batch, target tokens, hidden_size]`.
    fn features(&self, batch: &Batch) -> Tensor<3> {
        let memory = self.encode(&batch.source);
        let rows = self.embed(&self.target_embedding, batch.previous_tokens(), 0);
        let mask = Mask::valid_lens(batch.target_valid_lens());
        self.decoder.forward(rows, &mask, &memory)
    }

    /// The keys and values of a source, which the decoder attends to.
    fn encode(&self, source: &Source) -> DecoderMemory {
        let source = source.with_end();
        let mask = Mask::valid_lens(source.valid_lens());
        let rows = self.embed(&self.source_embedding, source.tokens(), 0);
        let rows = self.encoder.forward(rows, &mask);
        self.decoder.prepare(rows, mask)
    }

    /// The rows of tokens `[batch, rows]` whose positions begin with `start`.
    fn embed(&self, embedding: &TokenEmbedding, tokens: Tensor<2, Int>, start: usize) -> Tensor<3> {
        let rows = embedding.forward(tokens, &Positions::consecutive(start as i64));
        let ([_, count, size], dtype) = (rows.dims(), rows.dtype());
        let positions = sinusoids(start, count, size, &rows.device()).cast(dtype);
        dropout(&self.dropout, rows + positions)
    }

    fn search(&self, source: &Source, memory: &DecoderMemory, max_len: usize) -> Translation {
        let mut decoding = TransformerDecoding::new(self, memory.clone(), source.batch_size());
        greedy_search(&mut decoding, max_len)
    }

    /// The state before the first token.
    fn first_state(&self) -> StepState {
        StepState {
            cache: self.decoder.cache(),
            position: 0,
        }
    }

    /// The features that predict the next tokens, `[batch, hidden_size]`, from the tokens before, `[batch]`.
    fn step(
        &self,
        previous: Tensor<1, Int>,
        memory: &DecoderMemory,
        state: &mut StepState,
    ) -> Tensor<2> {
        let tokens = previous.unsqueeze_dim::<2>(1);
        let rows = self.embed(&self.target_embedding, tokens, state.position);
        state.position += 1;
        let cache = &mut state.cache;
        let rows = self
            .decoder
            .forward_cached(rows, NewRows::All, memory, cache);
        rows.squeeze_dim::<2>(1)
    }

    /// The weights of one head at each step of a given output, `[steps, keys]` row by row, of one source.
    pub(super) fn weights_of_output(
        &self,
        source: &Source,
        tokens: &[u32],
        ended: bool,
        head: AttentionHead,
    ) -> Vec<f32> {
        let memory = self.encode(source);
        elements(self.weights_of(&[tokens.to_vec()], &[ended], &memory, head))
    }

    /// The weights of all heads at each step of a given output, `[layers, heads, steps, keys]`, of one source.
    pub(super) fn weights_of_all_heads(
        &self,
        source: &Source,
        tokens: &[u32],
        ended: bool,
    ) -> Vec<f32> {
        let memory = self.encode(source);
        elements(self.weights_of_layers(&[tokens.to_vec()], &[ended], &memory))
    }

    /// The weights of each step of a search, `[batch, keys]`, by teacher forcing with its outputs.
    fn weights_of(
        &self,
        tokens: &[Vec<u32>],
        ended: &[bool],
        memory: &DecoderMemory,
        AttentionHead { layer, head }: AttentionHead,
    ) -> Vec<Tensor<2>> {
        let layer = layer.unwrap_or(self.layers()) - 1;
        let mut layers = self.weights_of_layers(tokens, ended, memory);
        if layers.is_empty() {
            return Vec::new();
        }
        let weights = layers.swap_remove(layer);
        let weights = match head {
            Some(head) => weights.narrow(1, head - 1, 1),
            None => weights.mean_dim(1),
        };
        let [_, _, steps, _] = weights.dims();
        let of_steps = (0..steps).map(|step| {
            let of_step = weights.clone().narrow(2, step, 1);
            of_step.squeeze_dims::<2>(&[1, 2])
        });
        of_steps.collect()
    }

    /// The weights of each layer, `[batch, heads, steps, keys]`, of teacher forcing with these outputs; no layer where
    /// no output has a step.
    fn weights_of_layers(
        &self,
        tokens: &[Vec<u32>],
        ended: &[bool],
        memory: &DecoderMemory,
    ) -> Vec<Tensor<4>> {
        let examples = tokens.iter().zip(ended);
        // The step that predicted the end is one.
        let steps = examples.map(|(tokens, ended)| tokens.len() + usize::from(*ended));
        let steps = steps.max().unwrap_or(0);
        if steps == 0 {
            return Vec::new();
        }
        let device = self.output.weight.device();
        let inputs = decoder_inputs(tokens.iter().map(Vec::as_slice), &device);
        let rows = self.embed(&self.target_embedding, inputs.narrow(1, 0, steps), 0);
        let output = self
            .decoder
            .forward_with_weights(rows, Mask::none(), memory);
        output.weights
    }
}

/// The elements of weights, one tensor after the other.
fn elements<const D: usize>(weights: Vec<Tensor<D>>) -> Vec<f32> {
    let weights = weights.into_iter();
    let weights = weights.map(|it| it.try_into_vec_as::<f32>());
    weights
        .flat_map(|it| it.expect("weights are floats"))
        .collect()
}

impl<C: ScoringFunction> Seq2SeqModel for Transformer<C> {
    fn loss(&self, batch: &Batch, label_smoothing: f64) -> LossOutput {
        self.loss(batch, label_smoothing)
    }

    fn greedy(&self, source: &Source, max_len: usize, with_weights: bool) -> Translation {
        self.greedy(source, max_len, with_weights)
    }

    fn decoding<'a>(
        &'a self,
        source: &Source,
        _max_len: usize,
        _with_weights: bool,
    ) -> Box<dyn Decoding + 'a> {
        let (memory, examples) = (self.encode(source), source.batch_size());
        Box::new(TransformerDecoding::new(self, memory, examples))
    }
}
