//! Beam search.

use burn::config::Config;
use burn::tensor::{Int, Tensor};
use burn_fused_layers::harness::checks::{assert_finite, assert_positive};

use super::{CausalModel, check_prompts, next_logits};

/// The state of several texts, of which a search keeps some.
pub trait SelectTexts {
    /// The texts `indices`, in that order; one may be left out, or come several times.
    ///
    /// # Shapes
    /// - indices `[new_batch]`
    fn select(&mut self, indices: Tensor<1, Int>);
}

/// Configuration of a beam search, which keeps the `beams` most likely beginnings of each text, step by step.
///
/// A text that ends has the score `log p / n^length_penalty`, where `log p` is the sum of the log-probabilities of its
/// `n` tokens. The search of a text ends once it has `beams` that ended, and the best beginning, were it to end now,
/// would not score above the worst of them.
///
/// Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", section 3.2. With the same settings it
/// finds what `generate(num_beams=beams)` of Hugging Face's `transformers` 5.24 does.
///
/// ```
/// use attention_transformers::{
///     BeamConfig, LanguageModelConfig, TokenEmbeddingConfig, TransformerEncoderConfig, TransformerLayerConfig,
/// };
/// use burn::prelude::*;
///
/// let stack = TransformerEncoderConfig::new(TransformerLayerConfig::new(16, 4, 21), 2);
/// let config = LanguageModelConfig::new(TokenEmbeddingConfig::new(31, 16), stack);
/// let model = config.init(&Device::flex());
/// let config = BeamConfig::new(4, 10).with_stop_tokens(vec![2]).with_excluded_tokens(vec![0]);
/// let texts = config.generate(&model, model.cache(), &[vec![3, 1, 4], vec![1, 5]]);
/// assert!(texts[1][0].score >= texts[1][1].score);
/// ```
#[derive(Config, Debug)]
pub struct BeamConfig {
    /// The number of beginnings that a step keeps of each text.
    pub beams: usize,
    /// The number of tokens after which a text ends, those of its prompt not counted.
    pub max_tokens: usize,
    /// The tokens with which a text ends.
    #[config(default = "Vec::new()")]
    pub stop_tokens: Vec<u32>,
    /// The tokens that no text has, such as padding.
    #[config(default = "Vec::new()")]
    pub excluded_tokens: Vec<u32>,
    /// Whether probabilities are over the other tokens alone; otherwise excluded tokens keep their share.
    #[config(default = false)]
    pub renormalize: bool,
    /// The token, of probability 1, that a text of `max_tokens` ends with.
    #[config(default = "None")]
    pub last_token: Option<u32>,
    /// The exponent of the number of tokens in a score: above 0, long texts gain.
    #[config(default = 1.0)]
    pub length_penalty: f64,
    /// Whether the search of a text ends as soon as `beams` have ended.
    #[config(default = false)]
    pub early_stopping: bool,
}

/// A text that a beam search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Beam {
    /// The tokens after the prompt, the stop token included.
    pub tokens: Vec<u32>,
    /// The score by which texts are ordered.
    pub score: f64,
}

impl BeamConfig {
    /// The texts that follow each of `prompts`, whose lengths may differ, the best first and at most `beams` of each;
    /// `state` is an empty one, or one that has seen other tokens of the same texts before.
    ///
    /// # Panics
    /// If there are no prompts, one is empty, `beams` or `max_tokens` is 0, `length_penalty` is not finite,
    /// `last_token` is none of the model's tokens, the model panics, or it gives a text no finite logit of a token that
    /// is possible.
    pub fn generate<M: CausalModel>(
        &self,
        model: &M,
        mut state: M::State,
        prompts: &[impl AsRef<[u32]>],
    ) -> Vec<Vec<Beam>>
    where
        M::State: SelectTexts,
    {
        const NAME: &str = "BeamConfig";
        check_prompts(NAME, prompts);
        let sizes = [("beams", self.beams), ("max_tokens", self.max_tokens)];
        assert_positive(NAME, &sizes);
        assert_finite(NAME, "length_penalty", self.length_penalty);
        let mut texts: Vec<Text> = prompts.iter().map(|_| Text::new()).collect();
        let mut new: Vec<Vec<u32>> = prompts.iter().map(|of| of.as_ref().to_vec()).collect();
        for len in 1..=self.max_tokens {
            let logits = next_logits(model, &new, &mut state);
            let mut rows = logits.iter().map(|row| self.log_probabilities(row, len));
            let (mut first, mut parents) = (0, Vec::new());
            for text in &mut texts {
                let count = text.running.len();
                let rows: Vec<Vec<f64>> = rows.by_ref().take(count).collect();
                let kept = text.extend(&rows, len, self);
                parents.extend(kept.into_iter().map(|parent| (first + parent) as i64));
                first += count;
            }
            if parents.is_empty() {
                break;
            }
            let running = texts.iter().flat_map(|text| &text.running);
            new = running
                .map(|beam| beam.tokens[len - 1..].to_vec())
                .collect();
            state.select(Tensor::from_data(parents.as_slice(), &model.device()));
        }
        texts.into_iter().map(|text| text.ended).collect()
    }

