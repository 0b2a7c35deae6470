//! Tasks whose pairs are generated: nothing to download, in any size.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::data::pairs::{Pair, Pairs};
use crate::error::{Error, Result};
use crate::text::tokens::Tokenization;

mod calendar;
mod dates;
#[rustfmt::skip] // tables of names, packed to be read side by side
mod languages;
mod symbols;

/// A task whose pairs are generated: nothing to download, in any size.
///
/// The generator is ChaCha with 8 rounds, so that a seed means the same pairs on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// A date as people write it, in ten languages, to ISO 8601: `5 novembre 1994` to `1994-11-05`.
    ///
    /// Years are 1900 to 2099. No text fits two dates: `11/05/1994` is the fifth of November as in the United States,
    /// `05.11.1994` and `05-11-1994` are too, and two-digit years have an apostrophe, from `'50` for 1950 to `'49` for
    /// 2049.
    Dates,
    /// 3 to 20 letters from a to z, backwards: `abc` to `cba`.
    Reverse,
    /// 3 to 20 letters from a to z, as they are: `abc` to `abc`.
    Copy,
}

impl Task {
    /// Every task.
    pub const ALL: [Self; 3] = [Self::Dates, Self::Reverse, Self::Copy];

    /// The name that [`FromStr`] reads.
    fn name(self) -> &'static str {
        match self {
            Self::Dates => "dates",
            Self::Reverse => "reverse",
            Self::Copy => "copy",
        }
    }

    /// The tokenization of sources and targets of the task.
    pub(crate) fn tokenization(self) -> Tokenization {
        match self {
            Self::Dates | Self::Reverse | Self::Copy => Tokenization::Chars,
        }
    }

    /// The first `count` pairs for a seed. A source may occur twice, always with the same target.
    pub fn generate(self, count: usize, seed: u64) -> Vec<Pair> {
        self.pairs(seed, TRAIN_STREAM).take(count).collect()
    }

    /// Training and validation pairs, without common sources.
    ///
    /// The validation pairs of a seed do not depend on `train_count`, so that runs on more data stay comparable. In
    /// [`Dates`](Self::Dates) the calendar day of a validation source may be in `train`, written in another way.
    pub fn train_valid(self, train_count: usize, valid_count: usize, seed: u64) -> Pairs {
        let valid: Vec<Pair> = self.pairs(seed, VALID_STREAM).take(valid_count).collect();
        let held_out: HashSet<&Vec<String>> = valid.iter().map(|pair| &pair.source).collect();
        let others = self.pairs(seed, TRAIN_STREAM);
        let others = others.filter(|pair| !held_out.contains(&pair.source));
        Pairs {
            train: others.take(train_count).collect(),
            valid,
        }
    }

    fn pairs(self, seed: u64, stream: u64) -> impl Iterator<Item = Pair> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        std::iter::repeat_with(move || match self {
            Self::Dates => dates::pair(&mut rng),
            Self::Reverse => symbols::reversed_pair(&mut rng),
            Self::Copy => symbols::copied_pair(&mut rng),
        })
    }
}

/// Independent sequences of random numbers for one seed.
const TRAIN_STREAM: u64 = 0;
const VALID_STREAM: u64 = 1;

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Task {
    type Err = Error;

    /// # Errors
    /// [`Error::UnknownName`], which lists the valid names.
    fn from_str(name: &str) -> Result<Self> {
        let task = Self::ALL.into_iter().find(|task| task.name() == name);
        task.ok_or_else(|| Error::UnknownName {
            what: "task",
            name: name.to_owned(),
            hint: format!("expected one of: {}", Self::ALL.map(Self::name).join(", ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(pairs: &[Pair]) -> HashSet<&[String]> {
        pairs.iter().map(|pair| &pair.source[..]).collect()
    }

    #[test]
    fn names_round_trip() {
        for task in Task::ALL {
            assert_eq!(task.to_string().parse::<Task>().unwrap(), task);
            assert_eq!(serde_json::to_string(&task).unwrap(), format!("\"{task}\""));
        }
    }

    #[test]
    fn a_seed_decides_the_pairs() {
        for task in Task::ALL {
            assert_eq!(task.generate(100, 1), task.generate(100, 1));
            assert_eq!(task.generate(200, 1)[..100], task.generate(100, 1));
            assert_ne!(task.generate(100, 1), task.generate(100, 2));
        }
    }

    /// Fails when a new `rand` draws otherwise: every seed then means other pairs, and a changelog must say so.
    #[test]
    fn seeds_mean_the_same_pairs_as_ever() {
        let sources = |task: Task| {
            let Pairs { train, valid } = task.train_valid(1, 1, 0);
            [train, valid].map(|pairs| pairs[0].source.concat())
        };
        let dates = ["14 de septiembre del 2041", "23 de jun de 2051"];
        assert_eq!(sources(Task::Dates), dates);
        let letters = ["ssmnsobfwpokvv", "tltypcxklqubeuaqr"];
        assert_eq!(sources(Task::Reverse), letters);
    }

    #[test]
    fn no_validation_source_is_trained_on() {
        for task in Task::ALL {
            let Pairs { train, valid } = task.train_valid(20_000, 2_000, 3);
            assert_eq!((train.len(), valid.len()), (20_000, 2_000));
            assert!(sources(&train).is_disjoint(&sources(&valid)), "{task}");
            assert!(sources(&valid).len() > 1_950, "{task} repeats itself");
            assert_eq!(task.train_valid(10, 2_000, 3).valid, valid);
        }
    }
}
