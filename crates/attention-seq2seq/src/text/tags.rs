//! Tags before a source, such as the features of the form that a lemma is inflected to.

/// A source with its tags before it: `V;PST; go` of `V;PST` and `go`.
pub(crate) fn with_tags(tags: &str, source: &str) -> String {
    let end = if tags.ends_with(';') { "" } else { ";" };
    format!("{tags}{end} {source}")
}

/// A source as [`with_tags`] writes it, of one that a person wrote: tags and source are divided by TAB, or else by the
/// first space, if a `;` is before it. A text without tags is a source alone.
pub(crate) fn canonical(text: &str) -> String {
    let by_tab = text.split_once('\t');
    let by_space = || text.split_once(' ').filter(|(tags, _)| tags.contains(';'));
    match by_tab.or_else(by_space) {
        Some((tags, source)) => with_tags(
            tags.trim_end_matches(' '),
            source.trim_start_matches([' ', '\t']),
        ),
        None => text.to_owned(),
    }
}

/// The tags of a canonical text, and its source.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let parts = text.split_once(' ');
    parts
        .filter(|(tags, _)| tags.ends_with(';'))
        .unwrap_or(("", text))
}

/// The tags as tokens: each ends with `;`, as no character or word of a source is likely to.
pub(crate) fn tokens(tags: &str) -> impl Iterator<Item = &str> {
    tags.split_inclusive(';').filter(|tag| *tag != ";")
}

pub(crate) fn is_tag(token: &str) -> bool {
    token.len() > 1 && token.ends_with(';')
}
