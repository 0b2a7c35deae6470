//! What a training step of the sequence-to-sequence model costs, beside the same model in PyTorch, and where its time
//! goes.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench seq2seq`; see benches/README.md.

use std::io;

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Local, Measured, compare, timed};
use attention_benches::machine::limit_threads;
use attention_benches::options::Options;
use attention_benches::report::{Report, mebibytes, milliseconds};
use attention_benches::tensors::{finish, finish_backward, random};
use attention_core::{AdditiveAttention, AdditiveAttentionConfig, Mask, linear};
use attention_seq2seq::{Batch, Example, Seq2SeqConfig, Trainee, Vocab};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use serde_json::json;

const BATCH: usize = 128;
const EMBEDDING: usize = 128;
const HIDDEN: usize = 256;
const SOURCE_VOCAB: usize = 50;
const TARGET_VOCAB: usize = 75;
const SOURCE_LEN: usize = 32;
/// The end included.
const TARGET_LEN: usize = 32;
const LEARNING_RATE: f64 = 1e-3;
/// The norm to which gradients are clipped.
const CLIP: f32 = 1.0;

fn main() -> io::Result<()> {
    let threads = limit_threads();
    let options = Options::from_command_line();
    let mut baselines = Baselines::start("seq2seq.py", threads);
    let mut report = Report::start(threads);
    report.add_baselines(&baselines);
    let title = format!(
        "training step b{BATCH} source {SOURCE_LEN} target {TARGET_LEN} embedding {EMBEDDING} hidden {HIDDEN}"
    );

    println!("{title}");
    let mut candidates: Vec<Box<dyn Candidate>> = Vec::new();
    for (backend, device) in options.devices() {
        candidates.push(Box::new(whole_step(backend, &device.autodiff())));
    }
    if let Ok(baselines) = &mut baselines {
        for name in ["PyTorch eager", "torch.compile"] {
            match baselines.set_up(name, setup(name)) {
                Ok(baseline) => candidates.push(Box::new(baseline)),
                Err(reason) => println!("  skipped: {name}: {reason}"),
            }
        }
    }
    let steps = compare(&mut candidates, options.rounds);
    drop(candidates);
    print_steps(&steps);
    for step in &steps {
        report.add(&title, "step", step);
    }

    for (backend, device) in options.devices() {
        println!("\nwhere the time of ours, {backend} goes, in milliseconds");
        let mut parts: Vec<Box<dyn Candidate>> = Vec::new();
        let train = device.clone().autodiff();
        parts.extend(model_parts(&train).map(boxed));
        parts.extend(attention_parts(&train).map(boxed));
        parts.extend(product_parts("matrix products", products(), &train).map(boxed));
        parts.extend(product_parts("projections", projections(), &train).map(boxed));
        let parts = compare(&mut parts, options.rounds);
        print_profile(&parts);
        for part in &parts {
            report.add(&title, &format!("part, {backend}"), part);
        }
    }
    report.write(options.json.as_deref())
}

fn boxed<'a>(local: Local<'a>) -> Box<dyn Candidate + 'a> {
    Box::new(local)
}

fn setup(candidate: &str) -> serde_json::Value {
    json!({
        "candidate": candidate,
        "sizes": {
            "batch": BATCH,
            "embedding": EMBEDDING,
            "hidden": HIDDEN,
            "source_vocab": SOURCE_VOCAB,
            "target_vocab": TARGET_VOCAB,
            "source_len": SOURCE_LEN,
            "target_len": TARGET_LEN,
        },
    })
}

/// A model, its optimizer as `seq2seq train` sets it, and what it learns from.
struct Training {
    trainee: Trainee<AdditiveAttention>,
    optimizer: ModuleOptimizer,
    batch: Batch,
}

impl Training {
    fn new(device: &Device) -> Self {
        let attention = AdditiveAttentionConfig::new(HIDDEN, HIDDEN, HIDDEN).init(device);
        let model = Seq2SeqConfig::new(SOURCE_VOCAB, TARGET_VOCAB)
            .with_embedding_size(EMBEDDING)
            .with_hidden_size(HIDDEN)
            .init(attention, device);
        let first = Vocab::SPECIAL_TOKENS as u32;
        // Every token of a vocabulary has its turn.
        let tokens = |seed: usize, len: usize, vocab: usize| -> Vec<u32> {
            let ordinary = (vocab - Vocab::SPECIAL_TOKENS) as u32;
            (0..len)
                .map(|at| first + (31 * seed + 7 * at) as u32 % ordinary)
                .collect()
        };
        let examples = (0..BATCH).map(|seed| Example {
            source: tokens(seed, SOURCE_LEN, SOURCE_VOCAB),
            target: tokens(seed, TARGET_LEN - 1, TARGET_VOCAB),
        });
        let examples: Vec<Example> = examples.collect();
        Self {
            trainee: Trainee::new(model).with_clip(CLIP),
            optimizer: AdamConfig::new().with_epsilon(1e-8).init(),
            batch: Batch::new(&examples, device),
        }
    }

