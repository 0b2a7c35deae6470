//! The edit distance, and the edits that it counts.

use std::iter::repeat_n;

use serde::Serialize;

/// The fewest insertions, deletions and substitutions that turn one sequence into the other (Levenshtein 1966).
pub(super) fn edit_distance<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    distances_to_prefixes(a.iter(), b.iter())[b.len()]
}

/// The distances of `a` to every prefix of `b`, from the empty one to `b` itself.
///
/// Wagner and Fischer's table, one row at a time: `O(|a| |b|)` steps and `O(|b|)` memory.
fn distances_to_prefixes<'a, T: PartialEq + 'a>(
    a: impl Iterator<Item = &'a T>,
    b: impl ExactSizeIterator<Item = &'a T> + Clone,
) -> Vec<usize> {
    // row[j]: the distance of the part of `a` read so far to the first j tokens of `b`
    let mut row = (0..=b.len()).collect::<Vec<_>>();
    for (i, x) in a.enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.clone().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row
}

/// A step of the alignment of an output to its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Output and reference have the same next token.
    Match,
    /// Output and reference have different next tokens.
    Substitution,
    /// The next token of the output is not in the reference.
    Insertion,
    /// The next token of the reference is not in the output.
    Deletion,
}

/// The alignment of an output to its reference with the fewest edits, step by step.
///
/// Hirschberg (1975): the table is halved until one token is left, so that its `O(|output| |reference|)` steps need
/// `O(|output| + |reference|)` memory. Of several alignments with equally few edits one is returned, always the same.
///
/// ```
/// use attention_seq2seq::metrics::Edit::{Deletion, Insertion, Match, Substitution};
/// use attention_seq2seq::metrics::align;
///
/// let edits = align(&["K", "AA", "F", "AH"], &["K", "AE", "F", "IY"]);
/// assert_eq!(edits, [Match, Substitution, Match, Substitution]);
/// assert_eq!(align(&["a", "b"], &["b", "c"]), [Insertion, Match, Deletion]);
/// ```
pub fn align<T: PartialEq>(output: &[T], reference: &[T]) -> Vec<Edit> {
    let mut edits = Vec::with_capacity(output.len().max(reference.len()));
    push_alignment(output, reference, &mut edits);
    edits
}

fn push_alignment<T: PartialEq>(output: &[T], reference: &[T], edits: &mut Vec<Edit>) {
    match output {
        [] => edits.extend(repeat_n(Edit::Deletion, reference.len())),
        _ if reference.is_empty() => edits.extend(repeat_n(Edit::Insertion, output.len())),
        [token] => {
            let equal = reference.iter().position(|other| other == token);
            let (before, edit) = match equal {
                Some(before) => (before, Edit::Match),
                None => (0, Edit::Substitution),
            };
            edits.extend(repeat_n(Edit::Deletion, before));
            edits.push(edit);
            edits.extend(repeat_n(Edit::Deletion, reference.len() - before - 1));
        }
        _ => {
            let (left, right) = output.split_at(output.len() / 2);
            let of_left = distances_to_prefixes(left.iter(), reference.iter());
            let of_right = distances_to_prefixes(right.iter().rev(), reference.iter().rev());
            // An alignment with the fewest edits crosses the middle of the output where the two halves need the fewest.
            let halves = of_left.iter().zip(of_right.iter().rev()).enumerate();
            let crossing = halves.min_by_key(|(_, (left, right))| *left + *right);
            let (before, after) = reference.split_at(crossing.map_or(0, |(at, _)| at));
            push_alignment(left, before, edits);
            push_alignment(right, after, edits);
        }
    }
}

/// A step of the alignment of an output to its reference, with its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlignedStep {
    /// The edit.
    pub edit: Edit,
    /// The token of the output; `None` if it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The token of the reference; `None` if it was inserted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// The steps of [`align`], with the tokens of both sequences.
pub fn aligned_steps(output: &[String], reference: &[String]) -> Vec<AlignedStep> {
    let edits = align(output, reference);
    let (mut output, mut reference) = (output.iter().cloned(), reference.iter().cloned());
    let steps = edits.into_iter().map(|edit| AlignedStep {
        edit,
        output: match edit {
            Edit::Deletion => None,
            Edit::Match | Edit::Substitution | Edit::Insertion => output.next(),
        },
        reference: match edit {
            Edit::Insertion => None,
            Edit::Match | Edit::Substitution | Edit::Deletion => reference.next(),
        },
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, by recursion.
    fn brute_force(a: &[u8], b: &[u8]) -> usize {
        match (a, b) {
            ([], rest) | (rest, []) => rest.len(),
            ([x, a_rest @ ..], [y, b_rest @ ..]) => (brute_force(a_rest, b_rest)
                + usize::from(x != y))
            .min(brute_force(a_rest, b) + 1)
            .min(brute_force(a, b_rest) + 1),
        }
    }

    /// All strings over three letters with up to four of them.
    fn small_strings() -> Vec<Vec<u8>> {
        let mut all = vec![vec![]];
        let mut start = 0;
        for _ in 0..4 {
            let end = all.len();
            for index in start..end {
                for letter in b"abc" {
                    all.push([&all[index][..], &[*letter]].concat());
                }
            }
            start = end;
        }
        all
    }

    #[test]
    fn distances_follow_the_definition() {
        let strings = small_strings();
        assert_eq!(strings.len(), 121);
        for a in &strings {
            for b in &strings {
                assert_eq!(edit_distance(a, b), brute_force(a, b), "{a:?} {b:?}");
            }
        }
        assert_eq!(edit_distance(b"kitten", b"sitting"), 3);
        assert_eq!(edit_distance(b"intention", b"execution"), 5);
    }

    /// The edits that an alignment makes, once it is walked through both sequences.
    fn walk(output: &[u8], reference: &[u8]) -> usize {
        let (mut outputs, mut references, mut made) = (output.iter(), reference.iter(), 0);
        for edit in align(output, reference) {
            made += usize::from(edit != Edit::Match);
            match edit {
                Edit::Match => assert_eq!(outputs.next(), references.next()),
                Edit::Substitution => assert_ne!(outputs.next(), references.next()),
                Edit::Insertion => assert!(outputs.next().is_some()),
                Edit::Deletion => assert!(references.next().is_some()),
            }
        }
        assert!(outputs.next().is_none() && references.next().is_none());
        made
    }

    #[test]
    fn an_alignment_reads_both_sequences_with_the_fewest_edits() {
        let strings = small_strings();
        for a in &strings {
            for b in &strings {
                assert_eq!(walk(a, b), edit_distance(a, b), "{a:?} {b:?}");
            }
        }
        assert_eq!(walk(b"intention", b"execution"), 5);
    }
}
