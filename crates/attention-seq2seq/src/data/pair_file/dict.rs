//! Lines of a pronunciation dictionary.

mod entry;
mod layout;

use std::borrow::Cow;

use super::Stress;
use super::line::{LineResult, Texts, check_characters};
pub(super) use entry::is_column;
pub(super) use layout::Layout;

/// The word and the phonemes of one line; `None` if it is empty or a comment.
pub(super) fn texts<'a>(
    line: usize,
    text: &'a str,
    stress: Stress,
    layout: &Layout,
) -> LineResult<Option<Texts<'a>>> {
    let Some((mut word, phonemes)) = layout.read(line, text)? else {
        return Ok(None);
    };
    word.truncate(without_variant(&word).len());
    let phonemes = phonemes.into_iter().map(|phoneme| match stress {
        Stress::Keep => phoneme,
        Stress::Drop => without_stress(phoneme),
    });
    let target = phonemes.collect::<Vec<_>>().join(" ");
    check_characters(&word, "in the word")?;
    check_characters(&target, "in the phonemes")?;
    let (source, target) = (Cow::Owned(word), Cow::Owned(target));
    Ok(Some(Texts { source, target }))
}

/// A word without the number of its variant: `read(2)` becomes `read`.
fn without_variant(word: &str) -> &str {
    let variant = word.strip_suffix(')').and_then(|it| it.rsplit_once('('));
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    match variant {
        Some((word, number)) if !word.is_empty() && is_number(number) => word,
        _ => word,
    }
}

/// A phoneme without the digit of its stress: `AH0` becomes `AH`.
fn without_stress(phoneme: &str) -> &str {
    let bare = phoneme.strip_suffix(['0', '1', '2']);
    bare.filter(|bare| !bare.is_empty()).unwrap_or(phoneme)
}

#[cfg(test)]
mod tests;