    /// The log-probability of each token as number `len` of a text.
    fn log_probabilities(&self, logits: &[f64], len: usize) -> Vec<f64> {
        const NEVER: f64 = f64::NEG_INFINITY;
        if let Some(last) = self.last_token.filter(|_| len == self.max_tokens) {
            let tokens = 0..logits.len();
            assert!(
                tokens.contains(&(last as usize)),
                "BeamConfig: last_token expected in {tokens:?}, got {last}"
            );
            return tokens
                .map(|token| if token == last as usize { 0.0 } else { NEVER })
                .collect();
        }
        let is_excluded = |token: usize| self.excluded_tokens.contains(&(token as u32));
        let is_possible = |(token, logit): (usize, &f64)| logit.is_finite() && !is_excluded(token);
        assert!(
            logits.iter().enumerate().any(is_possible),
            "BeamConfig: a finite logit of a token that is not excluded expected, got none"
        );
        let counts = |token: usize| !(self.renormalize && is_excluded(token));
        let counted = || {
            let logits = logits.iter().enumerate();
            logits.filter(|(token, logit)| counts(*token) && !logit.is_nan())
        };
        let largest = counted().fold(NEVER, |largest, (_, logit)| largest.max(*logit));
        let total: f64 = counted().map(|(_, logit)| (logit - largest).exp()).sum();
        let log_total = largest + total.ln();
        let log_probability = |(token, logit): (usize, &f64)| {
            if is_excluded(token) || logit.is_nan() {
                NEVER
            } else {
                logit - log_total
            }
        };
        logits.iter().enumerate().map(log_probability).collect()
    }

    /// The score of a text of `len` tokens.
    fn score(&self, log_probability: f64, len: usize) -> f64 {
        log_probability / (len as f64).powf(self.length_penalty)
    }
}

/// The beginnings of a text, whose score is their log-probability, the most likely first, and the texts that ended, the
/// best first.
struct Text {
    running: Vec<Beam>,
    ended: Vec<Beam>,
}

/// A beginning and the token that extends it.
struct Extension {
    parent: usize,
    token: u32,
    log_probability: f64,
}

impl Text {
    fn new() -> Self {
        let beginning = Beam {
            tokens: Vec::new(),
            score: 0.0,
        };
        Self {
            running: vec![beginning],
            ended: Vec::new(),
        }
    }

    /// Goes on by a token, whose log-probability after each beginning is in `rows`, and returns the parents of the
    /// beginnings that are kept: none once the search is done.
    fn extend(&mut self, rows: &[Vec<f64>], len: usize, config: &BeamConfig) -> Vec<usize> {
        let BeamConfig {
            beams,
            max_tokens,
            stop_tokens,
            ..
        } = config;
        // So many that `beams` go on, however many of them end.
        let extensions = self.best_extensions(rows, beams * (1 + stop_tokens.len()).max(2));
        let before = std::mem::take(&mut self.running);
        let mut parents = Vec::with_capacity(*beams);
        for (rank, extension) in extensions.iter().enumerate() {
            let Extension {
                parent,
                token,
                log_probability,
            } = *extension;
            let extended = |score| Beam {
                tokens: [&before[parent].tokens[..], &[token]].concat(),
                score,
            };
            if len < *max_tokens && !stop_tokens.contains(&token) {
                if parents.len() < *beams {
                    self.running.push(extended(log_probability));
                    parents.push(parent);
                }
            } else if rank < *beams {
                let score = config.score(log_probability, len);
                let place = self.ended.partition_point(|of| of.score >= score);
                self.ended.insert(place, extended(score));
                self.ended.truncate(*beams);
            }
        }
        if self.is_done(len, config) {
            self.running.clear();
            parents.clear();
        }
        parents
    }

    /// The `count` most likely extensions, of equals that of the first beginning and token.
    fn best_extensions(&self, rows: &[Vec<f64>], count: usize) -> Vec<Extension> {
        let mut extensions = Vec::new();
        for (parent, (row, beginning)) in rows.iter().zip(&self.running).enumerate() {
            let possible = row.iter().enumerate();
            let possible = possible.filter(|(_, of_token)| of_token.is_finite());
            extensions.extend(possible.map(|(token, of_token)| Extension {
                parent,
                token: token as u32,
                log_probability: beginning.score + of_token,
            }));
        }
        let order = |one: &Extension, other: &Extension| {
            let by_sum = other.log_probability.total_cmp(&one.log_probability);
            by_sum.then((one.parent, one.token).cmp(&(other.parent, other.token)))
        };
        if extensions.len() > count {
            extensions.select_nth_unstable_by(count, order);
            extensions.truncate(count);
        }
        extensions.sort_unstable_by(order);
        extensions
    }

    /// Whether no beginning goes on, or none is likely enough to do better than the texts that ended.
    fn is_done(&self, len: usize, config: &BeamConfig) -> bool {
        let (Some(best), Some(worst)) = (self.running.first(), self.ended.get(config.beams - 1))
        else {
            return self.running.is_empty();
        };
        config.early_stopping || config.score(best.score, len) <= worst.score
    }
}
