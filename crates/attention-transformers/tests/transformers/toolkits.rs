//! Settings of other toolkits: the searches of tables that the packages themselves made, and the same by ours.

use std::fs::File;

use attention_core::NewRows;
use attention_tests::{assert_says, reference_path};
use attention_transformers::generate::search::{
    BeamOutput, BeamSearchConfig, LengthPenalty, TextDecoding,
};
use attention_transformers::generate::{CausalModel, EarlyStopping, RandomSamplingConfig};
use attention_transformers::{BeamConfig, GenerateConfig, Sampling};
use burn::tensor::{Tensor, TensorData};
use serde_json::Value;

use super::generation::{Given, Table};

const START: u32 = 0;
const END: u32 = 2;
/// The tokens after which a text is cut off.
const MOST: usize = 8;
/// The keys of the source that the attention of a table reads.
const SOURCE: usize = 3;

struct Toolkits {
    file: Value,
}

/// A search by a package: its settings, the table, and the outputs.
struct Row<'a> {
    settings: &'a Value,
    table: Table,
    outputs: Vec<(Vec<u32>, Option<f64>)>,
}

fn numbers<T>(list: &Value, convert: impl Fn(f64) -> T) -> Vec<T> {
    let all = list.as_array().unwrap().iter();
    all.map(|of| convert(of.as_f64().unwrap())).collect()
}

fn rows_of(list: &Value) -> Vec<Vec<f32>> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| numbers(row, |of| of as f32)).collect()
}

impl Toolkits {
    fn read() -> Self {
        let file = File::open(reference_path("toolkits.json")).unwrap();
        let file = serde_json::from_reader(file).unwrap();
        Self { file }
    }

    fn table(&self, index: usize) -> Table {
        let positions = rows_of(&self.file["positions"][index]);
        Table::new(rows_of(&self.file["tables"][index]), positions)
    }

    fn rows(&self, toolkit: &str) -> Vec<Row<'_>> {
        let rows = self.file["rows"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["toolkit"] == toolkit).map(|row| {
            let outputs = row["outputs"].as_array().unwrap().iter();
            let output = |of: &Value| {
                let tokens = numbers(&of["tokens"], |token| token as u32);
                (tokens, of["score"].as_f64())
            };
            Row {
                settings: &row["settings"],
                table: self.table(row["table"].as_u64().unwrap() as usize),
                outputs: outputs.map(output).collect(),
            }
        });
        rows.collect()
    }
}

impl Row<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        self.settings[name].as_f64()
    }

    fn count(&self, name: &str) -> Option<usize> {
        self.settings[name].as_u64().map(|count| count as usize)
    }

    /// The log-probability of each token of a text.
    fn log_probabilities(&self, tokens: &[u32]) -> Vec<f64> {
        let text = [&[START], tokens].concat();
        let of_token = |at: usize| {
            let logits = self.table.next(&text[..=at]);
            let total: f64 = logits.iter().map(|of| f64::from(*of).exp()).sum();
            f64::from(logits[tokens[at] as usize]) - total.ln()
        };
        (0..tokens.len()).map(of_token).collect()
    }

    fn check_score(&self, tokens: &[u32], score: f64, of_package: Option<f64>) {
        let difference = score - of_package.unwrap();
        let is_near = difference.abs() < 1e-5;
        assert!(is_near, "{}: {tokens:?} {difference}", self.settings);
    }

    fn check(&self, found: Vec<(Vec<u32>, f64)>) {
        assert_eq!(found.len(), self.outputs.len(), "{}", self.settings);
        for ((tokens, score), (expected, of_package)) in found.iter().zip(&self.outputs) {
            assert_eq!(tokens, expected, "{}", self.settings);
            self.check_score(tokens, *score, *of_package);
        }
    }

    fn by_beams(&self, config: &BeamConfig) -> Vec<(Vec<u32>, f64)> {
        let found = config.generate(&self.table, Given::default(), &[vec![START]]);
        let scored = |output: BeamOutput| (output.tokens, output.score);
        found.into_iter().flatten().map(scored).collect()
    }

    /// The most likely tokens, one after the other.
    fn check_greedy(&self, config: GenerateConfig) {
        let config = config
            .with_stop_tokens(vec![END])
            .with_repetition_penalty(self.number("repetition_penalty").unwrap_or(1.0))
            .with_no_repeat_ngram_size(self.count("no_repeat_ngram_size").unwrap_or(0));
        let found = config.generate(&self.table, Given::default(), &[vec![START]]);
        let found = found.run().remove(0).tokens;
        assert_eq!(found, self.outputs[0].0, "{}", self.settings);
    }
}

