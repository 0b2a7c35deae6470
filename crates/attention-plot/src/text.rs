//! Texts of the caller's, made safe to show.

/// Control characters as visible signs: raw, they would break XML and steer the reader's terminal.
pub(crate) fn visible(text: impl Into<String>) -> String {
    let sign = |character: char| match character {
        '\n' | '\r' => '⏎',
        '\t' => '⇥',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        control if control.is_control() => '\u{fffd}',
        other => other,
    };
    text.into().chars().map(sign).collect()
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
