//! BLEU.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::AddAssign;

use super::ngrams::{ngrams, shared};
use super::tokenize_13a::{tokenize_13a, words};

/// BLEU (Papineni et al. 2002), as sacreBLEU computes it (Post 2018): the n-grams that an output shares with its
/// references. Sums over many outputs give the corpus's [`score`](Self::score).
///
/// The geometric mean of the precisions of n-grams of 1 to [`MAX_ORDER`](Self::MAX_ORDER) tokens, times the brevity
/// penalty. Its signature in sacreBLEU is `case:mixed|eff:no|tok:13a|smooth:exp`, with `tok:none` by
/// [`of_tokens`](Self::of_tokens).
///
/// ```
/// use attention_seq2seq::metrics::Bleu;
///
/// let mut corpus = Bleu::default();
/// corpus += Bleu::of_texts("the cat sat on the mat.", &["The cat sat on the mat.", "A cat is on the mat."]);
/// corpus += Bleu::of_texts("it rains", &["it is raining"]);
/// assert_eq!(format!("{:.2}", corpus.score()), "67.99");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bleu {
    /// The n-grams of the output that a reference has, by order.
    matches: [usize; Self::MAX_ORDER],
    /// All n-grams of the output, by order.
    totals: [usize; Self::MAX_ORDER],
    output_len: usize,
    /// The length of the reference that is closest in length to the output; of equally close ones the shortest.
    reference_len: usize,
}

impl Bleu {
    /// The largest number of tokens of an n-gram.
    pub const MAX_ORDER: usize = 4;

    /// One output against its references, as texts. Tokens are made by the tokenization `13a`, sacreBLEU's default,
    /// which writes punctuation apart as mteval-v13a does.
    ///
    /// # Panics
    /// If there is no reference.
    pub fn of_texts(output: &str, references: &[impl AsRef<str>]) -> Self {
        let output = tokenize_13a(output);
        let output: Vec<&str> = words(&output).collect();
        let references = references.iter().map(|it| tokenize_13a(it.as_ref()));
        let references: Vec<String> = references.collect();
        let references: Vec<Vec<&str>> = references.iter().map(|it| words(it).collect()).collect();
        Self::of_tokens(&output, &references)
    }

    /// One output against its references, as tokens.
    ///
    /// # Panics
    /// If there is no reference.
    pub fn of_tokens<T: Eq + Hash>(output: &[T], references: &[impl AsRef<[T]>]) -> Self {
        let references: Vec<&[T]> = references.iter().map(AsRef::as_ref).collect();
        let lens = references.iter().map(|reference| reference.len());
        let closest = lens.min_by_key(|len| (len.abs_diff(output.len()), *len));
        let mut found = Self {
            output_len: output.len(),
            reference_len: closest
                .expect("expected at least one reference for an output, found none"),
            ..Self::default()
        };
        for order in 1..=Self::MAX_ORDER {
            let mut most = HashMap::new();
            for reference in &references {
                for (ngram, count) in ngrams(reference, order) {
                    let known = most.entry(ngram).or_default();
                    *known = count.max(*known);
                }
            }
            found.matches[order - 1] = shared(&ngrams(output, order), &most);
            found.totals[order - 1] = (output.len() + 1).saturating_sub(order);
        }
        found
    }

    /// Whether any output has [`MAX_ORDER`](Self::MAX_ORDER) tokens; otherwise the score is 0 for any outputs.
    pub fn has_all_orders(&self) -> bool {
        self.totals.iter().all(|&total| total > 0)
    }

    /// The score in percent, as usually reported: 0 to 100.
    ///
    /// A precision of 0 counts as 1/2 of one match, the next one as 1/4 and so on (`smooth:exp`, Chen and Cherry 2014,
    /// method 3). The score is 0 if no token matches, or no output has [`MAX_ORDER`](Self::MAX_ORDER) tokens.
    pub fn score(&self) -> f64 {
        if !self.has_all_orders() || self.matches.iter().all(|&matches| matches == 0) {
            return 0.0;
        }
        let mut smoothed = 1.0;
        let counts = self.matches.iter().zip(&self.totals);
        let logs = counts.map(|(&matches, &total)| {
            let mut matches = matches as f64;
            if matches == 0.0 {
                smoothed /= 2.0;
                matches = smoothed;
            }
            (matches / total as f64).ln()
        });
        let mean = logs.sum::<f64>() / Self::MAX_ORDER as f64;
        100.0 * self.brevity_penalty() * mean.exp()
    }

    /// The factor of outputs that are shorter than their references: `exp(1 - reference_len / output_len)`, at most 1.
    fn brevity_penalty(&self) -> f64 {
        match self.output_len {
            0 if self.reference_len > 0 => 0.0,
            0 => 1.0,
            output_len => {
                let excess = 1.0 - self.reference_len as f64 / output_len as f64;
                excess.min(0.0).exp()
            }
        }
    }
}

impl AddAssign for Bleu {
    fn add_assign(&mut self, other: Self) {
        for order in 0..Self::MAX_ORDER {
            self.matches[order] += other.matches[order];
            self.totals[order] += other.totals[order];
        }
        self.output_len += other.output_len;
        self.reference_len += other.reference_len;
    }
}

/// The BLEU of one sequence, as D2L defines it (Dive into Deep Learning, "Sequence-to-Sequence Learning for Machine
/// Translation"): `exp(min(0, 1 - len_label / len_pred)) * prod p_n^(1 / 2^n)`, with the precisions `p_n` of n-grams of
/// 1 to `max_order` tokens, or up to the output's length. It is 0 to 1.
///
/// It weighs orders by `1 / 2^n` and smooths nothing: compare it with D2L's figures, not with [`Bleu`]. An empty output
/// has 1 if its reference is empty, otherwise 0.
pub fn d2l_bleu<T: Eq + Hash>(output: &[T], reference: &[T], max_order: usize) -> f64 {
    if output.is_empty() {
        return f64::from(u8::from(reference.is_empty()));
    }
    let brevity = 1.0 - reference.len() as f64 / output.len() as f64;
    let mut score = brevity.min(0.0).exp();
    for order in 1..=max_order.min(output.len()) {
        let matches = shared(&ngrams(output, order), &ngrams(reference, order));
        let precision = matches as f64 / (output.len() - order + 1) as f64;
        score *= precision.powf(0.5_f64.powi(order as i32));
    }
    score
}
