//! Texts that a model continues, token by token.

mod beam;
mod repetition;
mod sampling;
pub mod search;

use attention_core::NewRows;
pub use beam::{BeamConfig, SelectTexts};
use burn::config::Config;
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
pub use sampling::{RandomSamplingConfig, Sampling};
pub use search::EarlyStopping;

use crate::position_embedding::PositionLimit;
use repetition::Repetition;

/// A model that predicts the next token, as generation uses it.
pub trait CausalModel {
    /// The texts so far, as in [`TransformerCache`](super::TransformerCache); in an encoder-decoder model with the
    /// memory.
    type State;

    /// The device for the tokens.
    fn device(&self) -> Device;

    /// The logits of the token after the last one of each example, whose new `rows` are appended to the state. The
    /// logits of an example without new tokens are not read.
    ///
    /// Generation pads at the right: `rows` is [`NewRows::All`], or [`NewRows::First`] for prompts of different
    /// lengths, and later if some texts have ended, whose numbers are 0.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, 0 in padding; result `[batch, vocab_size]`
    fn next_logits(
        &self,
        tokens: Tensor<2, Int>,
        rows: NewRows,
        state: &mut Self::State,
    ) -> Tensor<2>;

    /// The number of positions of a text, at which generation ends it; by default unlimited.
    fn position_limit(&self) -> Option<PositionLimit> {
        None
    }

    /// The number of tokens of each text in a state; empty if the state has read no text.
    fn lengths(&self, _: &Self::State) -> Vec<usize> {
        Vec::new()
    }
}

/// Configuration of [`Generation`].
#[derive(Config, Debug)]
pub struct GenerateConfig {
    /// The number of tokens after which a text ends, without its prompt.
    pub max_tokens: usize,
    /// The smallest number of tokens of a text: before it is reached, stop tokens are not chosen, and stop sequences
    /// are ignored. (`min_new_tokens` of `transformers` is one less, because it does not count the stop token.)
    #[config(default = 0)]
    pub min_tokens: usize,
    /// The tokens that end a text.
    #[config(default = "Vec::new()")]
    pub stop_tokens: Vec<u32>,
    /// The sequences of tokens that end a text; prompts are not searched for them.
    #[config(default = "Vec::new()")]
    pub stop_sequences: Vec<Vec<u32>>,
    /// How each token is chosen.
    #[config(default = "Sampling::Greedy")]
    pub sampling: Sampling,
    /// The seed of random choices: text `b` of a batch draws the same numbers, whatever the other texts do.
    #[config(default = 0)]
    pub seed: u64,
    /// Divides the logit of a token that the prompt or the text already has if the logit is above 0, and multiplies it
    /// otherwise: Keskar et al. 2019, "CTRL", section 4.1. Above 1, tokens recur less often.
    #[config(default = 1.0)]
    pub repetition_penalty: f64,
    /// The size of the n-grams that a text and its prompt may not have twice; 0 for no limit.
    #[config(default = 0)]
    pub no_repeat_ngram_size: usize,
}

impl GenerateConfig {
    /// Continues each of `prompts`, whose lengths may differ, from `state`: an empty one, or one that has read earlier
    /// tokens of the same texts.
    ///
    /// # Panics
    /// If there are no prompts, a prompt or a stop sequence is empty, `min_tokens` is above `max_tokens`,
    /// `repetition_penalty` is not above 0, or a number of the sampling is out of range.
    pub fn generate<'a, M: CausalModel>(
        &self,
        model: &'a M,
        state: M::State,
        prompts: &[impl AsRef<[u32]>],
    ) -> Generation<'a, M> {
        const NAME: &str = "GenerateConfig";
        check_prompts(NAME, prompts);
        assert!(
            self.stop_sequences.iter().all(|of| !of.is_empty()),
            "{NAME}: stop_sequences of at least one token expected, got {:?}",
            self.stop_sequences
        );
        check_min_tokens(NAME, self.min_tokens, self.max_tokens);
        check_repetition(NAME, self.repetition_penalty);
        self.sampling.check();
        let text = |b: usize| {
            let mut random = ChaCha8Rng::seed_from_u64(self.seed);
            random.set_stream(b as u64);
            Text {
                prompt: prompts[b].as_ref().to_vec(),
                new: prompts[b].as_ref().to_vec(),
                generated: Generated {
                    tokens: Vec::new(),
                    finish_reason: (self.max_tokens == 0).then_some(FinishReason::MaxTokens),
                },
                random,
            }
        };
        Generation {
            config: self.clone(),
            model,
            state,
            texts: (0..prompts.len()).map(text).collect(),
        }
    }
}

