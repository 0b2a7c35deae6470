//! Translates texts by one of the models OPUS-MT of Hugging Face's, with a beam from a cache.
//!
//! ```text
//! cargo run --release -p attention-examples --example translate_marian -- FOLDER TEXT..
//! ```
//!
//! The folder has `config.json`, `generation_config.json` if there is one, the parameters (`model.safetensors` or
//! `pytorch_model.bin`), `source.spm`, and the numbers of pieces: `vocab.json`, and `target_vocab.json` where each
//! language has its own. A text for a model of several languages begins with the language, as `>>fra<<`.
//!
//! Tokens and beams are those of `MarianTokenizer` and `generate` of `transformers` 5.24, with these settings:
//! `num_beams` (here 4 where there is none), `max_length` (512), `length_penalty`, `early_stopping`, `bad_words_ids`
//! of one token each, `forced_eos_token_id` and `renormalize_logits`. Different are
//!
//! - other settings, as `no_repeat_ngram_size`: they are not read
//! - a text that is too long, and a `.spm` of pairs of bytes, or with symbols of users: an error
//! - names of special tokens within a text, as `</s>`: they are text
//! - `target.spm`: it is not read, since the pieces of a translation are joined by themselves
//!
//! Junczys-Dowmunt et al. 2018, "Marian: Fast Neural Machine Translation in C++"; Tiedemann & Thottingal 2020,
//! "OPUS-MT: Building open translation services for the World".

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use attention_core::NewRows;
use attention_transformers::BeamConfig;
use attention_transformers::generate::EarlyStopping;
use attention_transformers::generate::search::LengthPenalty;
use attention_transformers::hub::load_bart;
use burn::prelude::*;
use serde_json::{Map, Value};

mod common;
#[path = "translate_marian/sentence_piece.rs"]
mod sentence_piece;

use common::println;
use sentence_piece::{SentencePiece, decode};

/// The number of texts that are translated at once.
const BATCH: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), texts) = (arguments.next(), arguments.collect::<Vec<_>>()) else {
        println!("arguments: FOLDER TEXT..");
        return Ok(());
    };
    let folder = PathBuf::from(folder);
    let device = Device::default();
    let model = load_bart(&folder, &device)?;
    let tokenizer = Tokenizer::open(&folder)?;
    let settings = Settings::open(&folder)?;
    for texts in texts.chunks(BATCH) {
        let tokens = texts.iter().map(|text| tokenizer.encode(text, &settings));
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        let lens: Vec<usize> = tokens.iter().map(Vec::len).collect();
        let longest = lens.iter().copied().max().unwrap_or(0);
        // Padding may be any token.
        let padded = tokens.iter().flat_map(|tokens| {
            let tokens = tokens.iter().map(|token| i64::from(*token));
            tokens.chain(std::iter::repeat(0)).take(longest)
        });
        let padded = TensorData::new(padded.collect::<Vec<_>>(), [texts.len(), longest]);
        let memory = model.encode(Tensor::from_data(padded, &device), NewRows::First(&lens));
        let begin = vec![[settings.begin]; texts.len()];
        for beams in settings.beam.generate(&model, model.state(memory), &begin) {
            let best = beams.first().ok_or("a text without a translation")?;
            println!("{}", tokenizer.decode(&best.tokens));
        }
    }
    Ok(())
}

/// The object in a file of JSON.
fn read(file: &Path) -> Result<Map<String, Value>, Box<dyn Error>> {
    let read = || Ok(serde_json::from_slice(&std::fs::read(file)?)?);
    read().map_err(|error: Box<dyn Error>| format!("`{}`: {error}", file.display()).into())
}

/// The settings of a folder.
struct Settings {
    beam: BeamConfig,
    /// The token with which a translation begins.
    begin: u32,
    /// The token with which a text ends.
    end: u32,
    /// The most tokens of a text, its end included.
    max_positions: u64,
}