    /// As the trainee computes it.
    fn loss(&self) -> Tensor<1> {
        let logits = self.trainee.model.forward(&self.batch);
        let [examples, steps, tokens] = logits.dims();
        CrossEntropyLossConfig::new()
            .with_pad_tokens(Some(vec![Vocab::PAD as usize]))
            .init(&logits.device())
            .forward(
                logits.reshape([examples * steps, tokens]),
                self.batch.target.clone().reshape([examples * steps]),
            )
    }

    fn gradients(&self, loss: Tensor<1>) -> GradientsParams {
        GradientsParams::from_grads(loss.backward(), &self.trainee)
    }

    fn update(&mut self, gradients: GradientsParams) {
        let trainee = self.trainee.clone();
        self.trainee = self.optimizer.step(LEARNING_RATE, trainee, gradients);
        finish(self.trainee.model.decoder.output.weight.val());
    }
}

fn whole_step(backend: &str, device: &Device) -> Local<'static> {
    let mut training = Training::new(device);
    let step = move || {
        let output = TrainStep::step(&training.trainee, training.batch.clone());
        training.update(output.grads);
    };
    Local::new(format!("ours, {backend}"), step).on(device)
}

/// Forward, backward and optimiser: each runs what it needs before, and counts only itself.
///
/// Each part finishes its step: a graph that no backward pass goes through is freed by the next one that comes.
fn model_parts(device: &Device) -> [Local<'static>; 3] {
    let [forward, backward, mut optimiser] = [(); 3].map(|()| Training::new(device));
    [
        Local::part("whole, forward", move || {
            let (time, loss) = timed(|| forward.loss());
            forward.gradients(loss);
            time
        }),
        Local::part("whole, backward", move || {
            let loss = backward.loss();
            timed(|| backward.gradients(loss)).0
        }),
        Local::part("whole, optimiser", move || {
            let gradients = optimiser.gradients(optimiser.loss());
            timed(|| optimiser.update(gradients)).0
        }),
    ]
}

/// The attention of a step alone: keys projected once, then one query after the other.
fn attention_parts(device: &Device) -> [Local<'static>; 2] {
    let attention = AdditiveAttentionConfig::new(HIDDEN, HIDDEN, HIDDEN).init(device);
    let score = &attention.score;
    let parameters = [&score.query, &score.key, &score.value].map(|linear| linear.weight.val());
    // Keys and values are the same states, and so one leaf.
    let states: Tensor<3> = random([BATCH, SOURCE_LEN, HIDDEN], device);
    let queries: Vec<Tensor<3>> = (0..TARGET_LEN)
        .map(|_| random([BATCH, 1, HIDDEN], device))
        .collect();
    let lens = Tensor::full([BATCH], SOURCE_LEN as i64, device);
    let gradient = random([BATCH, TARGET_LEN, HIDDEN], device).detach();
    let mut leaves = queries.clone();
    leaves.push(states.clone());
    let forward = move || {
        let mask = Mask::valid_lens(lens.clone());
        let memory = attention.prepare(states.clone(), states.clone(), mask);
        let contexts = queries.iter().cloned();
        Tensor::cat(
            contexts
                .map(|query| attention.attend(query, &memory))
                .collect(),
            1,
        )
    };
    let backward =
        move |contexts| finish_backward(contexts, gradient.clone(), &leaves, &parameters);
    let (again, again_backward) = (forward.clone(), backward.clone());
    [
        Local::part("attention, forward", move || {
            let (time, contexts) = timed(&forward);
            backward(contexts);
            time
        }),
        Local::part("attention, backward", move || {
            let contexts = again();
            timed(|| again_backward(contexts)).0
        }),
    ]
}

/// A product of `[rows, inner]` and `[inner, columns]`, and how often a step has it.
struct Product {
    count: usize,
    rows: usize,
    inner: usize,
    columns: usize,
}

/// The products with `W_q`, in every step, and `W_k`.
fn projections() -> Vec<Product> {
    let product = |count, rows| Product {
        count,
        rows,
        inner: HIDDEN,
        columns: HIDDEN,
    };
    vec![product(TARGET_LEN, BATCH), product(1, BATCH * SOURCE_LEN)]
}