#[test]
fn beams_and_penalties_are_those_of_transformers() {
    for row in Toolkits::read().rows("transformers") {
        // Theirs does not count the stop token.
        let least = row.count("min_new_tokens").map_or(0, |least| least + 1);
        let Some(beams) = row.count("num_beams") else {
            row.check_greedy(GenerateConfig::new(MOST).with_min_tokens(least));
            continue;
        };
        let ends = match &row.settings["eos_token_id"] {
            Value::Null => vec![END],
            ends => numbers(ends, |token| token as u32),
        };
        let stopping = match &row.settings["early_stopping"] {
            Value::Null => EarlyStopping::Likely,
            Value::Bool(true) => EarlyStopping::AtOnce,
            never => match never.as_str() {
                Some("never") => EarlyStopping::Never,
                other => panic!("{other:?}"),
            },
        };
        let penalty = LengthPenalty::Average(row.number("length_penalty").unwrap_or(1.0));
        let config = BeamConfig::new(beams, MOST)
            .with_min_tokens(least)
            .with_stop_tokens(ends)
            .with_early_stopping(stopping)
            .with_length_penalty(penalty)
            .with_repetition_penalty(row.number("repetition_penalty").unwrap_or(1.0))
            .with_no_repeat_ngram_size(row.count("no_repeat_ngram_size").unwrap_or(0));
        row.check(row.by_beams(&config));
    }
}

#[test]
fn tokens_are_drawn_by_the_probabilities_of_transformers() {
    for row in Toolkits::read().file["sampling"].as_array().unwrap() {
        let logits = numbers(&row["logits"], |logit| logit);
        let settings = &row["settings"];
        let number = |name: &str| settings[name].as_f64();
        let top_k = settings["top_k"].as_u64().filter(|k| *k > 0);
        let config = RandomSamplingConfig::new()
            .with_temperature(number("temperature").unwrap_or(1.0))
            .with_top_k(top_k.map(|k| k as usize))
            .with_top_p(number("top_p"))
            .with_min_p(number("min_p"));
        let mut found = vec![0.0; logits.len()];
        for (token, probability) in Sampling::Random(config).distribution(&logits) {
            found[token] = probability;
        }
        let mut expected = numbers(&row["probabilities"], |probability| probability);
        // Of equals, `top_p` keeps the first here, and whichever the sort puts last there.
        let mut places = logits.iter().enumerate();
        if places.any(|(at, logit)| logits[..at].contains(logit)) {
            for probabilities in [&mut found, &mut expected] {
                probabilities.sort_by(f64::total_cmp);
            }
        }
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6, "{row}: {found} {expected}");
        }
    }
}

#[test]
fn beams_and_penalties_are_those_of_ctranslate2() {
    for row in Toolkits::read().rows("ctranslate2") {
        if row.count("beam_size") == Some(1) {
            row.check_greedy(GenerateConfig::new(MOST));
            continue;
        }
        let exponent = row.number("length_penalty").unwrap();
        let penalty = LengthPenalty::Average(exponent);
        let has_prefix = !row.settings["target_prefix"].is_null();
        let least = row.count("min_decoding_length").unwrap();
        if let Some(factor) = row.number("coverage_penalty") {
            // Each step reads every key of the source alike.
            let config = BeamSearchConfig::new(MOST)
                .with_length_penalty(penalty)
                .with_coverage_penalty(factor);
            for (tokens, score) in &row.outputs {
                let sum: f64 = row.log_probabilities(tokens).iter().sum();
                let coverage = [tokens.len() as f64 / SOURCE as f64; SOURCE];
                row.check_score(tokens, config.score(sum, tokens.len(), &coverage), *score);
            }
        } else if has_prefix || least > 0 {
            // The prefix adds nothing, but counts; the end is left out before the first softmax.
            for (tokens, score) in &row.outputs {
                let of_tokens = row.log_probabilities(tokens);
                let of_end = row.log_probabilities(&[END])[0];
                let [skipped, share] = if has_prefix { [2, 0] } else { [0, least] };
                let sum: f64 = of_tokens[skipped..].iter().sum();
                let sum = sum - share as f64 * (1.0 - of_end.exp()).ln();
                row.check_score(tokens, sum / penalty.divisor(tokens.len()), *score);
            }
        } else {
            let config = BeamConfig::new(3, MOST)
                .with_stop_tokens(vec![END])
                .with_early_stopping(EarlyStopping::AtOnce)
                .with_length_penalty(penalty);
            // Without a penalty it ends with the best output, which alone is compared.
            let config = match exponent == 0.0 {
                true => config.with_early_stopping(EarlyStopping::Likely),
                false => config,
            };
            let mut found = row.by_beams(&config);
            found.truncate(row.outputs.len());
            row.check(found);
        }
    }
}

