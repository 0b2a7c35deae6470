//! Texts from a file in messages.

/// The largest number of characters of a text that an error quotes.
const SHOWN: usize = 100;

/// A text from a file as part of a line: escaped, and cut off if it is long.
pub fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(SHOWN).collect();
    let rest = if chars.next().is_some() { ".." } else { "" };
    format!("{}{rest}", start.escape_debug())
}