/// The matrix products of the model, all gates at once, but for the [`projections`] of attention.
fn products() -> Vec<Product> {
    let product = |count, rows, inner, columns| Product {
        count,
        rows,
        inner,
        columns,
    };
    let half = HIDDEN / 2;
    vec![
        // Encoder, both directions: the table of embedded tokens, and a step.
        product(2, SOURCE_VOCAB, EMBEDDING, 3 * half),
        product(2 * SOURCE_LEN, BATCH, half, 3 * half),
        // Decoder: the first state, the table, a step's context and state.
        product(1, BATCH, HIDDEN, HIDDEN),
        product(1, TARGET_VOCAB, EMBEDDING, 3 * HIDDEN),
        product(2 * TARGET_LEN, BATCH, HIDDEN, 3 * HIDDEN),
        // The logits of all steps.
        product(1, BATCH * TARGET_LEN, 2 * HIDDEN, TARGET_VOCAB),
    ]
}

/// The matrix products of a step alone, each by itself: one for each forward, two for its gradients.
fn product_parts(name: &str, products: Vec<Product>, device: &Device) -> [Local<'static>; 2] {
    let operands: Vec<_> = products
        .into_iter()
        .map(|product| {
            let Product {
                count,
                rows,
                inner,
                columns,
            } = product;
            let input: Tensor<2> = random([rows, inner], device);
            let weight: Tensor<2> = random([inner, columns], device);
            let gradient = random([rows, columns], device).detach();
            (count, input, weight, gradient)
        })
        .collect();
    let forward = move || -> Vec<_> {
        let products = operands
            .iter()
            .flat_map(|(count, input, weight, gradient)| {
                (0..*count).map(move |_| {
                    let output = linear(input.clone(), weight.clone(), None);
                    (output, input.clone(), weight.clone(), gradient.clone())
                })
            });
        products.collect()
    };
    let backward = |products: Vec<(Tensor<2>, _, _, _)>| {
        for (output, input, weight, gradient) in products {
            finish_backward(output, gradient, &[input], &[weight]);
        }
    };
    let again = forward.clone();
    [
        Local::part(format!("{name}, forward"), move || {
            let (time, products) = timed(&forward);
            backward(products);
            time
        }),
        Local::part(format!("{name}, backward"), move || {
            let products = again();
            timed(|| backward(products)).0
        }),
    ]
}

fn print_steps(steps: &[Measured]) {
    println!(
        "  {:<20}{:>10}{:>24}{:>16}{:>16}",
        "candidate", "ms", "target tokens a second", "ratio to ours", "peak extra MiB"
    );
    let ours = steps[0].median();
    for step in steps {
        let time = step.median();
        println!(
            "  {:<20}{:>10.1}{:>24.0}{:>16.2}{:>16}",
            step.name,
            milliseconds(time),
            (BATCH * TARGET_LEN) as f64 / time.as_secs_f64(),
            time.as_secs_f64() / ours.as_secs_f64(),
            mebibytes(step.memory),
        );
    }
}

/// The parts in the order of [`model_parts`], [`attention_parts`], [`product_parts`].
fn print_profile(parts: &[Measured]) {
    let time = |at: usize| milliseconds(parts[at].median());
    let whole = [time(0), time(1), time(2)];
    let pair = |at| [time(at), time(at + 1), 0.0];
    let (with_projections, others, projections) = (pair(3), pair(5), pair(7));
    let sum = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|at| a[at] + b[at]);
    let less = |a: [f64; 3], b: [f64; 3]| [0, 1, 2].map(|at| a[at] - b[at]);
    // Element by element, and the bookkeeping of tensors and graph.
    let rest = less(less(whole, with_projections), others);
    println!(
        "  {:<20}{:>10}{:>10}{:>11}{:>10}{:>9}",
        "part", "forward", "backward", "optimiser", "total", "share"
    );
    for (name, [forward, backward, optimiser]) in [
        ("whole", whole),
        ("matrix products", sum(others, projections)),
        ("attention", less(with_projections, projections)),
        ("  and projections", with_projections),
        ("rest", rest),
    ] {
        let total = forward + backward + optimiser;
        let share = 1e2 * total / whole.iter().sum::<f64>();
        println!(
            "  {name:<20}{forward:>10.1}{backward:>10.1}{optimiser:>11.1}{total:>10.1}{share:>7.0} %"
        );
    }
}
