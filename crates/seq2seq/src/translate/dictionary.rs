//! Known outputs.

use std::collections::HashMap;
use std::path::Path;

use attention_seq2seq::{Result, Translator};

use crate::pairs::read_pairs;

/// The targets of each source in a file, in order, as tokens.
pub(super) struct Dictionary(HashMap<Vec<String>, Vec<Vec<String>>>);

impl Dictionary {
    pub(super) fn read(file: &Path, translator: &Translator) -> Result<Self> {
        let mut entries = HashMap::<Vec<String>, Vec<Vec<String>>>::new();
        for pair in read_pairs(file, translator)? {
            let targets = entries.entry(pair.source).or_default();
            if !targets.contains(&pair.target) {
                targets.push(pair.target);
            }
        }
        Ok(Self(entries))
    }

    /// The targets of a source; `None` if it is not in the file.
    pub(super) fn targets(&self, source: &[String]) -> Option<&[Vec<String>]> {
        self.0.get(source).map(Vec::as_slice)
    }
}
