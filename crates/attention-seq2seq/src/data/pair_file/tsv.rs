//! Lines of columns divided by TAB.

use std::borrow::Cow;

use super::Columns;
use super::line::{LineError, LineResult, Texts, check_characters, check_not_empty, check_tags};
use crate::text::tags::with_tags;
use crate::text::tokens::trim;

pub(super) fn texts(line: &str, columns: Columns) -> LineResult<Texts<'_>> {
    check_not_empty(line)?;
    let cells: Vec<&str> = line.split('\t').map(trim).collect();
    let cell = |name: &str, column: usize| {
        let expected = format!("{name} in column {column}");
        match cells.get(column - 1) {
            Some(&"") => Err(LineError::new(expected, "an empty column")),
            Some(cell) => {
                check_characters(cell, &format!("in column {column}"))?;
                Ok(*cell)
            }
            None => {
                let s = if cells.len() == 1 { "" } else { "s" };
                let mut found = format!("{} column{s} divided by TAB", cells.len());
                if cells.len() == 1 && line.contains(' ') {
                    found += " (a dictionary, as --input-format dict reads it, may be divided by spaces)";
                }
                Err(LineError::new(expected, found))
            }
        }
    };
    let source = cell("a source", columns.source)?;
    let target = cell("a target", columns.target)?;
    let source = match columns.tags {
        None => Cow::Borrowed(source),
        Some(column) => {
            let tags = cell("tags", column)?;
            check_tags(tags)?;
            Cow::Owned(with_tags(tags, source))
        }
    };
    Ok(Texts {
        source,
        target: Cow::Borrowed(target),
    })
}
