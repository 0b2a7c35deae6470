//! Lines of columns separated by TAB.

use super::Columns;
use super::line::{LineError, LineResult, Texts, check_characters, check_not_empty};
use crate::text::tokens::trim;

pub(super) fn texts(line: &str, columns: Columns) -> LineResult<Texts<'_>> {
    check_not_empty(line)?;
    let cells: Vec<&str> = line.split('\t').map(trim).collect();
    columns.texts(|name, column| {
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
    })
}
