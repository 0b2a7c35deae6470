//! The steps of decoding by a recurrent model.

use std::borrow::Cow;

use attention_core::Memory;
use attention_core::stateful::StatefulAttention;
use burn::tensor::{Device, Tensor};

use super::decoder::{DecoderPass, DecoderState, DecoderWeights};
use super::{Encoding, Seq2Seq};
use crate::data::batch::Source;
use crate::model::candidates::Candidates;
use crate::model::decoding::{
    Decoding, NextTokens, RowExamples, Selection, log_softmax, tokens_on_device,
};

/// The weights that the steps of a search read. Clones share what is packed.
#[derive(Clone, Debug)]
pub(crate) struct SearchWeights {
    decoder: DecoderWeights,
    candidates: Candidates,
}

impl SearchWeights {
    /// Those of `model` as its parameters are now, for steps of about so many tokens.
    pub(crate) fn new<A: StatefulAttention>(model: &Seq2Seq<A>, tokens: usize) -> Self {
        Self {
            decoder: model.decoder.weights(tokens),
            candidates: model.decoder.candidates(),
        }
    }
}

/// A pass over a batch of outputs in the making.
pub(super) struct RecurrentDecoding<'a, A: StatefulAttention> {
    model: &'a Seq2Seq<A>,
    candidates: Candidates,
    tokens: Vec<u32>,
    /// The decoder, with the memory of each row.
    pass: DecoderPass<'a, A>,
    /// The state of each row.
    state: DecoderState<A>,
    /// The state of each example before its first token.
    first: DecoderState<A>,
    /// The memory of each example.
    memory: Memory,
    /// The number of source tokens of each example.
    source_lens: Vec<usize>,
    examples: RowExamples,
    with_weights: bool,
    device: Device,
}

impl<'a, A: StatefulAttention> RecurrentDecoding<'a, A> {
    pub(super) fn new(
        model: &'a Seq2Seq<A>,
        weights: SearchWeights,
        source: &Source,
        with_weights: bool,
    ) -> Self {
        let SearchWeights {
            decoder,
            candidates,
        } = weights;
        let Encoding { memory, state } = model.encode(source);
        Self {
            model,
            tokens: candidates.ids(),
            pass: model.decoder.pass_with(decoder, Cow::Owned(memory.clone())),
            first: state.clone(),
            state,
            memory,
            source_lens: source.lens().to_vec(),
            examples: RowExamples::new(source.batch_size()),
            with_weights,
            device: candidates.device(),
            candidates,
        }
    }

    /// The features that predict the next tokens, `[rows, 2 * hidden_size]`, and the attention weights if asked for,
    /// `[rows, keys]`.
    fn features(&mut self, previous: &[u32]) -> (Tensor<2>, Option<Tensor<2>>) {
        self.examples.check(previous);
        let previous = tokens_on_device(previous, &self.device);
        let step = self
            .pass
            .step(previous, self.state.clone(), self.with_weights);
        self.state = step.state;
        let features = step.features.joined();
        (self.model.decoder.dropout.forward(features), step.weights)
    }

    /// The weights of each row, padding left out.
    fn weights(&self, weights: Tensor<2>) -> Vec<Vec<f32>> {
        let [_, keys] = weights.dims();
        let weights: Vec<f32> = weights.try_into_vec_as().expect("weights are floats");
        let rows = weights.chunks_exact(keys).zip(self.examples.iter());
        rows.map(|(row, example)| row[..self.source_lens[example]].to_vec())
            .collect()
    }
}

impl<A: StatefulAttention> Decoding for RecurrentDecoding<'_, A> {
    fn candidates(&self) -> &[u32] {
        &self.tokens
    }

    fn rows(&self) -> usize {
        self.examples.len()
    }

    fn step(&mut self, previous: &[u32]) -> NextTokens {
        let (features, weights) = self.features(previous);
        NextTokens {
            log_probabilities: log_softmax(self.candidates.logits(features)),
            weights: weights.map(|weights| self.weights(weights)),
        }
    }

    fn most_likely(&mut self, previous: &[u32]) -> Vec<u32> {
        let (features, _) = self.features(previous);
        self.candidates.most_likely(features)
    }

    fn select(&mut self, rows: &[usize]) {
        let Selection { rows, examples } = self.examples.select(rows, &self.device);
        if let Some(rows) = rows {
            self.state = self.state.select(&rows);
        }
        if let Some(examples) = examples {
            self.pass.set_memory(self.memory.select(examples));
        }
    }

    fn restart(&mut self, examples: &[usize]) {
        let examples = self.examples.restart(examples, &self.device);
        self.state = self.first.select(&examples);
        self.pass.set_memory(self.memory.select(examples));
    }
}
