//! The steps of decoding by a Transformer.

use attention_core::ScoringFunction;
use attention_transformers::{DecoderMemory, TransformerCache};
use burn::tensor::{Device, Tensor};

use super::Transformer;
use crate::model::candidates::Candidates;
use crate::model::decoding::{
    Decoding, NextTokens, RowExamples, Selection, log_softmax, tokens_on_device,
};

/// A pass over a batch of outputs in the making.
pub(super) struct TransformerDecoding<'a, C: ScoringFunction> {
    model: &'a Transformer<C>,
    candidates: Candidates,
    tokens: Vec<u32>,
    /// The state of each row.
    state: StepState,
    row_memory: DecoderMemory,
    /// The memory of each example.
    memory: DecoderMemory,
    examples: RowExamples,
    device: Device,
}

/// The state that a step leaves to the next.
#[derive(Clone, Debug)]
pub(super) struct StepState {
    /// The keys and values of the tokens before.
    pub(super) cache: TransformerCache,
    /// The number of these.
    pub(super) position: usize,
}

impl<'a, C: ScoringFunction> TransformerDecoding<'a, C> {
    /// Before the first tokens of `examples` examples, whose sources are in `memory`.
    pub(super) fn new(model: &'a Transformer<C>, memory: DecoderMemory, examples: usize) -> Self {
        let candidates = Candidates::new(&model.output);
        Self {
            model,
            tokens: candidates.ids(),
            state: model.first_state(),
            row_memory: memory.clone(),
            memory,
            examples: RowExamples::new(examples),
            device: candidates.device(),
            candidates,
        }
    }

    /// The features that predict the next tokens, `[rows, hidden_size]`.
    fn features(&mut self, previous: &[u32]) -> Tensor<2> {
        self.examples.check(previous);
        let previous = tokens_on_device(previous, &self.device);
        self.model.step(previous, &self.row_memory, &mut self.state)
    }
}

impl<C: ScoringFunction> Decoding for TransformerDecoding<'_, C> {
    fn candidates(&self) -> &[u32] {
        &self.tokens
    }

    fn rows(&self) -> usize {
        self.examples.len()
    }

    /// Without weights: each layer has several heads, and no single one is the attention to the source.
    fn step(&mut self, previous: &[u32]) -> NextTokens {
        let features = self.features(previous);
        NextTokens {
            log_probabilities: log_softmax(self.candidates.logits(features)),
            weights: None,
        }
    }

    fn most_likely(&mut self, previous: &[u32]) -> Vec<u32> {
        let features = self.features(previous);
        self.candidates.most_likely(features)
    }

    fn select(&mut self, rows: &[usize]) {
        let Selection { rows, examples } = self.examples.select(rows, &self.device);
        if let Some(rows) = rows {
            self.state.cache.select(rows);
        }
        if let Some(examples) = examples {
            self.row_memory = self.memory.select(examples);
        }
    }

    fn restart(&mut self, examples: &[usize]) {
        let examples = self.examples.restart(examples, &self.device);
        self.state = self.model.first_state();
        self.row_memory = self.memory.select(examples);
    }
}
