//! The choice of a token from its logits.

use std::cmp::Ordering;

use burn::config::Config;
use burn_fused_layers::harness::checks::assert_finite;
use rand::{Rng, RngExt};

/// How a token is chosen from the logits of all tokens.
///
/// ```
/// use attention_transformers::generate::RandomSamplingConfig;
/// use attention_transformers::Sampling;
///
/// let logits = [1.0, 3.0, 2.0, -1.0];
/// assert_eq!(Sampling::Greedy.distribution(&logits), [(1, 1.0)]);
/// let sampling = Sampling::Random(RandomSamplingConfig::new().with_top_k(Some(2)));
/// let [(first, p), (second, q)] = sampling.distribution(&logits)[..] else { panic!() };
/// assert_eq!([first, second], [1, 2]);
/// assert!((p / q - 1f64.exp()).abs() < 1e-12);
/// ```
#[derive(Config, Debug, PartialEq)]
pub enum Sampling {
    /// The most likely token; the first of equally likely ones.
    Greedy,
    /// A random token.
    Random(RandomSamplingConfig),
}

/// Configuration of [`Sampling::Random`]: a token `t` is drawn by `softmax(logit_t / temperature)` from the tokens that
/// remain after `top_k`, then `top_p`, then `min_p`, the order of `transformers`.
#[derive(Config, Debug, PartialEq)]
pub struct RandomSamplingConfig {
    /// Below 1, likely tokens become more likely.
    #[config(default = 1.0)]
    pub temperature: f64,
    /// The number of tokens to keep, the most likely ones and all that are as likely as the last of them: Fan et al.
    /// 2018, "Hierarchical Neural Story Generation", section 5.4.
    #[config(default = "None")]
    pub top_k: Option<usize>,
    /// Keeps the fewest tokens, the most likely ones, whose joint probability is at least this (nucleus sampling):
    /// Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1.
    #[config(default = "None")]
    pub top_p: Option<f64>,
    /// The smallest probability to keep, relative to the largest: Nguyen et al. 2024, "Turning Up the Heat: Min-p
    /// Sampling for Creative and Coherent LLM Outputs", section 3.
    #[config(default = "None")]
    pub min_p: Option<f64>,
}

impl Sampling {
    /// The tokens that may be chosen and their probabilities, the most likely first; of equally likely ones, the first
    /// token first. Tokens with logit `-inf` or NaN are left out, so the result may be empty.
    ///
    /// # Panics
    /// If `temperature` is not a positive number, `top_k` is 0, `top_p` is not in `(0, 1]`, or `min_p` not in `[0, 1]`.
    pub fn distribution(&self, logits: &[f64]) -> Vec<(usize, f64)> {
        self.check();
        let all = logits.iter().copied().enumerate();
        let mut tokens: Vec<(usize, f64)> = all.filter(|(_, of)| *of > f64::NEG_INFINITY).collect();
        let greedy = RandomSamplingConfig::new().with_top_k(Some(1));
        let config = match self {
            Self::Greedy => &greedy,
            Self::Random(config) => config,
        };
        if let Some(k) = config.top_k.filter(|k| *k < tokens.len()) {
            let (_, &mut (_, least), _) = tokens.select_nth_unstable_by(k - 1, by_likelihood);
            tokens.retain(|(_, logit)| *logit >= least);
        }
        tokens.sort_unstable_by(by_likelihood);
        if *self == Self::Greedy {
            tokens.truncate(1);
        }
        let largest = tokens.first().map_or(0.0, |(_, logit)| *logit);
        // Infinite logits share the probability, and all others have none.
        let mut total = 0.0;
        for (_, of) in &mut tokens {
            *of = if *of == largest {
                1.0
            } else {
                ((*of - largest) / config.temperature).exp()
            };
            total += *of;
        }
        if let Some(p) = config.top_p {
            let mut sum = 0.0;
            let within = tokens.iter().take_while(|(_, of)| {
                let is_within = sum < p * total;
                sum += of;
                is_within
            });
            let count = within.count();
            tokens.truncate(count);
        }
        if let Some(p) = config.min_p {
            tokens.retain(|(_, of)| *of >= p);
        }
        total = tokens.iter().map(|(_, of)| of).sum();
        for (_, of) in &mut tokens {
            *of /= total;
        }
        tokens
    }

    /// A token, drawn by its probability; `None` without tokens.
    pub(super) fn choose(&self, logits: &[f64], random: &mut impl Rng) -> Option<usize> {
        let tokens = self.distribution(logits);
        let mut rest: f64 = match self {
            Self::Greedy => 0.0,
            Self::Random(_) => random.random(),
        };
        let drawn = tokens.iter().find(|(_, probability)| {
            rest -= probability;
            rest < 0.0
        });
        // Rounding may leave a remainder.
        let last = tokens.iter().rfind(|(_, probability)| *probability > 0.0);
        drawn.or(last).map(|(token, _)| *token)
    }

    /// # Panics
    /// If a number is out of range.
    pub(super) fn check(&self) {
        const NAME: &str = "RandomSamplingConfig";
        let Self::Random(config) = self else {
            return;
        };
        let temperature = config.temperature;
        assert_finite(NAME, "temperature", temperature);
        assert!(
            temperature > 0.0,
            "{NAME}: temperature expected above 0, got {temperature} (`Sampling::Greedy` has none)"
        );
        assert!(
            config.top_k != Some(0),
            "{NAME}: top_k expected at least 1, got 0"
        );
        if let Some(p) = config.top_p {
            assert!(
                p > 0.0 && p <= 1.0,
                "{NAME}: top_p expected in (0, 1], got {p}"
            );
        }
        if let Some(p) = config.min_p {
            assert!(
                (0.0..=1.0).contains(&p),
                "{NAME}: min_p expected in [0, 1], got {p}"
            );
        }
    }
}

/// Orders by probability, the most likely first; of equal ones, the first token first.
fn by_likelihood(a: &(usize, f64), b: &(usize, f64)) -> Ordering {
    // No logit is NaN here.
    let by_logit = b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal);
    by_logit.then(a.0.cmp(&b.0))
}
