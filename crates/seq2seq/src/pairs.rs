//! Files of pairs other than the training's.

use std::path::Path;

use attention_seq2seq::data::{PairFile, PairFileOptions};
use attention_seq2seq::{Pair, Result, Translator};

use crate::output::note;

/// Reads a file, and reports on the standard error how a dictionary is read, which the file alone determines.
pub(super) fn read_file(path: &Path, options: &PairFileOptions) -> Result<PairFile> {
    let file = PairFile::read(path)?;
    if let Some(recognized) = file.recognized(&options.format)? {
        note(recognized);
    }
    Ok(file)
}

/// The pairs of a file, read with [`Translator::pair_options`].
pub(super) fn read_pairs(path: &Path, translator: &Translator) -> Result<Vec<Pair>> {
    let options = translator.pair_options(path)?;
    read_file(path, &options)?.pairs(&options)
}
