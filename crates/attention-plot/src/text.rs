//! The caller's texts, made safe to show.

/// Replaces control characters by visible ones: raw, they would break XML, control the reader's terminal, or change the
/// direction of adjacent text.
pub(crate) fn visible(text: impl Into<String>) -> String {
    let sign = |character: char| match character {
        '\n' | '\r' | '\u{2028}' | '\u{2029}' => '⏎',
        '\t' => '⇥',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        control if is_control(control) => '\u{fffd}',
        other => other,
    };
    text.into().chars().map(sign).collect()
}

/// Whether a character is invisible and acts on others: a control character, or one that ends a line, sets the
/// direction of text (Unicode Standard Annex 9) or frames an annotation. Joiners, marks and spaces do not count.
///
/// ```
/// use attention_plot::is_control;
///
/// assert!(['\n', '\u{1b}', '\u{202e}', '\u{2066}', '\u{200f}'].into_iter().all(is_control));
/// assert!(!['a', 'א', ' ', '\u{301}', '\u{200d}'].into_iter().any(is_control));
/// ```
#[must_use]
pub fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

/// The text as content or as an attribute of XML and HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
