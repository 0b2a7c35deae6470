//! The texts of a causal model, as the interface for a search.

use attention_core::NewRows;
use burn::tensor::{Device, Int, Tensor};

use super::decoding::{Decoding, NextTokens, log_softmax, normalized};
use crate::generate::{CausalModel, SelectTexts, check_prompts, next_logits};

const NAME: &str = "TextDecoding";

/// The texts with which a model continues prompts: a [`Decoding`] with one row for each prompt.
pub struct TextDecoding<'a, S> {
    next: Box<Next<'a, S>>,
    device: Device,
    prompts: Vec<Vec<u32>>,
    /// The state before the prompts.
    first: S,
    state: S,
    /// The prompt of each row.
    prompt_of: Vec<usize>,
    /// The number of steps since the prompts.
    len: usize,
    candidates: Vec<u32>,
    ends: Vec<u32>,
    source_lens: Option<Vec<usize>>,
    normalize: Box<Normalize<'a>>,
}

type Next<'a, S> =
    dyn Fn(Tensor<2, Int>, NewRows<'_>, &mut S) -> (Tensor<2>, Option<Tensor<2>>) + 'a;

/// Turns a row of logits into log-probabilities; the number is that of the token in its text, counted from 1.
type Normalize<'a> = dyn Fn(&mut [f64], usize) + Sync + 'a;

impl<'a, S: SelectTexts> TextDecoding<'a, S> {
    /// Texts that begin with `prompts`, whose lengths may differ; `state` is an empty one, or one that has read earlier
    /// tokens of the same texts.
    ///
    /// # Panics
    /// If there are no prompts, or a prompt is empty.
    pub fn new(model: &'a impl CausalModel<State = S>, state: S, prompts: Vec<Vec<u32>>) -> Self {
        let next = |tokens: Tensor<2, Int>, rows: NewRows<'_>, state: &mut S| {
            (model.next_logits(tokens, rows, state), None)
        };
        Self::from_fn(model.device(), next, state, prompts)
    }

    /// As [`new`](Self::new), with a function instead of [`CausalModel::next_logits`]: it also returns the attention
    /// weights with which the last rows read a source, `[batch, keys]`, if a coverage penalty is to count.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn from_fn(
        device: Device,
        next: impl Fn(Tensor<2, Int>, NewRows<'_>, &mut S) -> (Tensor<2>, Option<Tensor<2>>) + 'a,
        state: S,
        prompts: Vec<Vec<u32>>,
    ) -> Self {
        check_prompts(NAME, &prompts);
        Self {
            next: Box::new(next),
            device,
            first: state.clone(),
            state,
            prompt_of: (0..prompts.len()).collect(),
            prompts,
            len: 0,
            candidates: Vec::new(),
            ends: Vec::new(),
            source_lens: None,
            normalize: Box::new(|row, _| log_softmax(row)),
        }
    }

    /// Sets the tokens that the logits of the model are for, by default all from 0 on.
    pub fn with_candidates(mut self, candidates: Vec<u32>) -> Self {
        self.candidates = candidates;
        self
    }

    /// Sets the tokens that end a text, by default none.
    pub fn with_ends(mut self, ends: Vec<u32>) -> Self {
        self.ends = ends;
        self
    }

    /// Sets the number of keys in each text's source that are not padding, by default all.
    pub fn with_source_lens(mut self, source_lens: Vec<usize>) -> Self {
        self.source_lens = Some(source_lens);
        self
    }

    /// Sets how logits become log-probabilities, by default by a softmax over the whole row.
    pub(crate) fn with_normalize(
        mut self,
        normalize: impl Fn(&mut [f64], usize) + Sync + 'a,
    ) -> Self {
        self.normalize = Box::new(normalize);
        self
    }

    /// The logits of the next tokens, and the attention weights.
    fn next(&mut self, previous: &[u32]) -> (Tensor<2>, Option<Tensor<2>>) {
        let new: Vec<&[u32]> = if self.len == 0 {
            let prompts = self.prompt_of.iter();
            prompts.map(|&prompt| &self.prompts[prompt][..]).collect()
        } else {
            previous.chunks(1).collect()
        };
        let (rows, tokens) = (self.rows(), new.len());
        assert!(
            tokens == rows,
            "{NAME}: a token for each of {rows} rows expected, got {tokens}"
        );
        self.len += 1;
        let (logits, weights) = next_logits(&new, &self.device, |tokens, rows| {
            (self.next)(tokens, rows, &mut self.state)
        });
        if self.candidates.is_empty() {
            let [_, vocab_size] = logits.dims();
            self.candidates = (0..vocab_size as u32).collect();
        }
        (logits, weights)
    }

    /// The weights of each row, without padding.
    fn without_padding(&self, weights: Tensor<2>) -> Vec<Vec<f32>> {
        let [_, keys] = weights.dims();
        let weights: Vec<f32> = weights.try_into_vec_as().expect("weights are floats");
        let rows = weights.chunks_exact(keys).zip(&self.prompt_of);
        let rows = rows.map(|(row, &prompt)| {
            let len = self.source_lens.as_ref().map_or(keys, |lens| lens[prompt]);
            row[..len].to_vec()
        });
        rows.collect()
    }
}

impl<S: SelectTexts> Decoding for TextDecoding<'_, S> {
    fn candidates(&self) -> &[u32] {
        &self.candidates
    }

    fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    fn rows(&self) -> usize {
        self.prompt_of.len()
    }

    fn context(&self, row: usize) -> &[u32] {
        &self.prompts[self.prompt_of[row]]
    }

    fn step(&mut self, previous: &[u32]) -> NextTokens {
        let (logits, weights) = self.next(previous);
        let (normalize, len) = (&self.normalize, self.len);
        NextTokens {
            log_probabilities: normalized(logits, &|row| normalize(row, len)),
            weights: weights.map(|weights| self.without_padding(weights)),
        }
    }

    fn most_likely(&mut self, previous: &[u32]) -> Vec<u32> {
        let (logits, _) = self.next(previous);
        let columns = logits.argmax(1).into_data();
        let columns = columns.iter::<i64>();
        columns.map(|at| self.candidates[at as usize]).collect()
    }

    /// Rows with the same prompt read the same source: as long as each place keeps its prompt, no source is copied.
    fn select(&mut self, rows: &[usize]) {
        if rows.iter().copied().eq(0..self.rows()) {
            return;
        }
        let prompt_of: Vec<usize> = rows.iter().map(|&row| self.prompt_of[row]).collect();
        let indices: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
        let indices = Tensor::<1, Int>::from_data(&indices[..], &self.device);
        if prompt_of == self.prompt_of {
            self.state.select_of_same_prompts(indices);
        } else {
            self.state.select(indices);
        }
        self.prompt_of = prompt_of;
    }

    fn restart(&mut self, examples: &[usize]) {
        self.state = self.first.clone();
        self.len = 0;
        self.prompt_of = (0..self.prompts.len()).collect();
        self.select(examples);
    }
}
