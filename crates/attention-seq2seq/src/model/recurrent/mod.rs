//! The recurrent encoder-decoder, generic over the attention of `attention-core`.

mod config;
mod decoder;
mod decoding;
mod encoder;
mod gates;

pub use config::Seq2SeqConfig;
pub use decoder::{Decoder, DecoderConfig};
pub use encoder::{Encoded, Encoder, EncoderConfig};

use attention_core::{Mask, Memory, StatefulAttention};
use burn::module::Module;
use burn::tensor::Tensor;

use super::greedy::greedy_search;
use super::loss::class_targets;
use super::{Decoding, LossOutput, Seq2SeqModel, Translation};
use crate::batch::{Batch, Source};

use decoder::{DecoderState, Features};
use decoding::RecurrentDecoding;

/// An encoder and a decoder with attention between them, generic over the attention.
///
/// ```
/// use attention_core::DotProductAttentionConfig;
/// use attention_seq2seq::{Batch, Example, Seq2SeqConfig};
/// use burn::tensor::Device;
///
/// let device = Device::flex();
/// let attention = DotProductAttentionConfig::new().init();
/// let model = Seq2SeqConfig::new(13, 11).with_hidden_size(8).init(attention, &device);
///
/// let example = Example { source: vec![5, 4, 6], target: vec![7, 8] };
/// let logits = model.forward(&Batch::new(&[example], &device));
/// assert_eq!(logits.dims(), [1, 3, 11]); // the target and its end
/// ```
#[derive(Module, Debug)]
pub struct Seq2Seq<A: StatefulAttention> {
    /// The encoder, from source tokens to states.
    pub encoder: Encoder,
    /// The decoder, from states to target tokens.
    pub decoder: Decoder<A>,
}

/// The output of [`Seq2Seq::forward_with_penalty`].
pub struct ForwardOutput {
    /// The logits of every target token, `[batch, target tokens, target_vocab_size]`.
    pub logits: Tensor<3>,
    /// The term that attention adds to the loss of each example, `[batch]`, if it has one:
    /// [`StatefulAttention::penalty`] after the last token of the target.
    pub penalty: Option<Tensor<1>>,
}

impl<A: StatefulAttention> Seq2Seq<A> {
    /// The logits of every target token, each predicted from the target's tokens before it (teacher forcing).
    ///
    /// # Shapes
    /// - result `[batch, target tokens, target_vocab_size]`; the end of a target is one of its tokens
    pub fn forward(&self, batch: &Batch) -> Tensor<3> {
        self.forward_with_penalty(batch).logits
    }

    /// [`forward`](Self::forward), with the penalty that attention adds to the loss.
    ///
    /// # Shapes
    /// - logits `[batch, target tokens, target_vocab_size]`, penalty `[batch]`
    pub fn forward_with_penalty(&self, batch: &Batch) -> ForwardOutput {
        let (features, penalty) = self.features(batch);
        let [examples, steps] = batch.target.dims();
        let logits = self.decoder.logits(features);
        let [_, tokens] = logits.dims();
        ForwardOutput {
            logits: logits.reshape([steps, examples, tokens]).swap_dims(0, 1),
            penalty,
        }
    }

