//! Files of pairs beside the one of training.

use std::path::Path;

use attention_seq2seq::data::{PairFile, PairFileOptions};
use attention_seq2seq::{Pair, Result, Translator};

use crate::output::note;

/// Reads a file, and says on the standard error how a dictionary is read: its columns are told by itself alone.
pub(super) fn read_file(path: &Path, options: &PairFileOptions) -> Result<PairFile> {
    let file = PairFile::read(path)?;
    if let Some(recognized) = file.recognized(&options.format)? {
        note(recognized);
    }
    Ok(file)
}

/// The pairs of a file, as [`Translator::pair_options`] has them.
pub(super) fn read_pairs(path: &Path, translator: &Translator) -> Result<Vec<Pair>> {
    let options = translator.pair_options(path)?;
    read_file(path, &options)?.pairs(&options)
}
