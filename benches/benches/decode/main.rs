//! Beam search over 10,000 words, beside the same search in PyTorch with the same weights and outputs.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench decode`; see benches/README.md.

mod lexicon;
mod model;
mod rows;

use std::io;

use attention_benches::baselines::Baselines;
use attention_benches::compare::{Candidate, Local};
use attention_benches::machine::{among_threads, limit_threads};
use attention_benches::options::Options;
use attention_benches::report::Report;
use attention_seq2seq::model::BeamSearchConfig;
use attention_seq2seq::translate::ScoredHypothesis;
use attention_seq2seq::{SearchConfig, Translator};
use burn::tensor::Device;
use serde_json::json;

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

fn main() -> io::Result<()> {
    let threads = limit_threads();
    among_threads(threads, || run(threads))
}

fn run(threads: usize) -> io::Result<()> {
    let options = Options::from_command_line();
    let mut baselines = Baselines::start("decode.py", threads);
    let mut report = Report::start(threads);
    report.add_baselines(&baselines);
    let title = format!("beam {BEAM} over {WORDS} words, {}", model::TITLE);
    if !options.wants(&title) {
        return report.write(options.json.as_deref());
    }
    println!("{title}");
    let words = lexicon::words(WORDS, 2);
    let sources: Vec<Vec<String>> = words.iter().map(|pair| pair.source.clone()).collect();
    for (backend, device) in options.devices() {
        let trained = Trained::new(&device).map_err(io::Error::other)?;
        let translator = trained.translator().map_err(io::Error::other)?;
        let max_len = translator.max_len();
        let outputs = search(&translator, &sources);
        print_outputs(&outputs);
        print_rows(&translator, &trained.encoded(&words[..COUNTED]), &device);
        let sources = sources.clone();
        let ours = move || {
            search(&translator, &sources);
        };
        let ours = Local::new(format!("ours, {backend}"), ours);
        let mut candidates: Vec<Box<dyn Candidate>> = vec![Box::new(ours.on(&device))];
        if let Ok(baselines) = &mut baselines {
            for batch in [64, 256] {
                let name = format!("PyTorch, {batch} words");
                let checked = outputs.iter().take(CHECKED);
                let checked = checked.map(|best| best[0].tokens.join(" "));
                let setup = json!({
                    "batch": batch,
                    "beam": BEAM,
                    "max_len": max_len,
                    "sources": trained.encoded(&words),
                    "expected": checked.collect::<Vec<_>>(),
                    "weights": trained.weights().map_err(io::Error::other)?,
                });
                baselines.add_to(&mut candidates, &name, setup);
            }
        }
        report.measure(
            [&title, backend],
            candidates,
            &mut baselines,
            options.rounds,
        )?;
    }
    report.write(options.json.as_deref())
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
