//! An encoder-decoder of your own, from the embedding to a text that it generates: numbers to Roman numerals.
//!
//! A recurrent encoder reads the digits in both directions. The decoder writes a letter in each step: its state asks
//! the digits by additive attention, the context and the letter before go into its recurrent cell, and state and
//! context predict the next letter (Bahdanau et al. 2015; *Dive into Deep Learning* (D2L), "The Bahdanau Attention
//! Mechanism"). Training forces the teacher's letters on it. Generation gives it its own, chosen greedily or at random,
//! until it writes the end.
//!
//! ```text
//! cargo run -p attention-examples --example decoder [folder for the heatmap]
//! ```

// ANCHOR: imports
use std::error::Error;

use attention_core::{AdditiveAttention, AdditiveAttentionConfig, Mask, Memory, NewRows};
use attention_plot::HeatmapGrid;
use attention_transformers::generate::{CausalModel, Generated, RandomSamplingConfig};
use attention_transformers::{GenerateConfig, Sampling};
use burn::grad_clipping::GradientClippingConfig;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn_fused_layers::recurrent::{
    CellKind, Recurrent, RecurrentCell, RecurrentConfig, RecurrentState, Steps,
};

mod common;
use common::{println, show_grid};
// ANCHOR_END: imports

// ANCHOR: data
/// Padding, of digits and of letters.
const PAD: u32 = 0;
/// The token before the first letter, and the one after the last.
const BEGIN: u32 = 1;
const END: u32 = 2;
const LETTERS: [char; 7] = ['I', 'V', 'X', 'L', 'C', 'D', 'M'];
const FIRST_LETTER: u32 = 3;
const FIRST_DIGIT: u32 = 1;

/// The tokens of a number's digits.
fn digits(number: u32) -> Vec<u32> {
    let digits = number.to_string().into_bytes();
    digits
        .iter()
        .map(|digit| u32::from(digit - b'0') + FIRST_DIGIT)
        .collect()
}

/// The Roman numeral of a number from 1 to 3999.
fn roman(mut number: u32) -> String {
    let values = [1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1];
    let signs = [
        "M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I",
    ];
    let mut numeral = String::new();
    for (value, sign) in values.into_iter().zip(signs) {
        while number >= value {
            numeral += sign;
            number -= value;
        }
    }
    numeral
}

/// The tokens of a numeral.
fn letters(numeral: &str) -> Vec<u32> {
    let token = |letter| LETTERS.iter().position(|other| *other == letter);
    let tokens = numeral.chars().filter_map(token);
    tokens.map(|token| token as u32 + FIRST_LETTER).collect()
}

/// The letters of tokens, without the end.
fn text(tokens: &[u32]) -> String {
    let letter = |token: &u32| LETTERS.get(token.checked_sub(FIRST_LETTER)? as usize);
    tokens.iter().filter_map(letter).collect()
}

/// Rows of tokens, padded to the longest.
fn padded(rows: &[Vec<u32>], device: &Device) -> Tensor<2, Int> {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let tokens = rows.iter().flat_map(|row| {
        let padding = std::iter::repeat(PAD);
        row.iter()
            .copied()
            .chain(padding)
            .take(longest)
            .map(i64::from)
    });
    let tokens = TensorData::new(tokens.collect::<Vec<_>>(), [rows.len(), longest]);
    Tensor::from_data(tokens, device)
}

/// The digits of a batch of numbers.
struct Source {
    /// `[batch, digits]`
    tokens: Tensor<2, Int>,
    lens: Vec<usize>,
}

impl Source {
    fn new(numbers: &[u32], device: &Device) -> Self {
        let rows: Vec<Vec<u32>> = numbers.iter().map(|number| digits(*number)).collect();
        Self {
            tokens: padded(&rows, device),
            lens: rows.iter().map(Vec::len).collect(),
        }
    }

    fn mask(&self) -> Mask {
        let lens: Vec<i64> = self.lens.iter().map(|len| *len as i64).collect();
        Mask::valid_lens(Tensor::from_data(lens.as_slice(), &self.tokens.device()))
    }
}

/// A numeral for teacher forcing: its letters after the begin, and before the end.
struct Target {
    /// The inputs of the steps, `[batch, letters + 1]`.
    previous: Tensor<2, Int>,
    /// The outputs that are expected of them, `[batch, letters + 1]`.
    next: Tensor<2, Int>,
}

