//! Decoding, step by step: what a search asks of a model.

use burn::tensor::Tensor;
use rayon::prelude::*;

/// The outputs of one batch in the making, each row one of them: what a search asks of a model. It begins with a row
/// for each example. [`TextDecoding`](super::TextDecoding) makes it of a [`CausalModel`](crate::generate::CausalModel).
pub trait Decoding {
    /// The tokens that may come next, in the order of [`NextTokens::log_probabilities`]; known after the first step at
    /// the latest. Of equals a search chooses the first.
    fn candidates(&self) -> &[u32];

    /// Whether a token ends an output.
    fn is_end(&self, token: u32) -> bool;

    /// The number of rows.
    fn rows(&self) -> usize;

    /// The tokens before the first token of a row, which count as repeated where the row has them again. By default
    /// there are none.
    fn context(&self, _row: usize) -> &[u32] {
        &[]
    }

    /// Goes on by one token: `previous` are the last tokens of the rows, at first none, as the decoding knows with
    /// which tokens its examples begin.
    ///
    /// # Panics
    /// If there are other numbers of tokens and of rows.
    fn step(&mut self, previous: &[u32]) -> NextTokens;

    /// [`step`](Self::step), for the most likely candidate of each row alone: the first of equals, and the first
    /// candidate where a row has no probabilities.
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
#[derive(Clone, Debug)]
pub struct NextTokens {
    /// The log-probability of each candidate, `[rows, candidates]`: over the candidates alone, which are all tokens
    /// that an output can have, so that the probabilities of a row sum to 1. NaN in all of a row whose logits are NaN
    /// or infinite.
    pub log_probabilities: Vec<f64>,
    /// The attention weights with which the step read the source, `[keys]` of each row, padding left out; none if they
    /// were not asked for, or the model has no single attention to a source.
    pub weights: Option<Vec<Vec<f32>>>,
}

/// The most elements of rows that one thread normalizes by itself.
const ELEMENTS_OF_TASK: usize = 1 << 14;

/// The rows of logits, `[rows, candidates]`, each normalized by `normalize`: in `f64`, so that sums over many steps
/// differ by no more than sums of logits do.
pub(super) fn normalized(logits: Tensor<2>, normalize: &(dyn Fn(&mut [f64]) + Sync)) -> Vec<f64> {
    let [_, columns] = logits.dims();
    let mut rows: Vec<f64> = logits.try_into_vec_as().expect("logits are floats");
    let of_task = ELEMENTS_OF_TASK.div_ceil(columns.max(1));
    rows.par_chunks_mut(columns.max(1))
        .with_min_len(of_task)
        .for_each(normalize);
    rows
}

/// Makes log-probabilities of a row of logits: the logarithm of their softmax. The largest logit is subtracted first:
/// the sum is at least 1, so that no log-probability is above 0.
pub(in crate::generate) fn log_softmax(row: &mut [f64]) {
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