/// The reason why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It has reached the largest number of tokens.
    MaxTokens,
    /// A stop token ended it.
    StopToken(u32),
    /// The stop sequence with this index ended it.
    StopSequence(usize),
    /// The model has no position for its last token.
    PositionLimit(PositionLimit),
}

/// The tokens that follow a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The tokens, including the stop token or sequence that ended them.
    pub tokens: Vec<u32>,
    /// The reason why the text ended; `None` before that.
    pub finish_reason: Option<FinishReason>,
}

impl Generated {
    /// Appends a token, and ends the text if `config` says so.
    fn push(&mut self, token: u32, config: &GenerateConfig) {
        self.tokens.push(token);
        if self.tokens.len() >= config.min_tokens {
            let mut sequences = config.stop_sequences.iter();
            let sequence = sequences.position(|of| self.tokens.ends_with(of));
            self.finish_reason = if config.stop_tokens.contains(&token) {
                Some(FinishReason::StopToken(token))
            } else {
                sequence.map(FinishReason::StopSequence)
            };
        }
        if self.finish_reason.is_none() && self.tokens.len() >= config.max_tokens {
            self.finish_reason = Some(FinishReason::MaxTokens);
        }
    }
}

/// A running generation: an iterator of steps, where a step has a token for every text, and `None` for a text that has
/// ended. It stops when all texts have ended. It is made by [`GenerateConfig::generate`].
///
/// The prompts, and each token after them, go through the same call of the model; a text that has ended takes no more
/// space there.
///
/// ```
/// use attention_transformers::generate::RandomSamplingConfig;
/// use attention_transformers::{
///     GenerateConfig, LanguageModelConfig, Sampling, TokenEmbeddingConfig, TransformerEncoderConfig,
///     TransformerLayerConfig,
/// };
/// use burn::prelude::*;
///
/// let stack = TransformerEncoderConfig::new(TransformerLayerConfig::new(16, 4, 21), 2);
/// let config = LanguageModelConfig::new(TokenEmbeddingConfig::new(31, 16), stack);
/// let model = config.init(&Device::flex());
/// let sampling = RandomSamplingConfig::new().with_temperature(0.8).with_top_p(Some(0.9));
/// let config = GenerateConfig::new(10)
///     .with_stop_tokens(vec![2])
///     .with_sampling(Sampling::Random(sampling))
///     .with_seed(7);
/// let prompts = [vec![3, 1, 4], vec![1, 5]];
/// for step in config.generate(&model, model.cache(), &prompts) {
///     if let Some(token) = step[0] {
///         print!("{token} ");
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Generation<'a, M: CausalModel> {
    config: GenerateConfig,
    model: &'a M,
    state: M::State,
    texts: Vec<Text>,
}

#[derive(Debug)]
struct Text {
    prompt: Vec<u32>,
    /// The tokens that the model has not read yet.
    new: Vec<u32>,
    generated: Generated,
    random: ChaCha8Rng,
}

impl<M: CausalModel> Generation<'_, M> {
    /// The tokens so far.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = &Generated> {
        self.texts.iter().map(|text| &text.generated)
    }

    /// Runs all remaining steps, and returns the tokens of all steps.
    pub fn run(mut self) -> Vec<Generated> {
        while self.next().is_some() {}
        let texts = self.texts.into_iter();
        texts.map(|text| text.generated).collect()
    }

    /// The state of the model: after a step it has read all tokens except the last of each text; before the first step
    /// it is as it was given.
    pub fn into_state(self) -> M::State {
        self.state
    }

    /// Ends the texts whose new token has no position.
    fn end_at_limit(&mut self) {
        let Some(limit) = self.model.position_limit() else {
            return;
        };
        let seen = self.model.lengths(&self.state);
        for (b, text) in self.texts.iter_mut().enumerate() {
            let len = seen.get(b).unwrap_or(&0) + text.new.len();
            let is_prompt = text.generated.tokens.is_empty();
            if !text.new.is_empty() && !is_prompt && len > limit.max_positions {
                text.new.clear();
                text.generated.finish_reason = Some(FinishReason::PositionLimit(limit));
            }
        }
    }

    /// The logits of each text, `[batch][vocab_size]`, after the tokens that the model has not read yet; an ended text
    /// has no such tokens.
    fn logits(&mut self) -> Vec<Vec<f64>> {
        let of_text = |text: &mut Text| std::mem::take(&mut text.new);
        let new: Vec<Vec<u32>> = self.texts.iter_mut().map(of_text).collect();
        let (logits, ()) = next_logits(&new, &self.model.device(), |tokens, rows| {
            (self.model.next_logits(tokens, rows, &mut self.state), ())
        });
        let [_, vocab_size] = logits.dims();
        let logits: Vec<f64> = logits.into_data().iter::<f64>().collect();
        logits.chunks_exact(vocab_size).map(<[_]>::to_vec).collect()
    }
}

