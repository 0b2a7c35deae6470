//! Letters to copy or to reverse: the smallest tasks that need attention.

use rand::{Rng, RngExt};

use crate::data::pairs::Pair;

/// Too long for a state of fixed size alone, short enough to train in seconds.
const LENGTHS: std::ops::RangeInclusive<usize> = 3..=20;

pub(super) fn copied_pair(rng: &mut impl Rng) -> Pair {
    let source = letters(rng);
    let target = source.clone();
    Pair { source, target }
}

pub(super) fn reversed_pair(rng: &mut impl Rng) -> Pair {
    let source = letters(rng);
    let target = source.iter().rev().cloned().collect();
    Pair { source, target }
}

fn letters(rng: &mut impl Rng) -> Vec<String> {
    let length = rng.random_range(LENGTHS);
    let letter = |_| rng.random_range('a'..='z').to_string();
    (0..length).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::data::tasks::Task;

    #[test]
    fn targets_are_the_source_copied_or_reversed() {
        for pair in Task::Copy.generate(500, 5) {
            assert_eq!(pair.source, pair.target);
        }
        for mut pair in Task::Reverse.generate(500, 5) {
            pair.target.reverse();
            assert_eq!(pair.source, pair.target);
        }
    }

    #[test]
    fn every_length_and_letter_occurs() {
        let pairs = Task::Copy.generate(2_000, 5);
        let lengths = pairs.iter().map(|pair| pair.source.len());
        assert_eq!(lengths.collect::<HashSet<_>>(), (3..=20).collect());
        let letters: HashSet<&String> = pairs.iter().flat_map(|pair| &pair.source).collect();
        assert!(letters.len() == 26 && letters.iter().all(|letter| letter.len() == 1));
    }
}