impl Settings {
    fn open(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let config = read(&folder.join("config.json"))?;
        let generation = folder.join("generation_config.json");
        let fields = if generation.exists() {
            read(&generation)?
        } else {
            config.clone()
        };
        let value = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let token = |name: &str| {
            let token = value(name)
                .and_then(Value::as_u64)
                .map(|token| token as u32);
            token.ok_or_else(|| format!("`{name}`: a token expected, got {:?}", fields.get(name)))
        };
        let number = |name: &str, default: u64| match value(name) {
            None => Ok(default as usize),
            Some(value) => match value.as_u64().filter(|number| *number > 0) {
                Some(number) => Ok(number as usize),
                None => Err(format!("`{name}`: a number above 0 expected, got {value}")),
            },
        };
        let flag = |name: &str| match value(name) {
            None => Ok(false),
            Some(value) => {
                let flag = value.as_bool();
                flag.ok_or_else(|| format!("`{name}`: true or false expected, got {value}"))
            }
        };
        let words = value("bad_words_ids").and_then(Value::as_array);
        let words = words.into_iter().flatten().map(|word| {
            let tokens = word.as_array().filter(|tokens| tokens.len() == 1);
            let token = tokens.and_then(|tokens| tokens[0].as_u64());
            let token = token.map(|token| token as u32);
            token.ok_or_else(|| format!("`bad_words_ids`: words of one token expected, got {word}"))
        });
        let end = token("eos_token_id")?;
        let penalty = value("length_penalty").and_then(Value::as_f64);
        // Its first token is the one with which it begins.
        let max_tokens = number("max_length", 512)?.saturating_sub(1).max(1);
        let beam = BeamConfig::new(number("num_beams", 4)?, max_tokens)
            .with_stop_tokens(vec![end])
            .with_excluded_tokens(words.collect::<Result<_, _>>()?)
            .with_renormalize(flag("renormalize_logits")?)
            .with_last_token(
                value("forced_eos_token_id")
                    .map(|_| token("forced_eos_token_id"))
                    .transpose()?,
            )
            .with_length_penalty(LengthPenalty::Average(penalty.unwrap_or(1.0)))
            .with_early_stopping(match value("early_stopping") {
                Some(Value::String(word)) if word == "never" => EarlyStopping::Never,
                _ if flag("early_stopping")? => EarlyStopping::AtOnce,
                _ => EarlyStopping::Likely,
            });
        let max_positions = config
            .get("max_position_embeddings")
            .and_then(Value::as_u64);
        Ok(Self {
            beam,
            begin: token("decoder_start_token_id")?,
            end,
            max_positions: max_positions.unwrap_or(0),
        })
    }
}

/// The pieces of texts, and their numbers.
struct Tokenizer {
    pieces: SentencePiece,
    source: HashMap<String, u32>,
    target: HashMap<u32, String>,
}

impl Tokenizer {
    fn open(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let vocab = |file: &str| {
            let pieces = read(&folder.join(file))?.into_iter();
            let pieces = pieces.map(|(piece, number)| match number.as_u64() {
                Some(number) => Ok((piece, number as u32)),
                None => {
                    Err(format!("`{file}`: a number of `{piece}` expected, got {number}").into())
                }
            });
            pieces.collect::<Result<HashMap<_, _>, Box<dyn Error>>>()
        };
        let source = vocab("vocab.json")?;
        let own = "target_vocab.json";
        let target = if folder.join(own).exists() {
            vocab(own)?
        } else {
            source.clone()
        };
        Ok(Self {
            pieces: SentencePiece::open(&folder.join("source.spm"))?,
            source,
            target: target
                .into_iter()
                .map(|(piece, number)| (number, piece))
                .collect(),
        })
    }

    /// The tokens of a text, which may begin with a language, and the end.
    fn encode(&self, text: &str, settings: &Settings) -> Result<Vec<u32>, Box<dyn Error>> {
        let language = text.strip_prefix(">>").and_then(|text| text.find("<<"));
        let (language, text) = text.split_at(language.map_or(0, |len| len + 4));
        let mut pieces = self.pieces.encode(text)?;
        if !language.is_empty() {
            pieces.insert(0, language.to_string());
        }
        let unknown = *self
            .source
            .get("<unk>")
            .ok_or("`vocab.json`: a piece `<unk>` expected, got none")?;
        let tokens = pieces
            .iter()
            .map(|piece| self.source.get(piece).copied().unwrap_or(unknown));
        let tokens: Vec<u32> = tokens.chain([settings.end]).collect();
        if tokens.len() as u64 > settings.max_positions {
            let most = settings.max_positions;
            return Err(format!(
                "at most {most} tokens expected, got {} of {text:?}",
                tokens.len()
            )
            .into());
        }
        Ok(tokens)
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let pieces = tokens.iter().filter_map(|token| self.target.get(token));
        let special = ["</s>", "<pad>", "<unk>"];
        decode(
            pieces
                .map(String::as_str)
                .filter(|piece| !special.contains(piece)),
        )
    }
}
