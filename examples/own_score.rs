//! A scoring function of your own, by tensor operations and as a term of the fused kernels: used with masks, memory
//! and heads, and trained inside a sequence-to-sequence model that learns to write words backwards.
//!
//! ```text
//! cargo run -p attention-examples --example own_score [folder for the heatmap]
//! ```

use attention_core::position::Positions;
use attention_core::score::{PairwiseFormula, PairwiseTerm, Real, ScoreKernel, Simd, check_term};
use attention_core::{Attention, AttentionOutput, Mask, ScoringFunction};
use attention_plot::HeatmapGrid;
use attention_seq2seq::data::Source;
use attention_seq2seq::{Batch, Example, Seq2Seq, Seq2SeqConfig, Seq2SeqModel, Trainee, Vocab};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::prelude::*;
use burn::tensor::Distribution;
use std::error::Error;
use std::sync::Arc;

mod common;
use common::{println, scalar, show_grid};

// ANCHOR: score
/// `a(q, k) = -|W_q q - W_k k|_1 / sqrt(num_hiddens)`: the smaller the distance, the higher the score.
#[derive(Module, Debug)]
struct DistanceScore {
    query: Linear,
    key: Linear,
}

// All that attention needs of a score.
impl ScoringFunction for DistanceScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.query.forward(queries)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.key.forward(keys)
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let num_hiddens = keys.dims()[3] as f64;
        let difference = queries.unsqueeze_dim::<5>(3) - keys.unsqueeze_dim::<5>(2);
        let distance = difference.abs().sum_dim(4).squeeze_dim::<4>(4);
        -distance / num_hiddens.sqrt()
    }
}
// ANCHOR_END: score

// ANCHOR: term
/// The term of one hidden unit, `f(q, k) = -|q - k|`, and its derivatives: `df/dq` is 1 below the key and -1 above it,
/// and `df/dk` the opposite.
#[derive(Debug)]
struct Distance;

impl PairwiseTerm for Distance {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        // -|x| = min(x, -x)
        simd.min(simd.sub(query, key), simd.sub(key, query))
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let [one, minus_one] = [simd.splat(E::ONE), simd.splat(-E::ONE)];
        let is_below = simd.less(query, key);
        let by_query = simd.select(is_below, one, minus_one);
        let by_key = simd.select(is_below, minus_one, one);
        [by_query, by_key]
    }
}

// The same of tensors, for devices and calls without a kernel.
impl PairwiseFormula for Distance {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        -(queries - keys).abs()
    }
}

/// The same score, which stores no term of a pair.
#[derive(Module, Debug)]
struct FusedDistanceScore {
    query: Linear,
    key: Linear,
}

impl ScoringFunction for FusedDistanceScore {
    fn project_queries(&self, queries: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.query.forward(queries)
    }

    fn project_keys(&self, keys: Tensor<4>, _positions: &Positions) -> Tensor<4> {
        self.key.forward(keys)
    }

    fn kernel(&self) -> ScoreKernel {
        let [_, num_hiddens] = self.key.weight.dims();
        let scale = 1.0 / (num_hiddens as f64).sqrt();
        let options = (&self.key.weight.device(), self.key.weight.dtype());
        ScoreKernel::Pairwise {
            term: Arc::new(Distance),
            weight: Some(Tensor::full([num_hiddens], scale, options)),
        }
    }
}
// ANCHOR_END: term

