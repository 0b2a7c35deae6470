//! A model that is a table of probabilities, and all outputs that it can have.

use attention_transformers::generate::search::{
    BeamOutput, BeamSearchConfig, Decoding, NextTokens,
};

/// The token that ends an output.
pub(super) const END: u32 = 2;

/// The first token of the data.
pub(super) const A: u32 = 4;

/// A model that is a function from the tokens so far to the probabilities of the end and of the tokens from [`A`] on.
pub(super) struct Table<F> {
    probabilities: F,
    tokens: Vec<u32>,
    /// The tokens of each row.
    rows: Vec<Vec<u32>>,
    pub(super) steps: usize,
    /// The rows of all steps.
    pub(super) computed: usize,
    is_new: bool,
}

impl<F: Fn(&[u32]) -> Vec<f64>> Table<F> {
    pub(super) fn new(examples: usize, probabilities: F) -> Self {
        let count = probabilities(&[]).len() as u32 - 1;
        Self {
            probabilities,
            tokens: [END].into_iter().chain(A..A + count).collect(),
            rows: vec![Vec::new(); examples],
            steps: 0,
            computed: 0,
            is_new: true,
        }
    }
}

impl<F: Fn(&[u32]) -> Vec<f64>> Decoding for Table<F> {
    fn candidates(&self) -> &[u32] {
        &self.tokens
    }

    fn is_end(&self, token: u32) -> bool {
        token == END
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn step(&mut self, previous: &[u32]) -> NextTokens {
        let expected = if self.is_new { 0 } else { self.rows.len() };
        assert_eq!(previous.len(), expected);
        for (row, &token) in self.rows.iter_mut().zip(previous) {
            row.push(token);
        }
        self.is_new = false;
        self.steps += 1;
        self.computed += self.rows.len();
        let probabilities = self.rows.iter().flat_map(|row| (self.probabilities)(row));
        NextTokens {
            log_probabilities: probabilities.map(f64::ln).collect(),
            // Two source tokens: the second is read by whoever has written nothing but `a`.
            weights: Some(self.rows.iter().map(|row| weights(row)).collect()),
        }
    }

    fn select(&mut self, rows: &[usize]) {
        self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
    }

    fn restart(&mut self, examples: &[usize]) {
        self.rows = vec![Vec::new(); examples.len()];
        self.is_new = true;
    }
}

pub(super) fn weights(row: &[u32]) -> Vec<f32> {
    match row.iter().all(|&token| token == A) {
        true => vec![0.25, 0.75],
        false => vec![1.0, 0.0],
    }
}

/// Probabilities that look random, from the tokens so far: of the end and of `tokens` tokens.
pub(super) fn scrambled(tokens: u32, seed: u64) -> impl Fn(&[u32]) -> Vec<f64> {
    move |row: &[u32]| {
        let mut state = row.iter().fold(seed, |state, &token| {
            let mixed = (state ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed.rotate_left(23)
        });
        let draws = (0..=tokens).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            0.05 + (state >> 40) as f64 / (1u64 << 24) as f64
        });
        let draws: Vec<f64> = draws.collect();
        let sum: f64 = draws.iter().sum();
        draws.into_iter().map(|draw| draw / sum).collect()
    }
}

/// Every output of at most `max_len` tokens, by plain recursion, as the documentation orders them.
pub(super) fn every_output(
    config: &BeamSearchConfig,
    table: &impl Fn(&[u32]) -> Vec<f64>,
) -> Vec<BeamOutput> {
    fn score(config: &BeamSearchConfig, sum: f64, len: usize, steps: &[Vec<f32>]) -> f64 {
        let penalty = ((5.0 + len as f64) / 6.0).powf(config.length_penalty.exponent());
        let covered = |key: usize| {
            let sum: f64 = steps.iter().map(|step| f64::from(step[key])).sum();
            sum.clamp(1e-6, 1.0).ln()
        };
        let coverage = match steps {
            [] => 0.0,
            _ => covered(0) + covered(1),
        };
        sum / penalty + config.coverage_penalty * coverage
    }
    fn go_on(
        config: &BeamSearchConfig,
        table: &impl Fn(&[u32]) -> Vec<f64>,
        tokens: &mut Vec<u32>,
        sum: f64,
        found: &mut Vec<BeamOutput>,
    ) {
        let len = tokens.len();
        let output = |sum: f64, ended: bool| {
            let written = len + usize::from(ended);
            let steps: Vec<_> = (0..written).map(|len| weights(&tokens[..len])).collect();
            BeamOutput {
                tokens: tokens.clone(),
                ended,
                log_probability: sum,
                score: score(config, sum, written, &steps),
            }
        };
        if len == config.max_len {
            return found.push(output(sum, false));
        }
        let probabilities = table(tokens);
        if len >= config.min_len.max(config.prefix.len()) {
            found.push(output(sum + probabilities[0].ln(), true));
        }
        for (token, probability) in (A..).zip(&probabilities[1..]) {
            if config.prefix.get(len).is_none_or(|&forced| forced == token) {
                tokens.push(token);
                go_on(config, table, tokens, sum + probability.ln(), found);
                tokens.pop();
            }
        }
    }
    let mut found = Vec::new();
    go_on(config, table, &mut Vec::new(), 0.0, &mut found);
    found.sort_by(|a, b| b.ended.cmp(&a.ended).then(b.score.total_cmp(&a.score)));
    found
}
