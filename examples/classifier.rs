//! A classifier with additive attention: a text goes in, a class comes out, and a heatmap shows what decided.
//!
//! A recurrent encoder reads the characters in both directions, one learned query asks all of its states, and a linear
//! layer makes logits of the context. Yang et al. 2016, "Hierarchical Attention Networks for Document Classification",
//! pool the words of a sentence so. The texts are dates as people write them in ten languages, the classes their
//! months; or lines of a file, a label and a text with a tab between.
//!
//! ```text
//! cargo run -p attention-examples --example classifier [folder for the heatmap] [file of labels and texts]
//! ```

// ANCHOR: imports
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use attention_core::{AdditiveAttention, AdditiveAttentionConfig, Mask};
use attention_plot::HeatmapGrid;
use attention_seq2seq::Task;
use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Initializer, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn_fused_layers::recurrent::{CellKind, Recurrent, RecurrentConfig, Steps};

mod common;
use common::{folder, print, println};
// ANCHOR_END: imports

// ANCHOR: model
const EMBEDDING: usize = 16;
const HIDDENS: usize = 32;

#[derive(Module, Debug)]
struct Classifier {
    characters: Embedding,
    /// A GRU in both directions: `[batch, characters, EMBEDDING]` to `[batch, characters, 2 * HIDDENS]`.
    encoder: Recurrent,
    /// The question to every text, `[1, HIDDENS]`: a parameter like any other.
    query: Param<Tensor<2>>,
    attention: AdditiveAttention,
    output: Linear,
}

impl Classifier {
    fn new(alphabet: usize, classes: usize, device: &Device) -> Self {
        let encoder = RecurrentConfig::new(CellKind::Gru, EMBEDDING, HIDDENS);
        let normal = Initializer::Normal {
            mean: 0.0,
            std: 1.0,
        };
        // Queries of size HIDDENS, keys of 2 * HIDDENS: additive attention compares them in HIDDENS units.
        let attention = AdditiveAttentionConfig::new(HIDDENS, 2 * HIDDENS, HIDDENS);
        Self {
            characters: EmbeddingConfig::new(alphabet, EMBEDDING).init(device),
            encoder: encoder.with_bidirectional(true).init(device),
            query: normal.init([1, HIDDENS], device),
            attention: attention.with_dropout(0.1).init(device),
            output: LinearConfig::new(2 * HIDDENS, classes).init(device),
        }
    }

    /// The logits of the classes, `[batch, classes]`.
    fn forward(&self, texts: &Texts) -> Tensor<2> {
        let Encoded {
            query,
            states,
            mask,
        } = self.encode(texts);
        let context = self.attention.forward(query, states.clone(), states, &mask);
        self.output.forward(context.squeeze_dim(1))
    }

    /// The attention weights of the characters, `[batch, characters]`.
    fn weights(&self, texts: &Texts) -> Tensor<2> {
        let Encoded {
            query,
            states,
            mask,
        } = self.encode(texts);
        let output = (self.attention).forward_with_weights(query, states.clone(), states, &mask);
        output.weights.squeeze_dim(1)
    }

    fn encode(&self, texts: &Texts) -> Encoded {
        let [batch, _] = texts.tokens.dims();
        let device = texts.tokens.device();
        let characters = self.characters.forward(texts.tokens.clone());
        // Lengths, so that the backward direction begins at the last character and not in the padding.
        let steps = Steps::of_lens(texts.lens.clone());
        let (states, _) = self.encoder.forward(characters, None, &steps);
        let lens: Vec<i64> = texts.lens.iter().map(|len| *len as i64).collect();
        Encoded {
            query: self.query.val().unsqueeze::<3>().repeat_dim(0, batch),
            states,
            mask: Mask::valid_lens(Tensor::from_data(lens.as_slice(), &device)),
        }
    }
}

/// The inputs of the attention: one query for each text, and its states as keys and values.
struct Encoded {
    query: Tensor<3>,
    states: Tensor<3>,
    mask: Mask,
}
// ANCHOR_END: model

// ANCHOR: data
/// A text and its class.
#[derive(Clone)]
struct Example {
    label: String,
    text: String,
}