impl FusedDistanceScore {
    fn new(query_size: usize, key_size: usize, num_hiddens: usize, device: &Device) -> Self {
        let linear = |size| LinearConfig::new(size, num_hiddens).with_bias(false);
        Self {
            query: linear(query_size).init(device),
            key: linear(key_size).init(device),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(5);
    use_it(&device)?;
    train_it(&device)?;
    compare(&device)
}

// ANCHOR: use
/// Masks, memory and heads come with [`Attention`].
fn use_it(device: &Device) -> Result<(), Box<dyn Error>> {
    let attention = Attention::new(FusedDistanceScore::new(6, 3, 8, device), 0.0);
    let random = |len, size| Tensor::<3>::random([2, len, size], Distribution::Default, device);
    let (queries, keys, values) = (random(4, 6), random(5, 3), random(5, 2));

    // The second example has 3 keys only; the others are padding.
    let mask = Mask::valid_lens(Tensor::from_ints([5, 3], device));
    let AttentionOutput { context, weights } =
        attention.forward_with_weights(queries.clone(), keys.clone(), values.clone(), &mask);
    let padding = weights.slice([1..2, 0..4, 3..5]);
    assert_eq!(scalar(padding.abs().max())?, 0.0);

    // Keys are projected once, for queries that come one at a time.
    let memory = attention.prepare(keys.clone(), values.clone(), mask);
    for step in 0..4 {
        let one = attention.attend(queries.clone().narrow(1, step, 1), &memory, Mask::none());
        let difference = one - context.clone().narrow(1, step, 1);
        assert!(scalar(difference.abs().max())? < 1e-6);
    }

    // With a heads axis each head attends by itself; the causal mask aligns queries and keys at the end.
    let heads = |tensor: Tensor<3>| tensor.unsqueeze_dim::<4>(1).repeat_dim(1, 3);
    let context = attention.forward(heads(queries), heads(keys), heads(values), Mask::causal());
    assert_eq!(context.dims(), [2, 3, 4, 2]);
    println!("masks, memory and heads: as with any scoring function");
    Ok(())
}
// ANCHOR_END: use

/// The term is right, and the score the one of tensor operations.
fn compare(device: &Device) -> Result<(), Box<dyn Error>> {
    // ANCHOR: check
    check_term(&Distance, &Device::flex())?;
    // ANCHOR_END: check
    let fused = Attention::new(FusedDistanceScore::new(6, 3, 8, device), 0.0);
    let FusedDistanceScore { query, key } = fused.score.clone();
    let by_tensors = Attention::new(DistanceScore { query, key }, 0.0);
    let random = |len, size| Tensor::<3>::random([2, len, size], Distribution::Default, device);
    let (queries, keys, values) = (random(4, 6), random(5, 3), random(5, 2));
    let context = fused.forward(queries.clone(), keys.clone(), values.clone(), Mask::none());
    let difference = context - by_tensors.forward(queries, keys, values, Mask::none());
    assert!(scalar(difference.abs().max())? < 1e-6);
    Ok(())
}

const LETTERS: usize = 6; // a ..= f
const HIDDENS: usize = 32;
const BATCH: usize = 64;
const STEPS: usize = 100;

/// Words of 3 to 6 letters as token ids, and the same backwards.
fn words(count: usize, device: &Device) -> Result<Vec<Example>, Box<dyn Error>> {
    let uniform = |below| Distribution::Uniform(0.0, below);
    let letters = Tensor::<2>::random([count, 6], uniform(LETTERS as f64 - 0.01), device);
    let letters = letters.try_into_vec_as::<f32>()?;
    let lens = Tensor::<1>::random([count], uniform(3.99), device).try_into_vec_as::<f32>()?;
    let example = |(letters, len): (&[f32], &f32)| {
        let letters = &letters[..3 + *len as usize];
        let token = |letter: &f32| (Vocab::SPECIAL_TOKENS + *letter as usize) as u32;
        Example {
            source: letters.iter().map(token).collect(),
            target: letters.iter().rev().map(token).collect(),
        }
    };
    Ok(letters.chunks(6).zip(&lens).map(example).collect())
}

fn train_it(device: &Device) -> Result<(), Box<dyn Error>> {
    let training = device.clone().autodiff();
    let tokens = Vocab::SPECIAL_TOKENS + LETTERS;
    // ANCHOR: train
    let score = FusedDistanceScore::new(HIDDENS, HIDDENS, HIDDENS, &training);
    let model = Seq2SeqConfig::new(tokens, tokens)
        .with_embedding_size(16)
        .with_hidden_size(HIDDENS)
        .init(Attention::new(score, 0.0), &training);

    let mut trainee = Trainee::new(model);
    let mut adam = AdamConfig::new().init();
    for step in 1..=STEPS {
        let batch = Batch::new(&words(BATCH, device)?, &training);
        let output = trainee.train_step(batch);
        let rate = 0.01 * (1.0 - (step - 1) as f64 / STEPS as f64);
        trainee = adam.step(rate, trainee, output.gradients);
        if step % 25 == 0 {
            let right = accuracy(&trainee.model.valid(), device)?;
            println!("step {step}: {:.0} % of new words are right", 100.0 * right);
        }
    }
    // ANCHOR_END: train
    let model = trainee.model.valid();
    assert!(accuracy(&model, device)? > 0.8);
    show_one_word(&model, device)
}

/// The share of 100 new words that the model writes backwards without an error.
fn accuracy(
    model: &Seq2Seq<Attention<FusedDistanceScore>>,
    device: &Device,
) -> Result<f32, Box<dyn Error>> {
    let words = words(100, device)?;
    let source = Source::new(words.iter().map(|word| word.source.as_slice()), device);
    let written = model.greedy(&source, 8, false).tokens;
    let right = words.iter().zip(&written);
    let right = right.filter(|(word, written)| word.target == **written);
    Ok(right.count() as f32 / words.len() as f32)
}

fn show_one_word(
    model: &Seq2Seq<Attention<FusedDistanceScore>>,
    device: &Device,
) -> Result<(), Box<dyn Error>> {
    let letter = |token: &u32| match token.checked_sub(Vocab::SPECIAL_TOKENS as u32) {
        Some(letter) => char::from(b'a' + letter as u8).to_string(),
        None => "<end>".to_string(),
    };
    let word: Vec<u32> = [5, 0, 2, 4, 3, 1].map(|letter| letter + 4).to_vec();
    let written = model.greedy(&Source::new([word.as_slice()], device), 8, true);
    let mut weights = Vec::new();
    for row in written.weights {
        weights.extend(row.try_into_vec_as::<f32>()?);
    }
    let rows = weights.len() / word.len();
    let labels = written.tokens[0].iter().chain([&Vocab::EOS]).take(rows);
    let heatmap = HeatmapGrid::new(weights, [1, 1, rows, word.len()])?
        .with_axis_titles("source", "output")
        .with_key_labels(word.iter().map(letter))?
        .with_query_labels(labels.map(letter))?;
    show_grid("own_score", &heatmap)
}
