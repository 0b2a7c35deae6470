//! Alignments with their tokens.

use serde::Serialize;

use super::edits::{Edit, align};

/// A step of the alignment of an output to its reference, with its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlignedStep {
    /// The edit.
    pub edit: Edit,
    /// The token of the output; none where it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The token of the reference; none where one is inserted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// The steps of [`align`] with the tokens of both.
///
/// ```
/// use attention_seq2seq::{Edit, Tokenization::Spaces, aligned_steps};
///
/// let steps = aligned_steps(&Spaces.split("K AE"), &Spaces.split("K AE B"));
/// assert_eq!((steps.len(), steps[2].edit), (3, Edit::Deletion));
/// assert_eq!((&steps[2].output, steps[2].reference.as_deref()), (&None, Some("B")));
/// ```
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
