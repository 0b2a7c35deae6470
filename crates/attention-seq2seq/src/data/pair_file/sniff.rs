//! The format of a file whose name does not tell it.

use std::path::Path;

use super::PairFormat;
use super::dict::is_column;
use crate::error::{Error, Result};
use crate::text::tokens::trim;

/// Finds the format of these lines.
///
/// # Errors
/// [`Error::Config`] if most lines have numbers or brackets where a dictionary may have them; otherwise these would be
/// targets, or parts of sources.
pub(super) fn format<'a>(path: &Path, lines: impl Iterator<Item = &'a [u8]>) -> Result<PairFormat> {
    let mut lines = lines
        .filter_map(|line| std::str::from_utf8(line).ok().map(trim))
        .filter(|line| !line.is_empty())
        .take(1_000)
        .peekable();
    match lines.peek().copied() {
        None => return Ok(PairFormat::Tsv),
        Some(first) if first.starts_with(";;;") => return "dict".parse(),
        Some(_) => {
            let (with, without): (Vec<&str>, Vec<&str>) = lines.partition(|line| has_columns(line));
            if with.len() <= without.len() {
                return Ok(PairFormat::Tsv);
            }
        }
    }
    let what = format!("the format of {}", path.display());
    let expected = "--input-format dict (what stands behind words is left out) or tsv (columns are as they are)";
    let found = "a number or brackets behind most words";
    Err(Error::config(&what, expected, found))
}

/// Whether only columns of a dictionary stand between the first word of a line and its last cell.
fn has_columns(line: &str) -> bool {
    let cells: Vec<&str> = line.split('\t').map(trim).collect();
    // The numbers of NLTK and Kaldi may be 1 in every line.
    let is_column = |it: &str| is_column(it) || it == "1";
    match &cells[..] {
        [head, _] => head.contains(' ') && head.split(' ').skip(1).all(is_column),
        [_, columns @ .., _] => !columns.is_empty() && columns.iter().all(|it| is_column(it)),
        _ => false,
    }
}