#[test]
fn beams_and_penalties_are_those_of_opennmt() {
    let toolkits = Toolkits::read();
    let attention = rows_of(&toolkits.file["attention"][0]);
    for row in toolkits.rows("opennmt") {
        let exponent = row.number("alpha").unwrap_or(1.0);
        let penalty = match row.settings["length_penalty"].as_str() {
            None => LengthPenalty::Average(exponent),
            Some("wu") => LengthPenalty::Gnmt(exponent),
            Some("none") => LengthPenalty::None,
            other => panic!("{other:?}"),
        };
        let config = BeamSearchConfig::new(MOST)
            .with_beam(row.count("beam_size").unwrap_or(3))
            .with_n_best(row.count("n_best").unwrap_or(3))
            .with_length_penalty(penalty)
            .with_coverage_penalty(row.number("beta").unwrap_or(0.0))
            .with_min_len(row.count("min_length").unwrap_or(0))
            .with_no_repeat_ngram_size(row.count("block_ngram_repeat").unwrap_or(0))
            .with_as_opennmt(true);
        let device = row.table.device.clone();
        let next = |tokens, rows: NewRows<'_>, state: &mut Given| {
            let logits = row.table.next_logits(tokens, rows, state);
            let last = state.tokens.iter().map(|of| *of.last().unwrap() as usize);
            let weights: Vec<f32> = last.flat_map(|last| attention[last].clone()).collect();
            let shape = [state.tokens.len(), SOURCE];
            let weights = Tensor::<2>::from_data(TensorData::new(weights, shape), &device);
            (logits, Some(weights))
        };
        let prompts = vec![vec![START]];
        let mut decoding = TextDecoding::from_fn(device.clone(), next, Given::default(), prompts)
            .with_ends(vec![END]);
        let found = config.search(&mut decoding).unwrap().remove(0);
        let found = found.into_iter().map(|mut output| {
            if output.ended {
                output.tokens.push(END);
            }
            (output.tokens, output.score)
        });
        row.check(found.collect());
    }
}

/// Its beam ends otherwise: the scores of its outputs are compared.
#[test]
fn penalties_are_those_of_joeynmt() {
    for row in Toolkits::read().rows("joeynmt") {
        let exponent = row.number("alpha").unwrap().max(0.0);
        let factor = row.number("repetition_penalty").unwrap_or(1.0);
        let config = BeamSearchConfig::new(MOST).with_length_penalty(LengthPenalty::Gnmt(exponent));
        for (tokens, score) in &row.outputs {
            let of_tokens = row.log_probabilities(tokens);
            let penalized = |at: usize| match tokens[..at].contains(&tokens[at]) {
                true => factor * of_tokens[at],
                false => of_tokens[at],
            };
            let sum: f64 = (0..tokens.len()).map(penalized).sum();
            row.check_score(tokens, config.score(sum, tokens.len(), &[]), *score);
        }
    }
}

#[test]
fn a_length_penalty_says_which_it_is() {
    for (text, penalty) in [
        ("none", LengthPenalty::None),
        ("average:0.6", LengthPenalty::Average(0.6)),
        ("gnmt:1", LengthPenalty::Gnmt(1.0)),
    ] {
        assert_eq!(text.parse(), Ok(penalty));
        let json = serde_json::to_value(penalty).unwrap();
        assert_eq!(json, text);
        let read: LengthPenalty = serde_json::from_value(json).unwrap();
        assert_eq!(read, penalty);
    }
    let refused = "expected none, average:0.6 (log p / n^0.6, as transformers, CTranslate2, OpenNMT-py and Sockeye \
                   have it) or gnmt:0.6 (log p / ((5 + n) / 6)^0.6, as JoeyNMT and opennmt-tf), found 0.6";
    let number = serde_json::from_str::<LengthPenalty>("0.6").unwrap_err();
    assert_says(number.to_string(), refused);
    let error = |text: &str| text.parse::<LengthPenalty>().unwrap_err().to_string();
    assert_says(error("0.6"), refused);
    for text in ["", "average", "wu:1", "gnmt:", "average:one"] {
        assert_says(error(text), "average:A");
    }
}
