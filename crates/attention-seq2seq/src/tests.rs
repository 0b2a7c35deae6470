//! Shared by the tests of the library: tables of cases in the text of a test, runs and small models.

use attention_core::{DotProductAttention, DotProductAttentionConfig};
use attention_tests::parameters;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use crate::data::Pair;
use crate::device::test_device;
use crate::error::Result;
use crate::model::{Seq2Seq, Seq2SeqConfig};
use crate::run::{Epoch, Figures, RunDir};
use crate::text::tokens::Tokenization::Chars;
use crate::text::vocab::{Vocab, Vocabs};

/// The rows of a table: a line each, with ` | ` between the cells, in which `\n`, `\r`, `\t` and `\0` are escapes.
pub(crate) fn rows<const N: usize>(table: &str) -> Vec<[String; N]> {
    let row = |line: &str| {
        let escapes = [("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t"), ("\\0", "\0")];
        let cell = |cell: &str| {
            let replaced = |cell: String, (from, to): (&str, &str)| cell.replace(from, to);
            escapes.into_iter().fold(cell.to_string(), replaced)
        };
        let cells: Vec<String> = line.split(" | ").map(cell).collect();
        cells.try_into().expect(line)
    };
    table.trim().lines().map(row).collect()
}

/// The error, which is one line.
#[track_caller]
pub(crate) fn line<T>(result: Result<T>) -> String {
    let line = result.err().unwrap().to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

pub(crate) fn pair(source: &str, target: &str) -> Pair {
    let [source, target] = [source, target].map(|text| Chars.split(text));
    Pair { source, target }
}

/// The vocabularies of these letters.
pub(crate) fn vocabs(source: &str, target: &str) -> Vocabs {
    let vocab = |letters: &str| Vocab::build([&Chars.split(letters)[..]]);
    let [source, target] = [source, target].map(vocab);
    Vocabs { source, target }
}

/// A run in an empty folder, which is removed with the first.
pub(crate) fn folder() -> (TempDir, RunDir) {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::new(folder.path());
    (folder, run)
}

/// An epoch with this loss in validation.
pub(crate) fn epoch_of(epoch: usize, loss: f64) -> Epoch {
    let figures = |loss| Figures {
        loss,
        exact_match: 0.0,
        token_errors: 0.0,
        bleu: None,
    };
    Epoch {
        epoch,
        train: figures(9.0),
        valid: figures(loss),
    }
}

/// The same model each time. Not by the device's seed: other tests draw from it, too, at the same time.
pub(crate) fn model() -> Seq2Seq<DotProductAttention> {
    let config = Seq2SeqConfig::new(8, 8)
        .with_embedding_size(3)
        .with_hidden_size(4);
    let attention = DotProductAttentionConfig::new().init();
    let mut random = StdRng::seed_from_u64(3);
    let model = config.init(attention, &test_device().autodiff());
    parameters::changed(model, |_, mut value| {
        value.data.fill_with(|| random.random_range(-0.5..0.5));
        value
    })
}
