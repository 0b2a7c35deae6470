//! The steps of decoding by a Transformer.

use attention_core::ScoringFunction;
use attention_transformers::{DecoderMemory, TransformerCache};
use burn::tensor::Device;

use super::Transformer;
use crate::data::batch::Source;
use crate::model::candidates::Candidates;
use crate::model::decoding::{
    Decoding, NextTokens, RowExamples, Selection, log_softmax, on_device,
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
    pub(super) fn new(model: &'a Transformer<C>, source: &Source) -> Self {
        let memory = model.encode(source);
        let candidates = Candidates::new(&model.output);
        Self {
            model,
            tokens: candidates.ids(),
            state: model.first_state(),
            row_memory: memory.clone(),
            memory,
            examples: RowExamples::new(source.batch_size()),
            device: candidates.device(),
            candidates,
        }
    }
}

impl<C: ScoringFunction> Decoding for TransformerDecoding<'_, C> {
    fn candidates(&self) -> &[u32] {
        &self.tokens
    }

    fn rows(&self) -> usize {
        self.examples.len()
    }

    /// Without weights: each layer has several heads, none of which is the attention to the source.
    fn step(&mut self, previous: &[u32]) -> NextTokens {
        self.examples.check(previous);
        let previous = on_device(previous.iter().map(|&token| i64::from(token)), &self.device);
        let features = self.model.step(previous, &self.row_memory, &mut self.state);
        NextTokens {
            log_probabilities: log_softmax(self.candidates.logits(features)),
            weights: None,
        }
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
