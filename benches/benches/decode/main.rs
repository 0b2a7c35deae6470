//! Beam search over 10,000 words with LSTMs, beside PyTorch with the same weights and outputs: the plain search, and
//! the search with the same bound. Then with a Transformer, beside CTranslate2.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench decode`; see benches/README.md.

mod lexicon;
mod model;
mod rows;

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Local};
use attention_benches::machine::{among_threads, limit_threads};
use attention_benches::options::Options;
use attention_benches::report::Report;
use attention_seq2seq::model::{BeamSearchConfig, ModelKind};
use attention_seq2seq::translate::ScoredHypothesis;
use attention_seq2seq::{RunDir, SearchConfig, Translator};
use burn::tensor::Device;
use clap::Parser;
use serde_json::{Value, json};

use model::Trained;
use rows::rows_of_source;

/// The words to decode.
const WORDS: usize = 10_000;
const BEAM: usize = 5;
/// The outputs that a baseline has to find, too.
const CHECKED: usize = 500;
/// The words whose rows are counted.
const COUNTED: usize = 2_000;
/// The searches whose rows are counted: beams and numbers of best outputs. A beam of one is greedy search.
const SEARCHES: [[usize; 2]; 5] = [[1, 1], [5, 1], [5, 5], [10, 1], [10, 5]];

/// The words that are searched one by one.
const ALONE: usize = 500;

/// The command line of this bench.
#[derive(Parser)]
struct DecodeOptions {
    #[command(flatten)]
    options: Options,
    /// Only count rows, with the model in this run folder.
    #[arg(long, value_name = "RUN", requires = "words")]
    model: Option<PathBuf>,
    /// The words to count rows of, in the first column of a file of pairs.
    #[arg(long, value_name = "FILE", requires = "model")]
    words: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    let threads = limit_threads();
    among_threads(threads, || run(threads))
}

fn run(threads: usize) -> io::Result<()> {
    let arguments = DecodeOptions::parse();
    let options = arguments.options;
    if let (Some(model), Some(words)) = (arguments.model, arguments.words) {
        let mut devices = options.devices().into_iter();
        return devices.try_for_each(|(_, device)| count_rows(&model, &words, &device));
    }
    let mut report = Report::start(threads);
    for kind in [ModelKind::Rnn, ModelKind::Transformer] {
        let title = format!("beam {BEAM} over {WORDS} words, {}", model::title(kind));
        if options.wants(&title) {
            println!("{title}");
            compare(kind, &title, threads, &options, &mut report)?;
        }
    }
    report.write(options.json.as_deref())
}

/// Compares the search by a model of this kind with its baselines.
fn compare(
    kind: ModelKind,
    title: &str,
    threads: usize,
    options: &Options,
    report: &mut Report,
) -> io::Result<()> {
    let script = match kind {
        ModelKind::Rnn => "decode.py",
        ModelKind::Transformer => "ctranslate.py",
    };
    let mut baselines = Baselines::start(script, threads);
    report.add_baselines(&baselines);
    let words = lexicon::words(WORDS, 2);
    let sources: Vec<Vec<String>> = words.iter().map(|pair| pair.source.clone()).collect();
    for (backend, device) in options.devices() {
        let trained = Trained::new(kind, &device).map_err(io::Error::other)?;
        let translator = trained.translator().map_err(io::Error::other)?;
        let max_len = translator.max_len();
        let outputs = search(&translator, &sources);
        print_outputs(&outputs);
        print_rows(&translator, &trained.encoded(&words[..COUNTED]), &device);
        print_latency(&translator, &sources[..ALONE]);
        let sources = sources.clone();
        let ours = move || drop(search(&translator, &sources));
        let ours = Local::new(format!("ours, {backend}"), ours);
        let mut candidates: Vec<Box<dyn Candidate>> = vec![Box::new(ours.on(&device))];
        if let Ok(baselines) = &mut baselines {
            let checked = outputs.iter().take(CHECKED);
            let checked = checked.map(|best| best[0].tokens.join(" "));
            let setup = json!({
                "beam": BEAM,
                "max_len": max_len,
                "sources": trained.encoded(&words),
                "expected": checked.collect::<Vec<_>>(),
                "weights": trained.weights().map_err(io::Error::other)?,
            });
            for (name, own) in searches(kind) {
                let mut setup = setup.clone();
                for (key, value) in own.as_object().into_iter().flatten() {
                    setup[key] = value.clone();
                }
                baselines.add_to(&mut candidates, &name, setup);
            }
        }
        report.measure([title, backend], candidates, &mut baselines, options.rounds)?;
    }
    Ok(())
}