/// # Panics
/// If there are no prompts, or a prompt is empty.
fn check_prompts(name: &str, prompts: &[impl AsRef<[u32]>]) {
    assert!(
        !prompts.is_empty(),
        "{name}: at least one prompt expected, got none"
    );
    for (b, prompt) in prompts.iter().enumerate() {
        assert!(
            !prompt.as_ref().is_empty(),
            "{name}: at least one token expected in each prompt, got none in prompt {b}"
        );
    }
}

/// # Panics
/// If `min` is above `max`.
fn check_min_tokens(name: &str, min: usize, max: usize) {
    assert!(
        min <= max,
        "{name}: min_tokens of at most max_tokens, {max}, expected, got {min}"
    );
}

/// # Panics
/// If the repetition penalty is out of its range.
fn check_repetition(name: &str, penalty: f64) {
    assert!(
        penalty > 0.0 && penalty.is_finite(),
        "{name}: repetition_penalty expected above 0, got {penalty}"
    );
}

/// The logits of the token after each text, `[batch, vocab_size]`, and the second result of `next`, which runs a model
/// on the `new` tokens.
fn next_logits<W>(
    new: &[impl AsRef<[u32]>],
    device: &Device,
    next: impl FnOnce(Tensor<2, Int>, NewRows<'_>) -> (Tensor<2>, W),
) -> (Tensor<2>, W) {
    let lens: Vec<usize> = new.iter().map(|tokens| tokens.as_ref().len()).collect();
    let (batch, longest) = (lens.len(), lens.iter().copied().max().unwrap_or(0));
    let padded = new.iter().flat_map(|tokens| {
        let padded = tokens.as_ref().iter().copied().map(i64::from);
        padded.chain(std::iter::repeat(0)).take(longest)
    });
    let tokens = TensorData::new(padded.collect::<Vec<_>>(), [batch, longest]);
    let tokens = Tensor::from_data(tokens, device);
    let rows = match lens.iter().all(|len| *len == longest) {
        true => NewRows::All,
        false => NewRows::First(&lens),
    };
    let (logits, with) = next(tokens, rows);
    let [got, vocab_size] = logits.dims();
    assert!(
        got == batch && vocab_size > 0,
        "CausalModel: logits expected [{batch}, vocab_size], got {:?}",
        [got, vocab_size]
    );
    (logits, with)
}

impl<M: CausalModel> Iterator for Generation<'_, M> {
    type Item = Vec<Option<u32>>;

    /// # Panics
    /// If the model panics, as for a prompt that is longer than its positions, or a text gets only NaN logits.
    fn next(&mut self) -> Option<Self::Item> {
        self.end_at_limit();
        if self.texts().all(|text| text.finish_reason.is_some()) {
            return None;
        }
        let all = self.logits();
        let config = &self.config;
        let repetition = Repetition {
            penalty: config.repetition_penalty,
            ngram_size: config.no_repeat_ngram_size,
        };
        let step = |(b, (text, mut logits)): (usize, (&mut Text, Vec<f64>))| {
            let generated = &mut text.generated;
            if generated.finish_reason.is_some() {
                return None;
            }
            if repetition.is_on() {
                let vocab_size = logits.len();
                let column = |token: u32| Some(token as usize).filter(|it| *it < vocab_size);
                let tokens = [&text.prompt[..], &generated.tokens].concat();
                repetition.apply(&tokens, column, &mut logits);
            }
            if generated.tokens.len() + 1 < config.min_tokens {
                for token in &config.stop_tokens {
                    if let Some(logit) = logits.get_mut(*token as usize) {
                        *logit = f64::NEG_INFINITY;
                    }
                }
            }
            let Some(token) = config.sampling.choose(&logits, &mut text.random) else {
                panic!(
                    "Generation: a token expected whose logit is a number, got none for text {b}"
                );
            };
            let token = token as u32;
            generated.push(token, config);
            if generated.finish_reason.is_none() {
                text.new.push(token);
            }
            Some(token)
        };
        let texts = self.texts.iter_mut().zip(all).enumerate();
        Some(texts.map(step).collect())
    }
}
