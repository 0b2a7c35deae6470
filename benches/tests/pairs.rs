//! The memory of a file of pairs in training.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use attention_benches::memory::peak_extra;
use attention_core::DotProductAttentionConfig;
use attention_seq2seq::data::{Columns, Corpus, PairFile};
use attention_seq2seq::train::TrainingEnd;
use attention_seq2seq::{Interrupter, RunDir, Seq2SeqConfig, TrainConfig, Training};
use burn::tensor::Device;

/// The most bytes at once from the file in `folder` to the first step of a training, in the order of
/// `seq2seq train --data`.
fn peak(folder: &Path, lines: &str) -> u64 {
    let path = folder.join("pairs.tsv");
    std::fs::write(&path, lines).unwrap();
    peak_extra(|| {
        let mut corpus = {
            let file = PairFile::read(&path).unwrap();
            let options = file.guess(Columns::default()).unwrap();
            Corpus::of_files(&file, None, &options, 1).unwrap()
        };
        let vocabs = corpus.vocabs();
        corpus.checksum();
        corpus.longest_target();
        let train = corpus.train_examples(&vocabs);
        corpus.forget_train();
        let device = Device::flex().autodiff();
        let attention = DotProductAttentionConfig::new().init();
        let interrupter = Interrupter::new();
        interrupter.stop();
        let training = Training {
            model: Seq2SeqConfig::new(vocabs.source.len(), vocabs.target.len())
                .with_hidden_size(4)
                .init(attention, &device),
            train,
            valid: corpus.valid_examples(&vocabs),
            config: TrainConfig::default(),
            run: RunDir::new(folder.join("run")),
            resume_from: None,
            interrupter,
            observer: (),
        };
        assert_eq!(training.launch().unwrap(), TrainingEnd::Interrupted);
    })
}

/// The only test of this program, which counts what all its threads allocate.
#[test]
fn pairs_take_at_most_eight_times_their_file() {
    let folder = tempfile::tempdir().unwrap();
    // Lines of 42 bytes, and the shortest that still have a source each.
    let long = |number: usize| format!("{number:020}\t{:020}\n", number * 7);
    let short = |number: usize| format!("{number:X}\t{}\n", number % 10);
    for line in [long as fn(usize) -> String, short] {
        let measure = |pairs: usize| {
            let lines: String = (0..pairs).map(line).collect();
            (peak(folder.path(), &lines), lines.len() as u64)
        };
        // The first training makes what later ones find.
        measure(1_000);
        let (few, few_bytes) = measure(1_000);
        // A vector that grows has room for up to twice its elements: not every count is as good as another.
        for pairs in (10_000..20_000).step_by(3_000) {
            let (many, many_bytes) = measure(pairs);
            let times = (many - few) as f64 / (many_bytes - few_bytes) as f64;
            println!("{pairs} pairs: {few} -> {many} bytes, {times:.2} times the file");
            assert!(times < 8.0, "{pairs} pairs: {times:.2} times the file");
        }
    }
}
