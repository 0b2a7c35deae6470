//! The Transformer, generic over the score of its decoder's attention to the source.

mod config;
mod decoding;
mod positions;

pub use config::TransformerConfig;

use attention_core::{DotProductScore, Mask, NewRows, Positions, ScoringFunction};
use attention_transformers::{
    DecoderMemory, TokenEmbedding, TransformerDecoder, TransformerEncoder,
};
use burn::module::Module;
use burn::nn::{Dropout, Linear};
use burn::tensor::{Int, Tensor};
use burn_fused_layers::{dropout, linear, linear_cross_entropy};

use super::candidates::Candidates;
use super::greedy::{GreedyOutputs, greedy_search};
use super::loss::class_targets;
use super::{Decoding, LossOutput, Seq2SeqModel, Translation};
use crate::batch::{Batch, Source, decoder_inputs};
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
///
/// ```
/// use attention_seq2seq::{Batch, Example, TransformerConfig};
/// use burn::tensor::Device;
///
/// let device = Device::flex();
/// let model = TransformerConfig::new(13, 11).with_hidden_size(8).init(&device);
///
/// let example = Example { source: vec![5, 4, 6], target: vec![7, 8] };
/// let logits = model.forward(&Batch::new(&[example], &device));
/// assert_eq!(logits.dims(), [1, 3, 11]); // the target and its end
/// ```
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
    heads: usize,
}

/// The weights to look at, of all with which the decoder of a [`Transformer`] attends to the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// The loss of teacher forcing; a share of each target, `label_smoothing`, is spread over all tokens. The logits of
    /// all tokens are never there at once, which matters where a vocabulary is large.
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

    /// Greedy search: the most likely token of each step is the input of the next, until every example has ended or has
    /// `max_len` tokens. Weights are those of the last layer, the mean over its heads. It is without autodiff: of a
    /// model in training, that of `valid()`.
    ///
    /// A step chooses among the tokens of the data and the end; padding, begin and the unknown token are never chosen.
    /// Where no token is the most likely, because all logits are equal or NaN, the example ends.
    ///
    /// # Panics
    /// If the target vocabulary is smaller than [`Vocab::SPECIAL_TOKENS`](crate::Vocab::SPECIAL_TOKENS).
    pub fn greedy(&self, source: &Source, max_len: usize, with_weights: bool) -> Translation {
        if with_weights {
            return self.greedy_with_weights(source, max_len, AttentionHead::default());
        }
        let memory = self.encode(source);
        let GreedyOutputs { tokens, ended } = self.search(source, &memory, max_len);
        Translation {
            tokens,
            ended,
            weights: Vec::new(),
        }
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
        let GreedyOutputs { tokens, ended } = self.search(source, &memory, max_len);
        let weights = self.weights_of(&tokens, &ended, &memory, head);
        Translation {
            tokens,
            ended,
            weights,
        }
    }

    /// # Errors
    /// [`Error::Config`] if there is no such layer or head.
    pub(super) fn check_head(&self, AttentionHead { layer, head }: AttentionHead) -> Result<()> {
        let parts = [
            ("layer", "layers", layer, self.layers()),
            ("head", "heads", head, self.heads),
        ];
        for (part, parts, number, count) in parts {
            if let Some(number) = number.filter(|number| !(1..=count).contains(number)) {
                let what = format!("the {part} to look at");
                let expected = format!("1 to {count}, the {parts} of the model");
                return Err(Error::config(&what, &expected, number));
            }
        }
        Ok(())
    }

    /// The number of layers of the decoder.
    pub(super) fn layers(&self) -> usize {
        self.decoder.layers.len()
    }

    /// The number of heads of each attention.
    pub(super) fn heads(&self) -> usize {
        self.heads
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

    fn search(&self, source: &Source, memory: &DecoderMemory, max_len: usize) -> GreedyOutputs {
        let candidates = Candidates::new(&self.output);
        let (examples, start) = (source.batch_size(), self.first_state());
        greedy_search(
            &candidates,
            examples,
            max_len,
            start,
            |previous, mut state| {
                let features = self.step(previous, memory, &mut state);
                (features, state)
            },
        )
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
        let rows = self.weights_of(&[tokens.to_vec()], &[ended], &memory, head);
        rows.into_iter()
            .flat_map(|row| row.try_into_vec_as::<f32>().expect("weights are floats"))
            .collect()
    }

    /// The weights of all heads at each step of a given output, `[layers, heads, steps, keys]`, of one source.
    pub(super) fn weights_of_all_heads(
        &self,
        source: &Source,
        tokens: &[u32],
        ended: bool,
    ) -> Vec<f32> {
        let memory = self.encode(source);
        let layers = self.weights_of_layers(&[tokens.to_vec()], &[ended], &memory);
        layers
            .into_iter()
            .flat_map(|layer| layer.try_into_vec_as::<f32>().expect("weights are floats"))
            .collect()
    }

    /// The weights of each step of a search, `[batch, keys]`: those of teacher forcing with its outputs.
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
            .forward_with_weights(rows, &Mask::none(), memory);
        output.weights
    }
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
        Box::new(TransformerDecoding::new(self, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::AttentionKind;
    use crate::device::test_device;
    use crate::examples::Example;

    /// The logits of [`Transformer::forward`] against those of single steps, of which greedy search chooses.
    #[test]
    fn teacher_forcing_is_the_steps_of_greedy_search() {
        let device = test_device();
        let config = TransformerConfig::new(13, 11)
            .with_hidden_size(6)
            .with_heads(3);
        let example = |source: &[u32], target: &[u32]| Example {
            source: source.to_vec(),
            target: target.to_vec(),
        };
        let examples = [
            example(&[4, 12, 7], &[10, 5, 4, 4]),
            example(&[6, 5, 4, 9, 11], &[7, 8]),
        ];
        let batch = Batch::new(&examples, &device);
        // Of the tokens that may come next: the end, and those of the data.
        let columns = Tensor::<1, Int>::from_ints([2, 4, 5, 6, 7, 8, 9, 10], &device);
        for &kind in AttentionKind::SCORES {
            let score = |_| kind.score(2, &device).expect("it is a score");
            let model = config.init_with(score, &device);
            let logits = model.forward(&batch);
            let memory = model.encode(&batch.source);
            let candidates = Candidates::new(&model.output);
            let mut state = model.first_state();
            for at in 0..batch.target_len() {
                let features = model.step(batch.previous_token(at), &memory, &mut state);
                let actual = candidates.logits(features);
                let expected = logits.clone().narrow(1, at, 1).squeeze_dim::<2>(1);
                let expected = expected.select(1, columns.clone());
                // Behind the end of a target the rows of teacher forcing are padding.
                let examples = if at < 3 { 2 } else { 1 };
                let [actual, expected] = [actual, expected].map(|it| it.narrow(0, 0, examples));
                let difference = (actual - expected).abs().max().into_scalar::<f32>();
                assert!(difference < 1e-5, "{kind}, step {at}: {difference}");
            }
        }
    }
}
