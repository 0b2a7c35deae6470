//! The interface of a model for a search: decoding step by step.

use burn::tensor::Tensor;
use rayon::prelude::*;

/// The interface of a model for a search: the unfinished outputs of one batch, one per row, at first one for each
/// example. [`TextDecoding`](super::TextDecoding) implements it for a [`CausalModel`](crate::generate::CausalModel).
pub trait Decoding {
    /// The tokens that may come next, in the order of [`NextTokens::log_probabilities`]; known at the latest after the
    /// first step. Of equally likely ones, a search chooses the first.
    fn candidates(&self) -> &[u32];

    /// Whether a token ends an output.
    fn is_end(&self, token: u32) -> bool;

    /// The number of rows.
    fn rows(&self) -> usize;

    /// The tokens before the first token of a row, which count for the limits on repetition. By default there are none.
    fn context(&self, _row: usize) -> &[u32] {
        &[]
    }

    /// Decodes one more token: `previous` are the last tokens of the rows; it is empty at first, because the decoding
    /// knows the tokens with which its examples begin.
    ///
    /// # Panics
    /// If the numbers of tokens and of rows differ.
    fn step(&mut self, previous: &[u32]) -> NextTokens;

    /// [`step`](Self::step), but only the most likely candidate of each row: the first of equally likely ones, and the
    /// first candidate for a row without probabilities.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    fn most_likely(&mut self, previous: &[u32]) -> Vec<u32> {
        let next = self.step(previous);
        let tokens = self.candidates();
        let rows = next.log_probabilities.chunks_exact(tokens.len());
        rows.map(|row| tokens[index_of_largest(row)]).collect()
    }

    /// Continues with the outputs of these rows, in this order: rows may be left out, or come several times.
    ///
    /// # Panics
    /// If an index is no row.
    fn select(&mut self, rows: &[usize]);

    /// Begins again, with a row for each of these examples, numbered as at first.
    ///
    /// # Panics
    /// If an index is no example.
    fn restart(&mut self, examples: &[usize]);
}

/// The output of [`Decoding::step`].
#[derive(Clone, Debug)]
pub struct NextTokens {
    /// The log-probability of each candidate, `[rows, candidates]`: normalized over the candidates, which are all
    /// tokens that an output can have, so that the probabilities of a row sum to 1. A row is all NaN if its logits are
    /// NaN or infinite.
    pub log_probabilities: Vec<f64>,
    /// The attention weights with which the step read the source, `[keys]` of each row, without padding; `None` if they
    /// were not requested, or the model has no single attention to a source.
    pub weights: Option<Vec<Vec<f32>>>,
}

/// The largest number of elements that one thread normalizes.
const ELEMENTS_OF_TASK: usize = 1 << 14;

/// The rows of logits, `[rows, candidates]`, each normalized by `normalize` in `f64`, so that sums over many steps are
/// about as exact as sums of logits.
pub(super) fn normalized(logits: Tensor<2>, normalize: &(dyn Fn(&mut [f64]) + Sync)) -> Vec<f64> {
    let [_, columns] = logits.dims();
    let mut rows: Vec<f64> = logits.try_into_vec_as().expect("logits are floats");
    each_row(&mut rows, columns, normalize);
    rows
}

/// Changes each row, of `columns` elements.
pub(super) fn each_row(rows: &mut [f64], columns: usize, change: &(dyn Fn(&mut [f64]) + Sync)) {
    let of_task = ELEMENTS_OF_TASK.div_ceil(columns.max(1));
    let by_row = rows.par_chunks_mut(columns.max(1));
    by_row.with_min_len(of_task).for_each(change);
}

/// Turns a row of logits into log-probabilities: the logarithm of their softmax. The largest logit is subtracted first,
/// so the sum is at least 1, and no log-probability is above 0.
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
