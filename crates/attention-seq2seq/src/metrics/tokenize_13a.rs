//! The tokenization `13a` of BLEU.

/// A text with spaces around its punctuation: sacreBLEU's tokenization `13a`, that of mteval-v13a for western
/// languages. [`words`] splits it into tokens.
///
/// Each step is one of sacreBLEU's regular expressions, which find non-overlapping matches from left to right.
pub(super) fn tokenize_13a(text: &str) -> String {
    let text = text.replace("<skipped>", "").replace("-\n", "");
    let mut text = text.replace('\n', " ");
    if text.contains('&') {
        let entities = [
            ("&quot;", "\""),
            ("&amp;", "&"),
            ("&lt;", "<"),
            ("&gt;", ">"),
        ];
        for (entity, character) in entities {
            text = text.replace(entity, character);
        }
    }
    let mut apart = String::with_capacity(2 * text.len());
    for c in format!(" {text} ").chars() {
        match is_punctuation(c) {
            true => apart.extend([' ', c, ' ']),
            false => apart.push(c),
        }
    }
    let is_stop = |c: char| matches!(c, '.' | ',');
    let is_digit = |c: char| c.is_ascii_digit();
    // A period or comma stays within a number; a dash after a number is split off.
    let apart = each_pair(&apart, |a, b| !is_digit(a) && is_stop(b), ["", " ", " "]);
    let apart = each_pair(&apart, |a, b| is_stop(a) && !is_digit(b), [" ", " ", ""]);
    each_pair(&apart, |a, b| is_digit(a) && b == '-', ["", " ", " "])
}

/// ASCII punctuation except `'`, `,`, `-`, `.`, which have their own rules.
fn is_punctuation(c: char) -> bool {
    matches!(c, ' '..='&' | '('..='+' | ':'..='@' | '/' | '['..='`' | '{'..='~')
}

/// A text with these strings inserted before, between and after two consecutive characters, wherever they match.
fn each_pair(text: &str, matches: impl Fn(char, char) -> bool, around: [&str; 3]) -> String {
    let [before, between, after] = around;
    let mut written = String::with_capacity(text.len() + text.len() / 2);
    let mut characters = text.chars().peekable();
    while let Some(first) = characters.next() {
        match characters.next_if(|&second| matches(first, second)) {
            Some(second) => {
                written.push_str(before);
                written.push(first);
                written.push_str(between);
                written.push(second);
                written.push_str(after);
            }
            None => written.push(first),
        }
    }
    written
}

/// The parts of a text between white space, as Python's `str.split` finds them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(is_space);
    words.filter(|word| !word.is_empty())
}

/// Whether a character is white space in Python: Unicode's white space, and the ASCII separators.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}
