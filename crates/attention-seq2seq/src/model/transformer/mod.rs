//! The Transformer, generic over the score of the decoder's attention to the source.

mod config;

pub use config::TransformerConfig;

use attention_core::padding::last_tokens;
use attention_core::position::Positions;
use attention_core::{DotProductScore, Mask, NewRows, ScoringFunction};
use attention_transformers::decoder::DecoderMemory;
use attention_transformers::{
    EncoderDecoder, TokenEmbedding, TransformerDecoder, TransformerEncoder,
};
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_fused_layers::harness::wide::in_wide;
use burn_fused_layers::linear_cross_entropy;
use serde::Serialize;

use super::candidates::{Candidates, decoding_of};
use super::loss::class_targets;
use super::{Decoding, LossOutput, Seq2SeqModel};
use crate::data::batch::{Batch, Source, decoder_inputs};
use crate::error::{Error, Result};

/// A Transformer whose parts have the names in saved models: an [`EncoderDecoder`] with two embeddings, whose decoder
/// attends to the source with a score of its own.
///
/// Positions are sinusoids added to the embeddings, so texts may have any length. Normalizations precede sublayers. The
/// encoder reads the end of a source as a token, from which it knows how far each other is from the end.
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
    /// The output projection, from rows to the logits of the tokens.
    pub output: Linear,
}

/// A choice among the weights with which the decoder of a [`Transformer`] attends to the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AttentionHead {
    /// The layer, counted from 1; by default the last.
    pub layer: Option<usize>,
    /// The head, counted from 1; by default the mean over all heads of the layer.
    pub head: Option<usize>,
}

impl<C: ScoringFunction> Transformer<C> {
    /// The model made of these parts, sharing their parameters.
    pub fn model(&self) -> EncoderDecoder<DotProductScore, C> {
        EncoderDecoder {
            embedding: self.target_embedding.clone(),
            source_embedding: Some(self.source_embedding.clone()),
            encoder: self.encoder.clone(),
            decoder: self.decoder.clone(),
            head: Some(self.output.clone()),
            head_bias: None,
            feature_scale: 1.0,
        }
    }

    /// The logits of every target token, predicted from the target tokens before it (teacher forcing).
    ///
    /// # Shapes
    /// - result `[batch, target tokens, target_vocab_size]`; the end of a target is one of its tokens
    pub fn forward(&self, batch: &Batch) -> Tensor<3> {
        self.model().logits(self.features(batch))
    }

    /// The rows that predict the target tokens, `[batch, target tokens, hidden_size]`.
    fn features(&self, batch: &Batch) -> Tensor<3> {
        let model = self.model();
        let memory = encode(&model, &batch.source);
        let rows = NewRows::First(batch.target_lens());
        model.features(batch.previous_tokens(), rows, &memory)
    }

    pub(super) fn check_head(&self, AttentionHead { layer, head }: AttentionHead) -> Result<()> {
        let [layers, heads] = self.heads();
        for (part, number, count) in [("layer", layer, layers), ("head", head, heads)] {
            if let Some(number) = number.filter(|number| !(1..=count).contains(number)) {
                let what = format!("the {part} to look at");
                let expected = format!("1 to {count}, the {part}s of the model");
                return Err(Error::config(what, expected, number));
            }
        }
        Ok(())
    }

    /// The number of layers of the decoder, and of heads in each.
    pub(super) fn heads(&self) -> [usize; 2] {
        let layers = &self.decoder.layers;
        [layers.len(), layers[0].cross_attention.num_heads()]
    }

    /// [`weights_of`](Seq2SeqModel::weights_of) for a single head.
    ///
    /// # Panics
    /// If there is no such layer or head.
    pub fn weights_of_head(
        &self,
        source: &Source,
        tokens: &[Vec<u32>],
        ended: &[bool],
        head: AttentionHead,
    ) -> Vec<Tensor<2>> {
        if let Err(error) = self.check_head(head) {
            panic!("Transformer: {error}");
        }
        let AttentionHead { layer, head } = head;
        let mut layers = self.weights_of_layers(source, tokens, ended);
        if layers.is_empty() {
            return Vec::new();
        }
        let weights = layers.swap_remove(layer.unwrap_or(layers.len()) - 1);
        let weights = match head {
            Some(head) => weights.narrow(1, head - 1, 1),
            None => in_wide(weights, |weights| weights.mean_dim(1)),
        };
        let [_, _, steps, _] = weights.dims();
        let of_step = |step| weights.clone().narrow(2, step, 1).squeeze_dims(&[1, 2]);
        (0..steps).map(of_step).collect()
    }

    /// The weights of each layer, `[batch, heads, steps, keys]`, in teacher forcing with these outputs; no layers if no
    /// output has a step.
    pub(super) fn weights_of_layers(
        &self,
        source: &Source,
        tokens: &[Vec<u32>],
        ended: &[bool],
    ) -> Vec<Tensor<4>> {
        let examples = tokens.iter().zip(ended);
        // The step that predicted the end token counts.
        let steps = examples.map(|(tokens, ended)| tokens.len() + usize::from(*ended));
        let steps = steps.max().unwrap_or(0);
        if steps == 0 {
            return Vec::new();
        }
        let model = self.model();
        let memory = encode(&model, source);
        let device = self.output.weight.device();
        let inputs = decoder_inputs(tokens.iter().map(Vec::as_slice), &device).narrow(1, 0, steps);
        let rows = model.embedding.forward(inputs, &Positions::consecutive(0));
        let decoder = &model.decoder;
        let output = decoder.forward_with_weights(rows, Mask::none(), &memory);
        output.weights
    }
}

/// The keys and values of a source, which the decoder attends to.
fn encode<C: ScoringFunction>(
    model: &EncoderDecoder<DotProductScore, C>,
    source: &Source,
) -> DecoderMemory {
    let source = source.with_end();
    model.encode(source.tokens(), NewRows::First(source.lens()))
}

impl<C: ScoringFunction> Seq2SeqModel for Transformer<C> {
    /// The logits of all tokens are never in memory together, which matters for a large vocabulary.
    fn loss(&self, batch: &Batch, label_smoothing: f64) -> LossOutput {
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

    /// The weights of the last layer, the mean over its heads.
    fn weights_of(&self, source: &Source, tokens: &[Vec<u32>], ended: &[bool]) -> Vec<Tensor<2>> {
        self.weights_of_head(source, tokens, ended, AttentionHead::default())
    }

    fn decoding<'a>(
        &'a self,
        source: &Source,
        _max_len: usize,
        _with_weights: bool,
    ) -> Box<dyn Decoding + 'a> {
        let model = self.model();
        let state = model.state(encode(&model, source));
        let candidates = Candidates::new(&self.output);
        // Without weights, because layers have several heads, and no single one is the attention to the source.
        decoding_of(candidates, source, state, move |tokens, rows, state| {
            let shape = tokens.dims();
            let features = model.features_cached(tokens, rows, state);
            (last_tokens(features, rows, shape), None)
        })
    }
}