/// Lines of `label TAB text`.
fn read(file: &str) -> Result<Vec<Example>, Box<dyn Error>> {
    let lines = std::fs::read_to_string(file)?;
    let example = |(number, line): (usize, &str)| -> Result<Example, String> {
        let (label, text) = line.split_once('\t').ok_or(format!(
            "{file}:{}: a label, a tab and a text expected",
            number + 1
        ))?;
        if text.is_empty() {
            return Err(format!(
                "{file}:{}: a text of at least one character expected",
                number + 1
            ));
        }
        Ok(Example {
            label: label.to_string(),
            text: text.to_string(),
        })
    };
    Ok(lines
        .lines()
        .enumerate()
        .map(example)
        .collect::<Result<_, String>>()?)
}

/// Dates as people write them, such as `5 novembre 1994`, and their months.
fn dates(count: usize) -> Vec<Example> {
    let pairs = Task::Dates.generate(count, 1).into_iter();
    let example = |pair: attention_seq2seq::Pair| Example {
        label: pair.target[5..7].concat(), // of YYYY-MM-DD
        text: pair.source.concat(),
    };
    pairs.map(example).collect()
}
// ANCHOR_END: data

// ANCHOR: tokens
/// The tokens of characters and the numbers of classes, as the training examples have them.
struct Vocab {
    tokens: BTreeMap<char, i64>,
    classes: Vec<String>,
}

/// Padding, whose embedding nobody sees.
const PAD: i64 = 0;
/// A character that no training example has.
const UNKNOWN: i64 = 1;

impl Vocab {
    fn of(examples: &[Example]) -> Self {
        let characters: BTreeSet<char> = examples.iter().flat_map(|of| of.text.chars()).collect();
        let classes: BTreeSet<&String> = examples.iter().map(|of| &of.label).collect();
        Self {
            tokens: characters.into_iter().zip(UNKNOWN + 1..).collect(),
            classes: classes.into_iter().cloned().collect(),
        }
    }

    /// The number of tokens.
    fn alphabet(&self) -> usize {
        self.tokens.len() + 2
    }

    fn tokens(&self, text: &str) -> Vec<i64> {
        let token = |character| self.tokens.get(&character).copied().unwrap_or(UNKNOWN);
        text.chars().map(token).collect()
    }

    /// The number of a class; `None` of one that no training example has.
    fn class(&self, label: &String) -> Option<i64> {
        self.classes
            .binary_search(label)
            .ok()
            .map(|class| class as i64)
    }
}

/// Texts of one batch, padded to the longest.
struct Texts {
    /// `[batch, characters]`
    tokens: Tensor<2, Int>,
    lens: Vec<usize>,
}

impl Texts {
    fn new<'a>(texts: impl IntoIterator<Item = &'a str>, vocab: &Vocab, device: &Device) -> Self {
        let texts: Vec<Vec<i64>> = texts.into_iter().map(|text| vocab.tokens(text)).collect();
        let lens: Vec<usize> = texts.iter().map(Vec::len).collect();
        let longest = lens.iter().copied().max().unwrap_or(0);
        let padded = texts.iter().flat_map(|text| {
            let padding = std::iter::repeat(PAD);
            text.iter().copied().chain(padding).take(longest)
        });
        let tokens = TensorData::new(padded.collect::<Vec<_>>(), [lens.len(), longest]);
        Self {
            tokens: Tensor::from_data(tokens, device),
            lens,
        }
    }
}
// ANCHOR_END: tokens

// ANCHOR: training
const BATCH: usize = 64;
const EPOCHS: usize = 4;

fn train(
    examples: &[Example],
    vocab: &Vocab,
    device: &Device,
) -> Result<Classifier, Box<dyn Error>> {
    // A device that records what gradients need; dropout is active on it.
    let training = device.clone().autodiff();
    let mut model = Classifier::new(vocab.alphabet(), vocab.classes.len(), &training);
    let mut adam = AdamConfig::new().init();
    let cross_entropy = CrossEntropyLossConfig::new().init(&training);
    for epoch in 1..=EPOCHS {
        let mut sum = 0.0;
        for batch in examples.chunks(BATCH) {
            let texts = batch.iter().map(|of| of.text.as_str());
            let texts = Texts::new(texts, vocab, &training);
            let classes: Option<Vec<i64>> = batch.iter().map(|of| vocab.class(&of.label)).collect();
            let classes = classes.ok_or("a label that the vocabulary lacks")?;
            let classes = Tensor::<1, Int>::from_data(classes.as_slice(), &training);

            let loss = cross_entropy.forward(model.forward(&texts), classes);
            sum += loss.clone().try_into_scalar::<f32>()? * batch.len() as f32;
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = adam.step(0.01, model, gradients);
        }
        println!("epoch {epoch}: loss {:.3}", sum / examples.len() as f32);
    }
    // Without gradients and dropout.
    Ok(model.valid())
}

