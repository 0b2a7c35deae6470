//! The recurrent encoder-decoder, generic over the attentions of `attention-core`.

mod config;
mod decoder;
mod decoding;
mod encoder;
mod gates;

pub use config::Seq2SeqConfig;
pub use decoder::Decoder;
pub use encoder::{Encoded, Encoder};

use attention_core::stateful::StatefulAttention;
use attention_core::{Mask, Memory};
use burn::module::Module;
use burn::tensor::Tensor;

use super::candidates::decoding_of;
use super::loss::class_targets;
use super::{Decoding, LossOutput, Seq2SeqModel};
use crate::data::batch::{Batch, Source};

use decoder::{DecoderState, Features};
pub(crate) use decoding::SearchWeights;

/// An encoder and a decoder with attention between them, generic over the attention.
#[derive(Module, Debug)]
pub struct Seq2Seq<A: StatefulAttention> {
    /// The encoder, from source tokens to states.
    pub encoder: Encoder,
    /// The decoder, from states to target tokens.
    pub decoder: Decoder<A>,
}

impl<A: StatefulAttention> Seq2Seq<A> {
    /// The logits of every target token, predicted from the target tokens before it (teacher forcing).
    ///
    /// # Shapes
    /// - result `[batch, target tokens, target_vocab_size]`; the end of a target is one of its tokens
    pub fn forward(&self, batch: &Batch) -> Tensor<3> {
        self.forward_with_penalty(batch).0
    }

    /// [`forward`](Self::forward), with the term that the attention adds to the loss of each example, if any:
    /// [`StatefulAttention::penalty`] after the last token of the target.
    ///
    /// # Shapes
    /// - logits `[batch, target tokens, target_vocab_size]`, penalty `[batch]`
    pub fn forward_with_penalty(&self, batch: &Batch) -> (Tensor<3>, Option<Tensor<1>>) {
        let (features, penalty) = self.features(batch);
        let [examples, steps] = batch.target.dims();
        let logits = self.decoder.logits(features);
        let [_, tokens] = logits.dims();
        let logits = logits.reshape([steps, examples, tokens]);
        (logits.swap_dims(0, 1), penalty)
    }

    /// The features that predict the target tokens of each step, and the attention's penalty.
    fn features(&self, batch: &Batch) -> (Vec<Features>, Option<Tensor<1>>) {
        let Encoding { memory, mut state } = self.encode(&batch.source);
        let tokens = memory.batch_size() * batch.target_len();
        let weights = self.decoder.weights(tokens);
        let pass = self.decoder.pass(&weights, &memory);
        let mut features = Vec::with_capacity(batch.target_len());
        let mut penalties: Vec<Tensor<1>> = Vec::new();
        for position in 0..batch.target_len() {
            let step = pass.step(batch.previous_token(position), state, false);
            features.push(step.features);
            penalties.extend(self.decoder.penalty(&step.state));
            state = step.state;
        }
        let penalty = (!penalties.is_empty()).then(|| {
            assert_eq!(
                penalties.len(),
                features.len(),
                "StatefulAttention::penalty expected after every step or after none"
            );
            // The penalty of steps at padding, after the last token of a target, must not count.
            let last = batch.last_steps().unsqueeze_dim::<2>(1);
            let penalties: Tensor<2> = Tensor::stack(penalties, 1);
            penalties.gather(1, last).squeeze_dim::<1>(1)
        });
        (features, penalty)
    }

    /// [`decoding`](Seq2SeqModel::decoding) with weights made from the same parameters.
    pub(crate) fn decoding_with<'a>(
        &'a self,
        weights: SearchWeights,
        source: &Source,
        with_weights: bool,
    ) -> Box<dyn Decoding + 'a> {
        let (candidates, weights) = (weights.candidates, weights.decoder);
        let encoding = self.encode(source);
        decoding_of(candidates, source, encoding, move |tokens, _, encoding| {
            let tokens = tokens.squeeze_dim::<1>(1);
            let pass = self.decoder.pass(&weights, &encoding.memory);
            let step = pass.step(tokens, encoding.state.clone(), with_weights);
            encoding.state = step.state;
            let features = self.decoder.dropout.forward(step.features.joined());
            (features, step.weights)
        })
    }

    fn encode(&self, source: &Source) -> Encoding<A> {
        let encoded = self.encoder.forward(source);
        let mask = Mask::valid_lens(source.valid_lens());
        let states = encoded.states;
        let memory = self.decoder.attention.prepare(states.clone(), states, mask);
        let state = self.decoder.first_state(encoded.last, &memory);
        Encoding { memory, state }
    }
}

impl<A: StatefulAttention> Seq2SeqModel for Seq2Seq<A> {
    /// The logits of all tokens are never in memory together, which matters for a large vocabulary.
    fn loss(&self, batch: &Batch, label_smoothing: f64) -> LossOutput {
        let (features, penalty) = self.features(batch);
        let [examples, steps] = batch.target.dims();
        let targets = batch.target.clone().transpose().reshape([steps * examples]);
        let dtype = self.decoder.output.weight.dtype();
        let count = batch.target_tokens();
        let targets = class_targets(targets, count, dtype, label_smoothing);
        let (loss, predictions) = self.decoder.loss(features, targets);
        let loss = match penalty {
            Some(penalty) => {
                let penalty = penalty.cast(loss.dtype()).sum();
                loss + penalty * (1.0 / batch.target_tokens() as f64)
            }
            None => loss,
        };
        LossOutput {
            loss,
            predictions: predictions.reshape([steps, examples]).transpose(),
        }
    }

    fn decoding<'a>(
        &'a self,
        source: &Source,
        max_len: usize,
        with_weights: bool,
    ) -> Box<dyn Decoding + 'a> {
        let tokens = source.batch_size().saturating_mul(max_len);
        self.decoding_with(SearchWeights::new(self, tokens), source, with_weights)
    }
}

/// A source, ready for the decoder, and the decoder's state.
#[derive(Clone)]
struct Encoding<A: StatefulAttention> {
    memory: Memory,
    /// The state after the last target token, initially before all tokens.
    state: DecoderState<A>,
}
