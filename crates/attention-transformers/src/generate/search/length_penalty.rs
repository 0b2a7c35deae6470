//! The length penalty of a search.

use std::fmt;
use std::str::FromStr;

use burn::serde::{Deserialize, Serialize};

use super::SearchError;

/// The divisor of an output's log-probability, depending on the number `n` of its tokens, including the end token. An
/// exponent above 0 favours long outputs.
///
/// It is written `none`, `average:A` or `gnmt:A`, on command lines and in JSON. A bare number is refused: it is the
/// first form's exponent in transformers, CTranslate2, OpenNMT-py and Sockeye, the second's in JoeyNMT and opennmt-tf.
///
/// ```
/// use attention_transformers::generate::search::LengthPenalty;
///
/// assert_eq!("average:0.5".parse::<LengthPenalty>()?.divisor(9), 3.0);
/// assert_eq!(LengthPenalty::Gnmt(1.0).divisor(7), 2.0);
/// assert!("0.5".parse::<LengthPenalty>().is_err());
/// # Ok::<(), attention_transformers::generate::search::SearchError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(crate = "burn::serde", try_from = "Spelling", into = "String")]
pub enum LengthPenalty {
    /// 1: outputs are ordered by their probability.
    #[default]
    None,
    /// `n^A`: with `A = 1`, the score is the mean log-probability of a token.
    Average(f64),
    /// `((5 + n) / 6)^A`: Wu et al. 2016, "Google's Neural Machine Translation System", section 7.
    Gnmt(f64),
}

/// A penalty in JSON; a number is parsed only to refuse it.
#[derive(Deserialize)]
#[serde(
    crate = "burn::serde",
    untagged,
    expecting = "expected average:A or gnmt:A"
)]
enum Spelling {
    Text(String),
    Number(f64),
}

impl LengthPenalty {
    /// The divisor for an output of `n` tokens, including its end token.
    pub fn divisor(self, n: usize) -> f64 {
        let base = match self {
            Self::None | Self::Average(_) => n as f64,
            Self::Gnmt(_) => (5.0 + n as f64) / 6.0,
        };
        base.powf(self.exponent())
    }

    /// The exponent `A`; 0 for `none`.
    pub fn exponent(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Average(exponent) | Self::Gnmt(exponent) => exponent,
        }
    }
}

impl FromStr for LengthPenalty {
    type Err = SearchError;

    /// # Errors
    /// [`SearchError::Setting`], which explains both forms.
    fn from_str(text: &str) -> Result<Self, SearchError> {
        let of = |exponent: &str| exponent.parse::<f64>().ok();
        let found = match text.split_once(':') {
            None if text == "none" => Some(Self::None),
            Some(("average", exponent)) => of(exponent).map(Self::Average),
            Some(("gnmt", exponent)) => of(exponent).map(Self::Gnmt),
            _ => None,
        };
        found.ok_or_else(|| {
            let a = of(text).map_or("A".to_string(), |exponent| exponent.to_string());
            let expected = format!(
                "none, average:{a} (log p / n^{a}, as transformers, CTranslate2, OpenNMT-py and Sockeye have it) or \
                 gnmt:{a} (log p / ((5 + n) / 6)^{a}, as JoeyNMT and opennmt-tf)"
            );
            SearchError::setting("the length penalty", expected, text)
        })
    }
}

impl fmt::Display for LengthPenalty {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Average(exponent) => write!(formatter, "average:{exponent}"),
            Self::Gnmt(exponent) => write!(formatter, "gnmt:{exponent}"),
        }
    }
}

impl TryFrom<Spelling> for LengthPenalty {
    type Error = SearchError;

    fn try_from(spelling: Spelling) -> Result<Self, SearchError> {
        match spelling {
            Spelling::Text(text) => text.parse(),
            Spelling::Number(number) => number.to_string().parse(),
        }
    }
}

impl From<LengthPenalty> for String {
    fn from(penalty: LengthPenalty) -> Self {
        penalty.to_string()
    }
}
