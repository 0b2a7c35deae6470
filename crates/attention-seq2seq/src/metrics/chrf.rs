//! chrF.

use std::ops::AddAssign;

use super::ngrams::{ngrams, shared};
use super::tokenize_13a::is_space;

/// chrF2 (Popović 2015), as sacreBLEU computes it: the n-grams of characters that an output shares with its reference.
/// Sums over many outputs give the corpus's [`score`](Self::score).
///
/// The F-score, in which recall counts twice as much as precision, of the mean precision and the mean recall of n-grams
/// of 1 to [`MAX_ORDER`](Self::MAX_ORDER) characters, white space left out. Its signature in sacreBLEU is
/// `case:mixed|eff:yes|nc:6|nw:0|space:no`.
///
/// ```
/// use attention_seq2seq::metrics::ChrF;
///
/// let mut corpus = ChrF::default();
/// corpus += ChrF::of_texts("the cat sat", &["The cat sat", "A cat is sitting"]);
/// corpus += ChrF::of_texts("it rains", &["it is raining"]);
/// assert_eq!(format!("{:.2}", corpus.score()), "51.47");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChrF {
    /// The n-grams of the output, by order; 0 for orders that the reference does not have.
    outputs: [usize; Self::MAX_ORDER],
    references: [usize; Self::MAX_ORDER],
    matches: [usize; Self::MAX_ORDER],
}

impl ChrF {
    /// The largest number of characters of an n-gram.
    pub const MAX_ORDER: usize = 6;

    /// One output against its best reference, the one with the highest score; of several such references the first.
    ///
    /// # Panics
    /// If there is no reference.
    pub fn of_texts(output: &str, references: &[impl AsRef<str>]) -> Self {
        let characters =
            |text: &str| -> Vec<char> { text.chars().filter(|c| !is_space(*c)).collect() };
        let output = characters(output);
        let references = references.iter().map(|it| characters(it.as_ref()));
        let candidates = references.map(|it| Self::of_characters(&output, &it));
        let best = candidates.reduce(|best, next| match next.score() > best.score() {
            true => next,
            false => best,
        });
        best.expect("expected at least one reference for an output, found none")
    }

    fn of_characters(output: &[char], reference: &[char]) -> Self {
        let mut found = Self::default();
        let count = |characters: &[char], order| (characters.len() + 1).saturating_sub(order);
        for order in 1..=Self::MAX_ORDER {
            let at = order - 1;
            found.references[at] = count(reference, order);
            if found.references[at] > 0 {
                found.outputs[at] = count(output, order);
                found.matches[at] = shared(&ngrams(output, order), &ngrams(reference, order));
            }
        }
        found
    }

    /// The score in percent, as usually reported: 0 to 100. Orders that no output or no reference has do not count.
    pub fn score(&self) -> f64 {
        /// The weight of recall.
        const BETA_SQUARED: f64 = 4.0;
        let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
        for order in 0..Self::MAX_ORDER {
            let [outputs, references, matches] =
                [self.outputs, self.references, self.matches].map(|counts| counts[order] as f64);
            if outputs > 0.0 && references > 0.0 {
                precision += matches / outputs;
                recall += matches / references;
                orders += 1.0;
            }
        }
        if precision + recall == 0.0 {
            return 0.0;
        }
        let (precision, recall) = (precision / orders, recall / orders);
        100.0 * (1.0 + BETA_SQUARED) * precision * recall / (BETA_SQUARED * precision + recall)
    }
}

impl AddAssign for ChrF {
    fn add_assign(&mut self, other: Self) {
        for order in 0..Self::MAX_ORDER {
            self.outputs[order] += other.outputs[order];
            self.references[order] += other.references[order];
            self.matches[order] += other.matches[order];
        }
    }
}