    /// The loss of teacher forcing; a share of each target, `label_smoothing`, is spread over all tokens. The logits of
    /// all tokens are never there at once, which matters where a vocabulary is large.
    pub fn loss(&self, batch: &Batch, label_smoothing: f64) -> LossOutput {
        let (features, penalty) = self.features(batch);
        let [examples, steps] = batch.target.dims();
        let targets = batch.target.clone().transpose();
        let targets = targets.reshape([steps * examples]);
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

    /// The features that predict the target tokens of each step, and the attention's penalty.
    fn features(&self, batch: &Batch) -> (Vec<Features>, Option<Tensor<1>>) {
        let Encoding { memory, mut state } = self.encode(&batch.source);
        let pass = self.decoder.pass(&memory, batch.target_len());
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
            // The penalty of the steps at padding, after a target's last token, must not count.
            let last = batch.last_steps().unsqueeze_dim::<2>(1);
            let penalties: Tensor<2> = Tensor::stack(penalties, 1);
            penalties.gather(1, last).squeeze_dim::<1>(1)
        });
        (features, penalty)
    }

    /// Greedy search: the most likely token of each step is the input of the next, until every example has ended or has
    /// `max_len` tokens.
    ///
    /// A step chooses among the tokens of the data and the end; padding, begin and the unknown token are never chosen.
    /// Where no token is the most likely, because all logits are equal or NaN, the example ends.
    ///
    /// # Panics
    /// If the target vocabulary is smaller than [`Vocab::SPECIAL_TOKENS`](crate::Vocab::SPECIAL_TOKENS).
    pub fn greedy(&self, source: &Source, max_len: usize, with_weights: bool) -> Translation {
        let Encoding { memory, state } = self.encode(source);
        let pass = self.decoder.pass(&memory, max_len);
        let candidates = self.decoder.candidates();
        let examples = source.batch_size();
        let mut weights = Vec::new();
        let outputs = greedy_search(&candidates, examples, max_len, state, |previous, state| {
            let step = pass.step(previous, state, with_weights);
            weights.extend(step.weights);
            let features = self.decoder.dropout.forward(step.features.joined());
            (features, step.state)
        });
        Translation {
            tokens: outputs.tokens,
            ended: outputs.ended,
            weights,
        }
    }

    fn encode(&self, source: &Source) -> Encoding<A> {
        let encoded = self.encoder.forward(source);
        let mask = Mask::valid_lens(source.valid_lens());
        let states = encoded.states;
        let memory = self.decoder.attention.setup(states.clone(), states, mask);
        let state = self.decoder.first_state(encoded.last, &memory);
        Encoding { memory, state }
    }
}

impl<A: StatefulAttention> Seq2SeqModel for Seq2Seq<A> {
    fn loss(&self, batch: &Batch, label_smoothing: f64) -> LossOutput {
        self.loss(batch, label_smoothing)
    }

    fn greedy(&self, source: &Source, max_len: usize, with_weights: bool) -> Translation {
        self.greedy(source, max_len, with_weights)
    }

    fn decoding<'a>(
        &'a self,
        source: &Source,
        max_len: usize,
        with_weights: bool,
    ) -> Box<dyn Decoding + 'a> {
        let decoding = RecurrentDecoding::new(self, source, max_len, with_weights);
        Box::new(decoding)
    }
}

/// A source, ready for the decoder.
struct Encoding<A: StatefulAttention> {
    memory: Memory,
    /// The state before the first target token.
    state: DecoderState<A>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use burn::tensor::Int;

    use super::*;
    use crate::attention::AttentionKind;
    use crate::device::test_device;
    use crate::examples::Example;

    /// The logits of [`Seq2Seq::forward`] against those of single steps, of which greedy search chooses.
    fn check(kind: AttentionKind, layers: usize) {
        let device = test_device();
        let config = Seq2SeqConfig::new(13, 11)
            .with_embedding_size(5)
            .with_hidden_size(6)
            .with_layers(layers);
        let model = config.init(kind.init(&config, &device), &device);
        let example = |source: &[u32], target: &[u32]| Example {
            source: source.to_vec(),
            target: target.to_vec(),
        };
        let examples = vec![
            example(&[4, 12, 7], &[10, 5, 4, 4]),
            example(&[6, 5, 4, 9, 11], &[7, 8]),
        ];
        let batch = Batch::new(&examples, &device);
        let logits = model.forward(&batch);
        assert_eq!(logits.dims(), [2, 5, 11]);

        let start = model.encode(&batch.source);
        let pass = model.decoder.pass(&start.memory, batch.target_len());
        let candidates = model.decoder.candidates();
        // Of the tokens that may come next: the end, and those of the data.
        let columns = Tensor::<1, Int>::from_ints([2, 4, 5, 6, 7, 8, 9, 10], &device);
        for with_weights in [false, true] {
            let mut state = start.state.clone();
            for at in 0..batch.target_len() {
                let step = pass.step(batch.previous_token(at), state, with_weights);
                state = step.state;
                assert_eq!(step.weights.is_some(), with_weights);
                let actual = candidates.logits(step.features.joined());
                let expected = logits.clone().narrow(1, at, 1).squeeze_dim::<2>(1);
                let expected = expected.select(1, columns.clone());
                let difference = (actual - expected).abs().max().into_scalar::<f32>();
                assert!(difference < 1e-6, "step {at}: {difference}");
            }
        }
    }

    #[test]
    fn teacher_forcing_is_the_steps_of_greedy_search() {
        for &kind in AttentionKind::ALL {
            for layers in [1, 2] {
                check(kind, layers);
            }
        }
    }
}