impl Target {
    fn new(numbers: &[u32], device: &Device) -> Self {
        let rows: Vec<Vec<u32>> = numbers
            .iter()
            .map(|number| letters(&roman(*number)))
            .collect();
        let previous: Vec<_> = rows
            .iter()
            .map(|row| [&[BEGIN], &row[..]].concat())
            .collect();
        let next: Vec<_> = rows.iter().map(|row| [&row[..], &[END]].concat()).collect();
        Self {
            previous: padded(&previous, device),
            next: padded(&next, device),
        }
    }
}
// ANCHOR_END: data

// ANCHOR: model
const EMBEDDING: usize = 16;
const HIDDENS: usize = 48;
const LETTER_TOKENS: usize = FIRST_LETTER as usize + LETTERS.len();
const DIGIT_TOKENS: usize = FIRST_DIGIT as usize + 10;

#[derive(Module, Debug)]
struct Numerals {
    digits: Embedding,
    /// `[batch, digits, EMBEDDING]` to `[batch, digits, 2 * HIDDENS]`.
    encoder: Recurrent,
    letters: Embedding,
    attention: AdditiveAttention,
    /// One layer, whose input is the letter before and the context.
    decoder: Recurrent,
    output: Linear,
}

impl Numerals {
    fn new(device: &Device) -> Self {
        let gru = |input_size| RecurrentConfig::new(CellKind::Gru, input_size, HIDDENS);
        Self {
            digits: EmbeddingConfig::new(DIGIT_TOKENS, EMBEDDING).init(device),
            encoder: gru(EMBEDDING).with_bidirectional(true).init(device),
            letters: EmbeddingConfig::new(LETTER_TOKENS, EMBEDDING).init(device),
            attention: AdditiveAttentionConfig::new(HIDDENS, 2 * HIDDENS, HIDDENS).init(device),
            decoder: gru(EMBEDDING + 2 * HIDDENS).init(device),
            output: LinearConfig::new(3 * HIDDENS, LETTER_TOKENS).init(device),
        }
    }

    /// Reads the digits: the state before the first letter.
    fn encode(&self, source: &Source) -> State {
        let digits = self.digits.forward(source.tokens.clone());
        let steps = Steps::of_lens(source.lens.clone());
        let (states, last) = self.encoder.forward(digits, None, &steps);
        State {
            // The keys are projected once, for all letters.
            memory: self
                .attention
                .prepare(states.clone(), states, source.mask()),
            cell: self.decoder.layers[0].cell(),
            // The backward direction ends at the first digit.
            hidden: RecurrentState::of_hidden(last[1].hidden.clone()),
        }
    }

    /// The logits of the next letter, `[batch, LETTER_TOKENS]`, after the letters `[batch, 1]`.
    fn step(&self, letters: Tensor<2, Int>, state: &mut State) -> Tensor<2> {
        let context = self
            .attention
            .attend(state.query(), &state.memory, Mask::none());
        let letters = self.letters.forward(letters);
        let input = Tensor::cat(vec![letters, context.clone()], 2);
        let gates = self.decoder.layers[0].gates(input).squeeze_dim(1);
        state.hidden = state.cell.forward(gates, state.hidden.clone());
        let features = vec![state.query(), context];
        self.output.forward(Tensor::cat(features, 2).squeeze_dim(1))
    }

    /// The logits of all steps, `[batch, letters + 1, LETTER_TOKENS]`, with the teacher's letters as inputs.
    fn forward(&self, source: &Source, target: &Target) -> Tensor<3> {
        let mut state = self.encode(source);
        let [_, steps] = target.previous.dims();
        let logits = (0..steps).map(|step| {
            let letters = target.previous.clone().narrow(1, step, 1);
            self.step(letters, &mut state).unsqueeze_dim::<3>(1)
        });
        Tensor::cat(logits.collect(), 1)
    }
}

/// The state that a step hands to the next.
struct State {
    /// The encoder's states as keys and values, with their mask.
    memory: Memory,
    /// The decoder's cell: its weight is packed once, for all letters.
    cell: RecurrentCell,
    hidden: RecurrentState,
}

impl State {
    /// The query, `[batch, 1, HIDDENS]`.
    fn query(&self) -> Tensor<3> {
        self.hidden.hidden.clone().unsqueeze_dim(1)
    }
}
// ANCHOR_END: model

// ANCHOR: training
const BATCH: usize = 64;
const STEPS: usize = 160;
const LAST: u32 = 3999;

/// Numbers that training never sees.
fn is_held_out(number: u32) -> bool {
    number.is_multiple_of(11)
}

