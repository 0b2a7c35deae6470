//! Angles for contexts longer than in training, as Hugging Face's `modeling_rope_utils` computes them.

use std::f64::consts::TAU;

use burn::config::Config;
use burn_fused_layers::harness::checks::{assert_finite, assert_positive};

/// The change of the angles of [`Rotary`](crate::position::Rotary) for contexts longer than in training. Below, `f_n`
/// is `theta^(-2 n / d)`, the angle of pair `n` at position 1, where `d` features are rotated.
#[derive(Config, Debug, PartialEq)]
pub enum RotaryScaling {
    /// `f_n`.
    None,
    /// `f_n / factor`: positions are interpolated. Hugging Face's `linear`.
    ///
    /// Chen et al. 2023, "Extending Context Window of Large Language Models via Positional Interpolation", section 3.
    Linear {
        /// The length of contexts, divided by the length in training.
        factor: f64,
    },
    /// `f_n` with the base `theta * factor^(d / (d - 2))`: the first pair keeps its angle, the last pair's is divided
    /// by `factor`.
    ///
    /// Hugging Face's `dynamic` uses it for contexts of `len` tokens, longer than the `max` in training, with `factor
    /// len / max - (factor - 1)` instead of `factor`.
    ///
    /// "NTK-aware" interpolation, bloc97 2023; Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large
    /// Language Models", section 3.1.
    Ntk {
        /// The length of contexts, divided by the length in training.
        factor: f64,
    },
    /// Pairs that rotate slowly are interpolated; pairs that rotate fast keep their angle.
    Yarn(YarnScalingConfig),
    /// Pairs that rotate slowly are interpolated, depending on their wavelength. Hugging Face's `llama3`.
    Llama3(Llama3ScalingConfig),
    /// Angles of your own. LongRoPE is `f_n / long_factor_n`, with its attention factor.
    Custom {
        /// The angle of each pair at position 1.
        frequencies: Vec<f64>,
        /// The factor on sines and cosines.
        attention_factor: f64,
    },
}

/// Configuration of [`RotaryScaling::Yarn`]: `f_n r_n / factor + f_n (1 - r_n)`. The ramp `r_n = (n - low) / (high -
/// low)`, clamped to `[0, 1]`, begins at the pair that turns `beta_fast` times over a context in training and ends at
/// the pair that turns `beta_slow` times.
///
/// The pair that turns `b` times is `c(b) = d ln(original_max_positions / (2 pi b)) / (2 ln(theta))`; `low` is
/// `floor(c(beta_fast))`, at least 0, and `high` is `ceil(c(beta_slow))`, at most `d - 1`. Sines and cosines are
/// multiplied by the attention factor. Hugging Face's `yarn`.
///
/// Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models", sections 3.2 to 3.4.
#[derive(Config, Debug, PartialEq)]
pub struct YarnScalingConfig {
    /// The length of contexts, divided by the length in training.
    pub factor: f64,
    /// The length of a context in training. Hugging Face's `original_max_position_embeddings`.
    pub original_max_positions: usize,
    /// The number of turns above which a pair is not interpolated.
    #[config(default = 32.0)]
    pub beta_fast: f64,
    /// The number of turns below which a pair is interpolated by the whole factor.
    #[config(default = 1.0)]
    pub beta_slow: f64,
    /// Whether the ramp begins and ends at whole pairs; not so in gpt-oss.
    #[config(default = true)]
    pub truncate: bool,
    /// The factor on sines and cosines; by default `m(1)`, or with both of the following fields `m(mscale) /
    /// m(mscale_all_dim)`, where `m(s)` is `0.1 s ln(factor) + 1`, or 1 for a factor up to 1.
    #[config(default = "None")]
    pub attention_factor: Option<f64>,
    /// DeepSeek's scale of the numerator of the attention factor.
    #[config(default = "None")]
    pub mscale: Option<f64>,
    /// DeepSeek's scale of the denominator of the attention factor. DeepSeek also multiplies its scores by the square
    /// of `m(mscale_all_dim)`, which belongs in the scale of the score.
    #[config(default = "None")]
    pub mscale_all_dim: Option<f64>,
}

/// Configuration of [`RotaryScaling::Llama3`]: `f_n s + f_n (1 - s) / factor`, where `s` is `(turns - low) / (high -
/// low)`, clamped to `[0, 1]`; a pair makes `turns = original_max_positions f_n / (2 pi)` turns over a context in
/// training.
///
/// Grattafiori et al. 2024, "The Llama 3 Herd of Models"; the formula is from Meta's `apply_scaling`.
#[derive(Config, Debug, PartialEq)]
pub struct Llama3ScalingConfig {
    /// The length of contexts, divided by the length in training.
    pub factor: f64,
    /// The length of a context in training. Hugging Face's `original_max_position_embeddings`.
    pub original_max_positions: usize,
    /// `low`: the number of turns below which a pair is interpolated by the whole factor.
    #[config(default = 1.0)]
    pub low_freq_factor: f64,
    /// `high`: the number of turns above which a pair is not interpolated.
    #[config(default = 4.0)]
    pub high_freq_factor: f64,
}

/// The angles of all pairs.
pub(super) struct Angles {
    /// The angles at position 1.
    pub(super) frequencies: Vec<f64>,
    /// The factor on sines and cosines.
    pub(super) factor: f64,
}