/// The class of each text.
fn classify<'a>(
    model: &Classifier,
    texts: impl IntoIterator<Item = &'a str>,
    vocab: &Vocab,
    device: &Device,
) -> Result<Vec<String>, Box<dyn Error>> {
    let logits = model.forward(&Texts::new(texts, vocab, device));
    let classes = logits.argmax(1).into_data();
    Ok(classes
        .iter::<i64>()
        .map(|class| vocab.classes[class as usize].clone())
        .collect())
}
// ANCHOR_END: training

// ANCHOR: saved
/// The parameters go into a file, and from there into a new model.
fn save_and_load(
    model: Classifier,
    vocab: &Vocab,
    device: &Device,
) -> Result<Classifier, Box<dyn Error>> {
    let file = folder()?.join("classifier.bpk");
    model.save_file(&file)?;
    println!("saved {}", file.display());
    let new = Classifier::new(vocab.alphabet(), vocab.classes.len(), device);
    Ok(new.try_load_file(&file)?)
}
// ANCHOR_END: saved

// ANCHOR: main
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(8);
    let file = std::env::args().nth(2);
    let mut examples = match &file {
        Some(file) => read(file)?,
        None => dates(3000),
    };
    // The last sixth is held out.
    let held_out = examples.split_off(examples.len() * 5 / 6);
    let vocab = Vocab::of(&examples);
    println!(
        "{} texts to learn from, {} held out, {} classes",
        examples.len(),
        held_out.len(),
        vocab.classes.len()
    );
    let model = train(&examples, &vocab, &device)?;
    let model = save_and_load(model, &vocab, &device)?;

    let texts = held_out.iter().map(|of| of.text.as_str());
    let found = classify(&model, texts, &vocab, &device)?;
    let right = found
        .iter()
        .zip(&held_out)
        .filter(|(found, of)| **found == of.label);
    let accuracy = right.count() as f32 / held_out.len().max(1) as f32;
    println!("right on those held out: {:.1} %", 100.0 * accuracy);
    if file.is_none() {
        assert!(accuracy > 0.85, "it should have learned the months");
        show(&model, "the 5th of November 1994", &vocab, &device)?;
    }
    Ok(())
}

/// Draws what decided, and checks that padding decides nothing.
fn show(
    model: &Classifier,
    text: &str,
    vocab: &Vocab,
    device: &Device,
) -> Result<(), Box<dyn Error>> {
    let alone = Texts::new([text], vocab, device);
    let weights = model.weights(&alone).try_into_vec_as::<f32>()?;
    let class = classify(model, [text], vocab, device)?.remove(0);
    let heatmap = HeatmapGrid::single(weights.clone(), [1, weights.len()])?
        .with_axis_titles(text, "")
        .with_query_labels([format!("month {class}")])?
        .with_key_labels(text.chars().map(String::from))?;
    print!("\n{}", heatmap.to_terminal(common::terminal_color()));
    let file = folder()?.join("classifier.svg");
    std::fs::write(&file, heatmap.to_file(&file)?)?;
    println!("saved {}", file.display());

    // Beside a longer text it is padded, with the same weights, and none on the padding.
    let longer = format!("{text} and not one day later");
    let beside = model.weights(&Texts::new([text, &longer], vocab, device));
    let beside = beside.narrow(0, 0, 1).try_into_vec_as::<f32>()?;
    let (same, padding) = beside.split_at(weights.len());
    assert!(same.iter().zip(&weights).all(|(a, b)| (a - b).abs() < 1e-5));
    assert!(padding.iter().all(|weight| *weight == 0.0));
    Ok(())
}
// ANCHOR_END: main
