//! Decoding, step by step: what a search asks of a model.

use burn::tensor::{Device, Int, Tensor, TensorData};
use rayon::prelude::*;

/// The outputs of one batch in the making, each row one of them: what a search asks of a model.
/// [`Seq2SeqModel::decoding`](super::Seq2SeqModel::decoding) begins with a row for each source.
pub trait Decoding {
    /// The tokens that may come next: the end first, then the data's.
    ///
    /// Padding, begin and the unknown token are none of them.
    fn candidates(&self) -> &[u32];

    /// The number of rows.
    fn rows(&self) -> usize;

    /// Goes on by one token: `previous` are the last tokens of the rows, at first the begin token.
    ///
    /// # Panics
    /// If there are other numbers of tokens and of rows.
    fn step(&mut self, previous: &[u32]) -> NextTokens;

    /// [`step`](Self::step), for the most likely candidate of each row alone: the first of equals, and the end where a
    /// row has no probabilities.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    fn most_likely(&mut self, previous: &[u32]) -> Vec<u32> {
        let next = self.step(previous);
        let tokens = self.candidates();
        let rows = next.log_probabilities.chunks_exact(tokens.len());
        rows.map(|row| tokens[index_of_largest(row)]).collect()
    }

    /// Goes on with the outputs of these rows, in this order: one may be left out, or come several times.
    ///
    /// # Panics
    /// If one is no row.
    fn select(&mut self, rows: &[usize]);

    /// Begins again, with a row for each of these examples, which are counted as at first.
    ///
    /// # Panics
    /// If one is no example.
    fn restart(&mut self, examples: &[usize]);
}

/// The output of [`Decoding::step`].
pub struct NextTokens {
    /// The log-probability of each candidate, `[rows, candidates]`: over the candidates alone, which are all tokens
    /// that an output can have, so that the probabilities of a row sum to 1. NaN in all of a row whose logits are NaN
    /// or infinite.
    pub log_probabilities: Vec<f64>,
    /// The attention weights with which the step read the source, `[keys]` of each row, padding left out; none if they
    /// were not asked for, or the model has no single attention to the source, as a
    /// [`Transformer`](super::Transformer).
    pub weights: Option<Vec<Vec<f32>>>,
}

/// The most elements of rows that one thread normalizes by itself.
const ELEMENTS_OF_TASK: usize = 1 << 14;

/// The logarithm of the softmax of each row of logits, `[rows, candidates]`: in `f64`, so that sums over many steps
/// differ by no more than sums of logits do.
pub(super) fn log_softmax(logits: Tensor<2>) -> Vec<f64> {
    let [_, columns] = logits.dims();
    let mut rows: Vec<f64> = logits.try_into_vec_as().expect("logits are floats");
    let of_task = ELEMENTS_OF_TASK.div_ceil(columns.max(1));
    rows.par_chunks_mut(columns.max(1))
        .with_min_len(of_task)
        .for_each(normalize);
    rows
}

/// The largest logit is subtracted first: the sum is at least 1, so that no log-probability is above 0.
fn normalize(row: &mut [f64]) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = row.iter().map(|logit| (logit - largest).exp()).sum();
    let log_total = total.ln();
    for logit in row {
        *logit = (*logit - largest) - log_total;
    }
}

/// The index of the first of the largest elements; 0 if the row is NaN.
fn index_of_largest(row: &[f64]) -> usize {
    let mut best = 0;
    for (column, &it) in row.iter().enumerate() {
        if it > row[best] {
            best = column;
        }
    }
    best
}

/// Tokens, or indices of rows, on the device, `[rows]`.
fn on_device(values: impl Iterator<Item = i64>, device: &Device) -> Tensor<1, Int> {
    let values: Vec<i64> = values.collect();
    let shape = [values.len()];
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Tokens on the device, `[rows]`.
pub(super) fn tokens_on_device(tokens: &[u32], device: &Device) -> Tensor<1, Int> {
    on_device(tokens.iter().map(|&token| i64::from(token)), device)
}

/// The example that each row of a pass decodes: what a selection of rows means for a memory of the source, which has a
/// row for each example at first.
#[derive(Clone, Debug)]
pub(super) struct RowExamples(Vec<usize>);

/// The parts of a pass that a selection of rows changes.
pub(super) struct Selection {
    /// Rows of the state, if they change.
    pub(super) rows: Option<Tensor<1, Int>>,
    /// The example of each row, if any is another than before.
    pub(super) examples: Option<Tensor<1, Int>>,
}

impl RowExamples {
    /// A row for each of `examples` examples.
    pub(super) fn new(examples: usize) -> Self {
        Self((0..examples).collect())
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The example of each row.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// # Panics
    /// If there are other numbers of tokens and of rows.
    pub(super) fn check(&self, previous: &[u32]) {
        let (rows, tokens) = (self.len(), previous.len());
        assert!(
            tokens == rows,
            "Decoding: a token for each of {rows} rows expected, got {tokens}"
        );
    }

    /// Begins again, with a row for each of these examples; their indices.
    pub(super) fn restart(&mut self, examples: &[usize], device: &Device) -> Tensor<1, Int> {
        self.0 = examples.to_vec();
        on_device(self.iter().map(|example| example as i64), device)
    }

    /// Selects rows. Beams of one example read the same memory: as long as each example keeps its number of rows, no
    /// memory is copied.
    ///
    /// # Panics
    /// If one is no row.
    pub(super) fn select(&mut self, rows: &[usize], device: &Device) -> Selection {
        if rows.iter().copied().eq(0..self.len()) {
            return Selection {
                rows: None,
                examples: None,
            };
        }
        let indices = |of: &[usize]| on_device(of.iter().map(|&it| it as i64), device);
        let examples: Vec<usize> = rows.iter().map(|&row| self.0[row]).collect();
        let selection = Selection {
            rows: Some(indices(rows)),
            examples: (examples != self.0).then(|| indices(&examples)),
        };
        self.0 = examples;
        selection
    }
}
