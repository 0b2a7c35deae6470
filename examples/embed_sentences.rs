//! Embeddings of sentences, and how similar each two are: a model of Hugging Face's, such as all-MiniLM-L6-v2, BGE or
//! E5, and its tokenizer, from one folder.
//!
//! A batch has texts of any lengths: attention does not compute the padding of shorter ones. Reimers & Gurevych 2019,
//! "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks".
//!
//! ```text
//! cargo run --release -p attention-examples --example embed_sentences -- FOLDER [mean|first|last] [FILE]
//! ```
//!
//! The folder has `config.json`, `tokenizer.json` and the parameters. Without a file of sentences, one a line, it
//! compares seven. The second argument says which features of a text are its embedding: the mean of all tokens (MiniLM,
//! E5), the first one (BGE), or the last one (Qwen3-Embedding).

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use attention_core::NewRows;
use attention_plot::Heatmap;
use attention_transformers::Pooling;
use attention_transformers::hub::{self, OpenModel};
use burn::prelude::*;
use tokenizers::{Encoding, Tokenizer};

mod common;
use common::println;

const SENTENCES: [&str; 7] = [
    "A cat sleeps on the sofa.",
    "The kitten is napping on the couch.",
    "Dogs love long walks.",
    "The stock market fell sharply today.",
    "Shares dropped after the announcement.",
    "How do I bake bread at home?",
    "A recipe for a simple loaf",
];

/// The number of texts that are computed at once.
const BATCH: usize = 32;

/// The most sentences whose similarities are printed.
const SHOWN: usize = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        println!("arguments: FOLDER [mean|first|last] [FILE]");
        return Ok(());
    };
    let pooling = match arguments.next().as_deref() {
        None | Some("mean") => Pooling::Mean,
        Some("first") => Pooling::First,
        Some("last") => Pooling::Last,
        Some(other) => return Err(format!("mean, first or last expected, got {other:?}").into()),
    };
    let sentences = match arguments.next() {
        Some(file) => std::fs::read_to_string(file)?
            .lines()
            .map(String::from)
            .collect(),
        None => SENTENCES.map(String::from).to_vec(),
    };

    let device = Device::default();
    let tokenizer = tokenizer(Path::new(&folder))?;
    let model = hub::open(&folder, &device)?;
    let start = Instant::now();
    let embeddings = embed(&model, &tokenizer, &sentences, pooling, &device)?;
    let seconds = start.elapsed().as_secs_f64();
    // Vectors of length 1: their products are the cosines of the angles between them.
    let similarities = embeddings.clone().matmul(embeddings.transpose());
    show(&sentences, similarities)?;
    let rate = sentences.len() as f64 / seconds;
    println!("{} sentences, {rate:.0} a second", sentences.len());
    Ok(())
}

/// The tokenizer of a folder. It neither pads texts nor cuts them off.
fn tokenizer(folder: &Path) -> Result<Tokenizer, Box<dyn Error>> {
    let file = folder.join("tokenizer.json");
    let tokenizer = Tokenizer::from_file(&file);
    let mut tokenizer = tokenizer.map_err(|error| format!("`{}`: {error}", file.display()))?;
    tokenizer.with_padding(None);
    tokenizer
        .with_truncation(None)
        .map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

/// The embeddings of sentences, `[sentences, num_hiddens]`, in batches of similar lengths.
fn embed(
    model: &OpenModel,
    tokenizer: &Tokenizer,
    sentences: &[String],
    pooling: Pooling,
    device: &Device,
) -> Result<Tensor<2>, Box<dyn Error>> {
    let encodings = tokenizer.encode_batch_fast(sentences.to_vec(), true);
    let encodings = encodings.map_err(|error| error.to_string())?;
    let mut order: Vec<usize> = (0..sentences.len()).collect();
    order.sort_by_key(|at| encodings[*at].len());
    let batches = order.chunks(BATCH).map(|batch| {
        let batch: Vec<&Encoding> = batch.iter().map(|at| &encodings[*at]).collect();
        let lens: Vec<usize> = batch.iter().map(|text| text.len()).collect();
        let longest = lens.iter().copied().max().unwrap_or(0);
        // Padding may be any token.
        let tokens = batch.iter().flat_map(|text| {
            let tokens = text.get_ids().iter().map(|token| i64::from(*token));
            tokens.chain(std::iter::repeat(0)).take(longest)
        });
        let tokens = TensorData::new(tokens.collect::<Vec<_>>(), [batch.len(), longest]);
        let tokens = Tensor::from_data(tokens, device);
        model.embeddings(tokens, NewRows::First(&lens), pooling)
    });
    let sorted = Tensor::cat(batches.collect(), 0);
    let mut places = vec![0_i64; order.len()];
    for (place, at) in order.into_iter().enumerate() {
        places[at] = place as i64;
    }
    Ok(sorted.select(0, Tensor::from_data(places.as_slice(), device)))
}

/// The similarities of the first sentences, as numbers, and as a heatmap in a file.
fn show(sentences: &[String], similarities: Tensor<2>) -> Result<(), Box<dyn Error>> {
    let shown = sentences.len().min(SHOWN);
    let similarities = similarities.slice([0..shown, 0..shown]);
    let similarities = similarities.try_into_vec_as::<f32>()?;
    for (row, sentence) in similarities.chunks(shown).zip(sentences) {
        let row: Vec<_> = row.iter().map(|element| format!("{element:5.2}")).collect();
        println!("{}  {sentence}", row.join(" "));
    }
    let heatmap = Heatmap::new(similarities, [shown, shown])?
        .with_query_labels(&sentences[..shown])?
        .with_range(-1.0, 1.0)?;
    let folder = Path::new("target/pictures");
    std::fs::create_dir_all(folder)?;
    let file = folder.join("embed_sentences.svg");
    heatmap.save(&file)?;
    println!("saved {}", file.display());
    Ok(())
}
