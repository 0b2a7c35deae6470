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
//! compares seven. A folder of sentence-transformers, with a `modules.json`, says how a text becomes a vector and to
//! how many tokens it is cut. For other folders the second argument says which features of a text are its embedding:
//! the mean of all tokens (without the argument), the first one, or the last one.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use attention_core::NewRows;
use attention_plot::HeatmapGrid;
use attention_transformers::hub::{self, OpenModel, SentenceEncoder};
use attention_transformers::position_embedding::PositionLimit;
use attention_transformers::text_encoder::Pooling;
use burn::prelude::*;
use tokenizers::{Encoding, Tokenizer, TruncationParams};

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
    let folder = Path::new(&folder);
    let is_of_library = folder.join("modules.json").exists();
    let mut file = arguments.next();
    let pooling = match file.as_deref() {
        Some("mean") => Some(Pooling::Mean),
        Some("first") => Some(Pooling::First),
        Some("last") => Some(Pooling::Last),
        _ => None,
    };
    if pooling.is_some() {
        file = arguments.next();
    }
    let sentences: Vec<String> = match file {
        Some(file) => {
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|error| {
                format!("mean, first, last or a file expected: `{file}`: {error}")
            })?;
            text.lines().map(String::from).collect()
        }
        None => SENTENCES.map(String::from).to_vec(),
    };

    let device = Device::default();
    let model = match pooling {
        None if is_of_library => Model::Sentences(hub::open_sentences(folder, &device)?),
        Some(_) if is_of_library => {
            return Err(
                "no pooling expected, as `modules.json` of the folder says it, got one".into(),
            );
        }
        _ => Model::Pooled(
            hub::open(folder, &device)?,
            pooling.unwrap_or(Pooling::Mean),
        ),
    };
    let tokenizer = tokenizer(folder, model.max_tokens())?;
    let start = Instant::now();
    let embeddings = embed(&model, &tokenizer, &sentences, &device)?;
    let seconds = start.elapsed().as_secs_f64();
    // Vectors of length 1: their products are the cosines of the angles between them.
    let similarities = embeddings.clone().matmul(embeddings.transpose());
    show(&sentences, similarities)?;
    let rate = sentences.len() as f64 / seconds;
    println!("{} sentences, {rate:.0} a second", sentences.len());
    Ok(())
}

/// A model, and how a text becomes a vector.
enum Model {
    /// As the folder says.
    Sentences(SentenceEncoder),
    /// By a pooling of features.
    Pooled(OpenModel, Pooling),
}

impl Model {
    /// The number of tokens to which a text is cut.
    fn max_tokens(&self) -> Option<usize> {
        match self {
            Self::Sentences(model) => model.max_tokens,
            Self::Pooled(..) => None,
        }
    }

    fn position_limit(&self) -> Option<PositionLimit> {
        match self {
            Self::Sentences(model) => model.encoder.position_limit(),
            Self::Pooled(model, _) => model.position_limit(),
        }
    }

    /// The text that the tokenizer reads.
    fn prepared(&self, sentence: &str) -> String {
        let Self::Sentences(model) = self else {
            return sentence.to_string();
        };
        let prompt = model.prompt.as_deref().unwrap_or("");
        let text = format!("{prompt}{sentence}");
        if model.lower_case {
            text.to_lowercase()
        } else {
            text
        }
    }

    fn embeddings(&self, tokens: Tensor<2, Int>, rows: NewRows) -> Tensor<2> {
        match self {
            Self::Sentences(model) => model.embeddings(tokens, rows),
            Self::Pooled(model, pooling) => model.embeddings(tokens, rows, *pooling),
        }
    }
}

/// The tokenizer of a folder, which does not pad texts, and cuts them to `max_tokens`.
fn tokenizer(folder: &Path, max_tokens: Option<usize>) -> Result<Tokenizer, Box<dyn Error>> {
    // Older folders of sentence-transformers have the model in a folder of its own.
    let files = ["tokenizer.json", "0_Transformer/tokenizer.json"].map(|name| folder.join(name));
    let [first, _] = &files;
    let file = files.iter().find(|file| file.exists()).unwrap_or(first);
    let tokenizer = Tokenizer::from_file(file);
    let mut tokenizer = tokenizer.map_err(|error| format!("`{}`: {error}", file.display()))?;
    tokenizer.with_padding(None);
    let truncation = max_tokens.map(|max_length| TruncationParams {
        max_length,
        ..tokenizer.get_truncation().cloned().unwrap_or_default()
    });
    tokenizer
        .with_truncation(truncation)
        .map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

/// The embeddings of sentences, `[sentences, num_hiddens]`, in batches of similar lengths.
fn embed(
    model: &Model,
    tokenizer: &Tokenizer,
    sentences: &[String],
    device: &Device,
) -> Result<Tensor<2>, Box<dyn Error>> {
    if sentences.is_empty() {
        return Err("at least one sentence expected, got none".into());
    }
    let texts: Vec<String> = sentences.iter().map(|of| model.prepared(of)).collect();
    let encodings = tokenizer.encode_batch_fast(texts, true);
    let encodings = encodings.map_err(|error| error.to_string())?;
    for (at, (text, encoding)) in sentences.iter().zip(&encodings).enumerate() {
        check(at + 1, text, encoding, model)?;
    }
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
        model.embeddings(tokens, NewRows::First(&lens))
    });
    let sorted = Tensor::cat(batches.collect(), 0);
    let mut places = vec![0_i64; order.len()];
    for (place, at) in order.into_iter().enumerate() {
        places[at] = place as i64;
    }
    Ok(sorted.select(0, Tensor::from_data(places.as_slice(), device)))
}

/// Says where a text is cut.
///
/// # Errors
/// If it has no token, or more than the model has positions.
fn check(
    number: usize,
    text: &str,
    encoding: &Encoding,
    model: &Model,
) -> Result<(), Box<dyn Error>> {
    let len = encoding.len();
    let text: String = text.chars().take(40).collect();
    if len == 0 {
        return Err(
            format!("sentence {number}, {text:?}: at least one token expected, got none").into(),
        );
    }
    if let Some(limit) = model
        .position_limit()
        .filter(|limit| len > limit.max_positions)
    {
        let most = limit.max_positions;
        return Err(format!(
            "sentence {number}, {text:?}: at most {most} tokens expected, since {}, got {len}",
            limit.reason
        )
        .into());
    }
    if !encoding.get_overflowing().is_empty() {
        println!("sentence {number}, {text:?}: cut to {len} tokens");
    }
    Ok(())
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
    let heatmap = HeatmapGrid::single(similarities, [shown, shown])?
        .with_query_labels(&sentences[..shown])?
        .with_range(-1.0, 1.0)?;
    let folder = Path::new("target/pictures");
    std::fs::create_dir_all(folder)?;
    let file = folder.join("embed_sentences.svg");
    std::fs::write(&file, heatmap.to_file(&file)?)?;
    println!("saved {}", file.display());
    Ok(())
}