fn train(device: &Device) -> Result<Numerals, Box<dyn Error>> {
    let training = device.clone().autodiff();
    let mut model = Numerals::new(&training);
    let clipping = GradientClippingConfig::Norm(1.0);
    let mut adam = AdamConfig::new().with_grad_clipping(Some(clipping)).init();
    // Steps after the end of a numeral are no part of the loss.
    let cross_entropy = CrossEntropyLossConfig::new()
        .with_pad_tokens(Some(vec![PAD as usize]))
        .init(&training);
    // 1237 and 3999 have no factor in common: in 3999 steps of 1237 every number comes once.
    let numbers = (0..).map(|at: u64| (at * 1237 % u64::from(LAST)) as u32 + 1);
    let mut numbers = numbers.filter(|number| !is_held_out(*number));
    for step in 1..=STEPS {
        let batch: Vec<u32> = numbers.by_ref().take(BATCH).collect();
        let target = Target::new(&batch, &training);
        let logits = model.forward(&Source::new(&batch, &training), &target);
        let [_, letters, tokens] = logits.dims();
        let logits = logits.reshape([BATCH * letters, tokens]);
        let loss = cross_entropy.forward(logits, target.next.reshape([BATCH * letters]));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        let rate = 0.01 * (1.0 - (step - 1) as f64 / STEPS as f64);
        model = adam.step(rate, model, gradients);
        if step % 20 == 0 {
            println!("step {step}: loss {:.3}", loss.try_into_scalar::<f32>()?);
        }
    }
    Ok(model.valid())
}
// ANCHOR_END: training

// ANCHOR: generation
/// All that generation asks of a model.
impl CausalModel for Numerals {
    type State = State;

    fn device(&self) -> Device {
        self.output.weight.device()
    }

    /// A prompt is the begin alone, so that every call has one token of each text.
    fn next_logits(&self, tokens: Tensor<2, Int>, _rows: NewRows, state: &mut State) -> Tensor<2> {
        self.step(tokens, state)
    }
}

/// The numerals of numbers, all of them letter by letter in one batch.
fn write(model: &Numerals, numbers: &[u32], sampling: Sampling) -> Vec<String> {
    let state = model.encode(&Source::new(numbers, &model.device()));
    let begin = vec![[BEGIN]; numbers.len()];
    let generated = GenerateConfig::new(20)
        .with_stop_tokens(vec![END])
        .with_sampling(sampling)
        .generate(model, state, &begin)
        .run();
    let numeral = |generated: Generated| text(&generated.tokens);
    generated.into_iter().map(numeral).collect()
}
// ANCHOR_END: generation

// ANCHOR: main
fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(10);
    let model = train(&device)?;

    let held_out: Vec<u32> = (1..=LAST).filter(|number| is_held_out(*number)).collect();
    let written = write(&model, &held_out, Sampling::Greedy);
    let right = written
        .iter()
        .zip(&held_out)
        .filter(|(numeral, number)| **numeral == roman(**number));
    let accuracy = right.count() as f32 / held_out.len() as f32;
    println!(
        "numerals of {} other numbers: {:.1} % right",
        held_out.len(),
        100.0 * accuracy
    );
    assert!(accuracy > 0.9);

    let random = RandomSamplingConfig::new().with_temperature(1.0);
    for (how, sampling) in [
        ("greedily", Sampling::Greedy),
        ("at random", Sampling::Random(random)),
    ] {
        let written = write(&model, &[1066, 1994, 2024], sampling);
        println!("1066, 1994 and 2024 {how}: {}", written.join(", "));
    }
    show(&model, 1994, &device)
}

/// Draws which digits each letter of a numeral attended to.
fn show(model: &Numerals, number: u32, device: &Device) -> Result<(), Box<dyn Error>> {
    let numeral = write(model, &[number], Sampling::Greedy).remove(0);
    let mut state = model.encode(&Source::new(&[number], device));
    let mut weights = Vec::new();
    let written = letters(&numeral);
    for letter in [BEGIN].iter().chain(&written) {
        let output =
            (model.attention).attend_with_weights(state.query(), &state.memory, Mask::none());
        weights.extend(output.weights.try_into_vec_as::<f32>()?);
        model.step(padded(&[vec![*letter]], device), &mut state);
    }
    let digits = number.to_string();
    let rows = written.len() + 1;
    let heatmap = HeatmapGrid::new(weights, [1, 1, rows, digits.len()])?
        .with_axis_titles("digits", "letters")
        .with_key_labels(digits.chars().map(String::from))?
        .with_query_labels(numeral.chars().map(String::from).chain(["end".to_string()]))?;
    show_grid("decoder", &heatmap)
}
// ANCHOR_END: main