impl RotaryScaling {
    /// The angles of `rotated_size` features.
    ///
    /// # Panics
    /// If a number is out of range.
    pub(super) fn angles(&self, theta: f64, rotated_size: usize) -> Angles {
        const NAME: &str = "RotaryScaling";
        let (attention_factor, frequencies) = match self {
            Self::None => (1.0, plain(theta, rotated_size)),
            Self::Linear { factor } => {
                assert_above_zero(NAME, "factor", *factor);
                let frequencies = plain(theta, rotated_size);
                (1.0, frequencies.into_iter().map(|f| f / factor).collect())
            }
            Self::Ntk { factor } => {
                assert_above_zero(NAME, "factor", *factor);
                assert!(
                    rotated_size > 2,
                    "{NAME}: more than one pair expected for Ntk, got a rotated size of {rotated_size}"
                );
                let size = rotated_size as f64;
                let theta = theta * factor.powf(size / (size - 2.0));
                (1.0, plain(theta, rotated_size))
            }
            Self::Yarn(config) => (
                config.attention_factor(),
                config.frequencies(theta, rotated_size),
            ),
            Self::Llama3(config) => (1.0, config.frequencies(theta, rotated_size)),
            Self::Custom {
                frequencies,
                attention_factor,
            } => {
                let pairs = rotated_size / 2;
                assert!(
                    frequencies.len() == pairs,
                    "{NAME}: {pairs} frequencies expected, one for each pair, got {}",
                    frequencies.len()
                );
                for frequency in frequencies {
                    assert_finite(NAME, "frequencies", *frequency);
                }
                assert_finite(NAME, "attention_factor", *attention_factor);
                (*attention_factor, frequencies.clone())
            }
        };
        Angles {
            frequencies,
            factor: attention_factor,
        }
    }
}

impl YarnScalingConfig {
    fn attention_factor(&self) -> f64 {
        const NAME: &str = "YarnScalingConfig";
        assert_above_zero(NAME, "factor", self.factor);
        let of_scale = |scale: f64| {
            if self.factor <= 1.0 {
                1.0
            } else {
                0.1 * scale * self.factor.ln() + 1.0
            }
        };
        let factor = match (self.attention_factor, self.mscale, self.mscale_all_dim) {
            (Some(factor), ..) => factor,
            (None, Some(scale), Some(scale_all)) => of_scale(scale) / of_scale(scale_all),
            (None, None, None) => of_scale(1.0),
            (None, mscale, mscale_all_dim) => panic!(
                "{NAME}: mscale and mscale_all_dim expected together, got {mscale:?} and {mscale_all_dim:?}"
            ),
        };
        assert_finite(NAME, "attention_factor", factor);
        factor
    }

    fn frequencies(&self, theta: f64, rotated_size: usize) -> Vec<f64> {
        const NAME: &str = "YarnScalingConfig";
        let (factor, original_max_positions) = (self.factor, self.original_max_positions);
        let (beta_fast, beta_slow) = (self.beta_fast, self.beta_slow);
        assert_above_zero(NAME, "factor", factor);
        assert_above_zero(NAME, "beta_slow", beta_slow);
        assert_positive(NAME, &[("original_max_positions", original_max_positions)]);
        assert!(
            beta_fast.is_finite() && beta_fast >= beta_slow,
            "{NAME}: beta_fast expected at least beta_slow, {beta_slow}, got {beta_fast}"
        );
        assert!(
            theta > 1.0,
            "{NAME}: theta expected above 1, got {theta}: no pair would turn slower than another"
        );
        let size = rotated_size as f64;
        let pair_of = |turns: f64| {
            let ratio = original_max_positions as f64 / (turns * TAU);
            size * ratio.ln() / (2.0 * theta.ln())
        };
        let [low, high] = [pair_of(beta_fast), pair_of(beta_slow)];
        let [low, high] = if self.truncate {
            [low.floor(), high.ceil()]
        } else {
            [low, high]
        };
        let (low, mut high) = (low.max(0.0), high.min(size - 1.0));
        if low == high {
            // As Hugging Face does, to avoid a division by 0.
            high += 0.001;
        }
        let ramped = |(pair, f): (usize, f64)| {
            let ramp = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
            f / factor * ramp + f * (1.0 - ramp)
        };
        let frequencies = plain(theta, rotated_size).into_iter().enumerate();
        frequencies.map(ramped).collect()
    }
}

impl Llama3ScalingConfig {
    fn frequencies(&self, theta: f64, rotated_size: usize) -> Vec<f64> {
        const NAME: &str = "Llama3ScalingConfig";
        let (factor, original_max_positions) = (self.factor, self.original_max_positions);
        let (low, high) = (self.low_freq_factor, self.high_freq_factor);
        assert_above_zero(NAME, "factor", factor);
        assert_above_zero(NAME, "low_freq_factor", low);
        assert_positive(NAME, &[("original_max_positions", original_max_positions)]);
        assert!(
            high.is_finite() && high > low,
            "{NAME}: high_freq_factor expected above low_freq_factor, {low}, got {high}"
        );
        let smoothed = |f: f64| {
            let turns = original_max_positions as f64 * f / TAU;
            let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            f * smooth + f / factor * (1.0 - smooth)
        };
        let frequencies = plain(theta, rotated_size).into_iter();
        frequencies.map(smoothed).collect()
    }
}

/// `theta^(-2 n / rotated_size)`.
fn plain(theta: f64, rotated_size: usize) -> Vec<f64> {
    (0..rotated_size / 2)
        .map(|pair| theta.powf(-2.0 * pair as f64 / rotated_size as f64))
        .collect()
}

/// # Panics
/// If a number is not finite or not above 0.
fn assert_above_zero(config: &str, name: &str, number: f64) {
    assert!(
        number.is_finite() && number > 0.0,
        "{config}: {name} expected a finite number above 0, got {number}"
    );
}
