//! Data of your own: from a file of pairs to padded batches, and a model trained on them.
//!
//! The file has a source and a target in each line, with a tab between: here numbers in digits, and in English words.
//! The model is the recurrent encoder-decoder of `attention-seq2seq`; `classifier.rs` and `decoder.rs` pad texts for
//! models that are written out.
//!
//! ```text
//! cargo run -p attention-examples --example own_data [folder for a file of pairs] [file of your own]
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};

use attention_core::{AdditiveAttention, AdditiveAttentionConfig};
use attention_seq2seq::data::{PairFileOptions, Source};
use attention_seq2seq::{
    Batch, Example, Seq2Seq, Seq2SeqConfig, Seq2SeqModel, Tokenization, Trainee, Vocabs,
    load_pairs, split_holdout,
};
use burn::module::Module;
use burn::optim::AdamConfig;
use burn::prelude::*;

mod common;
use common::{folder, println};

// ANCHOR: file
/// The name of a number from 1 to 999.
fn name(number: usize) -> String {
    let ones = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    let tens = [
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ];
    let mut words = Vec::new();
    if number >= 100 {
        words.extend([ones[number / 100 - 1], "hundred"]);
    }
    let mut rest = number % 100;
    if rest >= 20 {
        words.push(tens[rest / 10 - 2]);
        rest %= 10;
    }
    if rest > 0 {
        words.push(ones[rest - 1]);
    }
    words.join(" ")
}

/// A line of the file: `407 TAB four hundred seven`.
fn write_pairs(file: &Path) -> std::io::Result<()> {
    let lines = (1..1000).map(|number| format!("{number}\t{}\n", name(number)));
    std::fs::write(file, lines.collect::<String>())
}
// ANCHOR_END: file

// ANCHOR: data
/// Pairs as token ids, some of them held out, and their vocabularies.
struct Data {
    vocabs: Vocabs,
    train: Vec<Example>,
    valid: Vec<Example>,
}

impl Data {
    fn read(file: &Path) -> Result<Self, Box<dyn Error>> {
        // Each character of a source is a token, and each word of a target.
        let options = PairFileOptions::new(Tokenization::Chars, Tokenization::Spaces);
        let pairs = split_holdout(load_pairs(file, &options)?, 0.1, 1)?;
        let vocabs = Vocabs::build(&pairs.train);
        Ok(Self {
            train: vocabs.encode(&pairs.train),
            valid: vocabs.encode(&pairs.valid),
            vocabs,
        })
    }
}
// ANCHOR_END: data

// ANCHOR: training
const HIDDENS: usize = 64;
const BATCH: usize = 64;
const EPOCHS: usize = 12;

type Model = Seq2Seq<AdditiveAttention>;

fn train(data: &Data, device: &Device) -> Model {
    let training = device.clone().autodiff();
    let attention = AdditiveAttentionConfig::new(HIDDENS, HIDDENS, HIDDENS).init(&training);
    let model = Seq2SeqConfig::new(data.vocabs.source.len(), data.vocabs.target.len())
        .with_embedding_size(32)
        .with_hidden_size(HIDDENS)
        .init(attention, &training);
    let mut trainee = Trainee::new(model).with_clip(1.0);
    let mut adam = AdamConfig::new().init();
    for _ in 0..EPOCHS {
        // A batch of examples that stand `batches` apart: of all lengths, padded to the longest.
        let batches = data.train.len().div_ceil(BATCH);
        for first in 0..batches {
            let examples: Vec<Example> = data
                .train
                .iter()
                .skip(first)
                .step_by(batches)
                .cloned()
                .collect();
            let output = trainee.train_step(Batch::new(&examples, &training));
            trainee = adam.step(0.005, trainee, output.gradients);
        }
    }
    trainee.model.valid()
}
// ANCHOR_END: training

// ANCHOR: main
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(14);
    let own = std::env::args_os().nth(2).map(PathBuf::from);
    let numbers = folder()?.join("numbers.tsv");
    if own.is_none() {
        write_pairs(&numbers)?;
    }
    let data = Data::read(own.as_ref().unwrap_or(&numbers))?;
    println!(
        "{} pairs to learn from, {} held out; {} tokens of sources, {} of targets",
        data.train.len(),
        data.valid.len(),
        data.vocabs.source.len(),
        data.vocabs.target.len()
    );
    let model = train(&data, &device);

    let sources = data.valid.iter().map(|example| example.source.as_slice());
    let written = model
        .greedy(&Source::new(sources, &device), 20, false)
        .tokens;
    let right = written
        .iter()
        .zip(&data.valid)
        .filter(|(written, example)| **written == example.target);
    let accuracy = right.count() as f32 / data.valid.len() as f32;
    println!("right on those held out: {:.1} %", 100.0 * accuracy);
    for (example, written) in data.valid.iter().zip(&written).skip(10).step_by(30) {
        let source = data.vocabs.source.decode(&example.source).concat();
        println!(
            "  {source}: {}",
            data.vocabs.target.decode(written).join(" ")
        );
    }
    if own.is_none() {
        assert!(accuracy > 0.8, "it should have learned to read numbers");
    }
    Ok(())
}
// ANCHOR_END: main
