//! Error rates of tokens and sequences.

use std::ops::AddAssign;

use super::edits::edit_distance;

/// The reference that is closest to an output.
pub(crate) struct Closest<'a, T> {
    /// The edits between output and reference.
    pub(crate) edits: usize,
    pub(crate) reference: &'a [T],
}

impl<'a, T: PartialEq> Closest<'a, T> {
    /// The reference with the fewest edits; of equally close ones the shortest, and of these the first.
    ///
    /// # Panics
    /// If there is no reference.
    pub(crate) fn of(output: &[T], references: &'a [impl AsRef<[T]>]) -> Self {
        let references = references.iter().map(AsRef::as_ref);
        let each = references.map(|reference| Self {
            edits: edit_distance(output, reference),
            reference,
        });
        let closest = each.min_by_key(|it| (it.edits, it.reference.len()));
        closest.expect("expected at least one reference for an output, found none")
    }
}

/// Counts errors over many sequences.
///
/// Rates are over all sequences together, so that a long sequence has more weight in the token error rate than a short
/// one. For pronunciations the token error rate is known as the *phoneme error rate* and the sequence error rate as the
/// *word error rate*; for spelling and dates the first is the *character error rate*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenErrors {
    sequences: usize,
    wrong_sequences: usize,
    edits: usize,
    reference_tokens: usize,
    cut_off: usize,
}

impl TokenErrors {
    /// A counter without outputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one output against its references, any of which is right. The reference with the fewest edits counts; of
    /// equally close ones, the shortest.
    ///
    /// # Panics
    /// If there is no reference.
    pub fn add<T: PartialEq>(&mut self, output: &[T], references: &[impl AsRef<[T]>]) {
        let Closest { edits, reference } = Closest::of(output, references);
        self.sequences += 1;
        self.wrong_sequences += usize::from(edits > 0);
        self.edits += edits;
        self.reference_tokens += reference.len();
    }

    /// Counts that an output was cut off: it reached the limit of tokens before its end. Its correctness and edits are
    /// counted separately, by [`add`](Self::add).
    pub fn add_cut_off(&mut self) {
        self.cut_off += 1;
    }

    /// The number of counted outputs.
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// The number of outputs that were [cut off](Self::add_cut_off).
    pub fn cut_off(&self) -> usize {
        self.cut_off
    }

    /// The fewest insertions, deletions and substitutions that turn the outputs into their references.
    pub fn edits(&self) -> usize {
        self.edits
    }

    /// The number of tokens of the counted references.
    pub fn reference_tokens(&self) -> usize {
        self.reference_tokens
    }

    /// All counts.
    pub(crate) fn counts_mut(&mut self) -> [&mut usize; 5] {
        [
            &mut self.sequences,
            &mut self.wrong_sequences,
            &mut self.edits,
            &mut self.reference_tokens,
            &mut self.cut_off,
        ]
    }

    /// Edits divided by the tokens of the references: 0 is perfect, and above 1 is possible. NaN before the first
    /// output.
    pub fn token_error_rate(&self) -> f64 {
        self.edits as f64 / self.reference_tokens as f64
    }

    /// The fraction of outputs that equal none of their references. NaN before the first output.
    pub fn sequence_error_rate(&self) -> f64 {
        self.wrong_sequences as f64 / self.sequences as f64
    }

    /// The fraction of outputs that equal one of their references. NaN before the first output.
    pub fn exact_match(&self) -> f64 {
        (self.sequences - self.wrong_sequences) as f64 / self.sequences as f64
    }
}

impl AddAssign for TokenErrors {
    fn add_assign(&mut self, mut other: Self) {
        for (count, other) in self.counts_mut().into_iter().zip(other.counts_mut()) {
            *count += *other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_all_sequences_together() {
        let mut errors = TokenErrors::new();
        errors.add(b"abcd", &[b"abcd"]);
        errors.add(b"xy", &[b"ab"]);
        errors.add_cut_off();
        assert_eq!((errors.sequences(), errors.cut_off()), (2, 1));
        assert_eq!(errors.token_error_rate(), 2.0 / 6.0);
        assert_eq!(errors.sequence_error_rate(), 0.5);
        assert_eq!(errors.exact_match(), 0.5);

        let mut twice = errors;
        twice += errors;
        assert_eq!((twice.sequences(), twice.cut_off()), (4, 2));
        assert_eq!(twice.token_error_rate(), errors.token_error_rate());
    }

    #[test]
    fn the_closest_reference_counts() {
        let mut errors = TokenErrors::new();
        errors.add(b"abc", &[&b"xyz"[..], b"abc", b"abcd"]);
        let expected = (1.0, 0.0);
        assert_eq!((errors.exact_match(), errors.token_error_rate()), expected);

        // "ab" and "abcd" are both one edit away: the shorter one is the denominator
        let mut errors = TokenErrors::new();
        errors.add(b"abc", &[&b"abcd"[..], b"ab"]);
        assert_eq!(errors.token_error_rate(), 0.5);
    }

    #[test]
    fn an_empty_output_is_all_deletions_and_nothing_counted_is_no_rate() {
        let mut errors = TokenErrors::new();
        assert!(errors.token_error_rate().is_nan() && errors.exact_match().is_nan());
        errors.add(&[], &[["a", "b", "c"]]);
        assert_eq!(errors.token_error_rate(), 1.0);
    }

    #[test]
    #[should_panic(expected = "at least one reference")]
    fn an_output_without_reference_is_refused() {
        TokenErrors::new().add(&["a"], &[] as &[[&str; 1]]);
    }
}
