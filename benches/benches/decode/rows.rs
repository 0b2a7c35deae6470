//! Rows of the decoder: a row is one step of one hypothesis.

use attention_seq2seq::Seq2SeqModel;
use attention_seq2seq::data::Source;
use attention_seq2seq::model::{BeamSearchConfig, Decoding, NextTokens};
use burn::tensor::Device;

/// The sources of a batch. It changes no count: a source's hypotheses do not depend on the others.
const BATCH: usize = 256;

/// A decoding that counts the rows of its steps.
struct Counted<'a> {
    decoding: Box<dyn Decoding + 'a>,
    rows: usize,
}

impl Decoding for Counted<'_> {
    fn candidates(&self) -> &[u32] {
        self.decoding.candidates()
    }

    fn is_end(&self, token: u32) -> bool {
        self.decoding.is_end(token)
    }

    fn rows(&self) -> usize {
        self.decoding.rows()
    }

    fn step(&mut self, previous: &[u32]) -> NextTokens {
        self.rows += self.decoding.rows();
        self.decoding.step(previous)
    }

    fn select(&mut self, rows: &[usize]) {
        self.decoding.select(rows);
    }

    fn restart(&mut self, examples: &[usize]) {
        self.decoding.restart(examples);
    }
}

/// The rows of a search, in the mean of the sources.
pub(crate) fn rows_of_source(
    search: &BeamSearchConfig,
    model: &impl Seq2SeqModel,
    sources: &[Vec<u32>],
    device: &Device,
) -> f64 {
    let mut in_order: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
    in_order.sort_by_key(|source| source.len());
    let of_length = in_order.chunk_by(|a, b| a.len() == b.len());
    let rows = of_length
        .flat_map(|sources| sources.chunks(BATCH))
        .map(|batch| {
            let source = Source::new(batch.iter().copied(), device);
            let mut counted = Counted {
                decoding: model.decoding(&source, search.max_len, false),
                rows: 0,
            };
            let outputs = search.search(&mut counted);
            outputs.expect("the model has probabilities");
            counted.rows
        });
    rows.sum::<usize>() as f64 / sources.len() as f64
}
