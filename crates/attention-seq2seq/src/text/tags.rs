//! Tags before a source, such as the morphological features to inflect a lemma for.

/// A source with its tags before it: `V;PST` and `go` give `V;PST; go`.
pub(crate) fn with_tags(tags: &str, source: &str) -> String {
    let end = if tags.ends_with(';') { "" } else { ";" };
    format!("{tags}{end} {source}")
}

/// Converts a source as typed by a user to the form of [`with_tags`]: tags and source are separated by TAB, or
/// otherwise by the first space, if a `;` precedes it. A text without tags is only a source.
pub(crate) fn canonical(text: &str) -> String {
    let by_tab = text.split_once('\t');
    let by_space = || text.split_once(' ').filter(|(tags, _)| tags.contains(';'));
    let Some((tags, source)) = by_tab.or_else(by_space) else {
        return text.to_owned();
    };
    let tags = tags.trim_end_matches(' ');
    with_tags(tags, source.trim_start_matches([' ', '\t']))
}

/// The tags of a canonical text, and its source.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let parts = text.split_once(' ').filter(|(tags, _)| tags.ends_with(';'));
    parts.unwrap_or(("", text))
}

/// The tags as tokens: each ends with `;`, which is unlikely for characters or words of a source.
pub(crate) fn tokens(tags: &str) -> impl Iterator<Item = &str> {
    tags.split_inclusive(';').filter(|tag| *tag != ";")
}

pub(crate) fn is_tag(token: &str) -> bool {
    token.len() > 1 && token.ends_with(';')
}