/// The baselines of a model: names, and settings of their own.
fn searches(kind: ModelKind) -> Vec<(String, Value)> {
    match kind {
        ModelKind::Rnn => [(64, false), (256, false), (64, true), (256, true)]
            .map(|(batch, is_bounded)| {
                let bound = if is_bounded { ", bounded" } else { "" };
                let name = format!("PyTorch, {batch} words{bound}");
                (name, json!({ "batch": batch, "is_bounded": is_bounded }))
            })
            .to_vec(),
        ModelKind::Transformer => ["float32", "int8"]
            .map(|compute_type| {
                let setup =
                    json!({ "batch": 256, "heads": model::HEADS, "compute_type": compute_type });
                (format!("CTranslate2, {compute_type}"), setup)
            })
            .to_vec(),
    }
}

/// Prints the rows that a trained model takes for the words of a file, and how long a word alone takes.
fn count_rows(model: &Path, words: &Path, device: &Device) -> io::Result<()> {
    let translator = Translator::load(&RunDir::new(model), device).map_err(io::Error::other)?;
    let file = fs::read_to_string(words)?;
    let columns = file.lines().filter_map(|line| line.split('\t').next());
    let mut sources: Vec<Vec<String>> = columns.map(|text| translator.split_source(text)).collect();
    sources.sort();
    sources.dedup();
    println!("{} words of {}", sources.len(), words.display());
    let vocab = &translator.vocabs().source;
    let encoded: Vec<Vec<u32>> = sources.iter().map(|source| vocab.encode(source)).collect();
    print_rows(&translator, &encoded, device);
    print_latency(&translator, &sources);
    Ok(())
}

/// The best output of each source.
fn search(translator: &Translator, sources: &[Vec<String>]) -> Vec<Vec<ScoredHypothesis>> {
    let sources: Vec<&[String]> = sources.iter().map(Vec::as_slice).collect();
    let search = SearchConfig::new().with_beam(Some(BEAM));
    let outputs = translator.n_best_tokens(&sources, &search);
    outputs.expect("the model has probabilities")
}

/// Prints the lengths of outputs, to judge whether they are those of pronunciations.
fn print_outputs(outputs: &[Vec<ScoredHypothesis>]) {
    let best = || outputs.iter().map(|best| &best[0]);
    let tokens: usize = best().map(|output| output.tokens.len()).sum();
    let cut_off = best().filter(|output| !output.ended).count();
    println!(
        "  outputs of {:.1} tokens in the mean, {cut_off} cut off; the first: {}",
        tokens as f64 / outputs.len() as f64,
        outputs[0][0].text,
    );
}

/// Prints how long a search takes for a source alone.
fn print_latency(translator: &Translator, sources: &[Vec<String>]) {
    let mut milliseconds: Vec<f64> = sources
        .chunks(1)
        .map(|source| {
            let start = Instant::now();
            search(translator, source);
            1e3 * start.elapsed().as_secs_f64()
        })
        .collect();
    if milliseconds.is_empty() {
        return;
    }
    milliseconds.sort_by(f64::total_cmp);
    let at = |share: f64| milliseconds[((milliseconds.len() - 1) as f64 * share) as usize];
    let [half, slowest] = [0.5, 0.99].map(at);
    println!("  a word alone: {half:.2} ms, of 100 words the slowest {slowest:.2} ms");
}

/// Prints the rows of the decoder that each search takes.
fn print_rows(translator: &Translator, sources: &[Vec<u32>], device: &Device) {
    let model = translator.model().expect("one model was trained");
    for [beam, n_best] in SEARCHES {
        let search = BeamSearchConfig::new(translator.max_len())
            .with_beam(beam)
            .with_n_best(n_best);
        let rows = rows_of_source(&search, model, sources, device);
        println!("  beam {beam}, {n_best} best: {rows:.1} rows of the decoder a word");
    }
}
