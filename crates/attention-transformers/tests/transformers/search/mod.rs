//! The bound, the ties and the settings of a search, beside a plain search and all outputs that there are.

use attention_tests::{device, parameters};
use attention_transformers::generate::search::{
    BeamOutput, BeamSearchConfig, Decoding, LengthPenalty, SearchError, TextDecoding,
};
use attention_transformers::{
    LanguageModelConfig, TokenEmbeddingConfig, TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::module::Module;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use plain::plain_search;
use table::{A, END, Table, every_output, scrambled};

mod plain;
mod repetition;
mod table;

/// The prompts that a model goes on with, and how many at once.
const PROMPTS: usize = 480;
const BATCH: usize = 60;

/// The end has the probabilities .5, .1 and .9 at the first three steps, and `a` the rest.
fn ends_early(row: &[u32]) -> Vec<f64> {
    let of_end = [0.5, 0.1, 0.9][row.len()];
    vec![of_end, 1.0 - of_end]
}

fn config(max_len: usize, beam: usize, n_best: usize) -> BeamSearchConfig {
    let config = BeamSearchConfig::new(max_len);
    config.with_beam(beam).with_n_best(n_best)
}

/// [`config`] with GNMT's length penalty of this exponent.
fn gnmt(max_len: usize, beam: usize, n_best: usize, penalty: f64) -> BeamSearchConfig {
    config(max_len, beam, n_best).with_length_penalty(LengthPenalty::Gnmt(penalty))
}

fn search(config: &BeamSearchConfig, decoding: &mut dyn Decoding) -> Vec<Vec<BeamOutput>> {
    config.search(decoding).unwrap()
}

#[track_caller]
fn check_close(actual: f64, expected: f64) {
    let difference = (actual - expected).abs();
    assert!(difference < 5e-4, "{actual} is not {expected}");
}

#[test]
fn the_length_penalty_decides_between_a_short_and_a_likely_continuation() {
    // Sums of the empty output, of `a a` and of `a`.
    let sums = [-0.693, -0.904, -2.996];
    for examples in [1, 32] {
        for (penalty, order, scores) in [
            (0.0, [0, 2, 1], sums),
            (0.6, [0, 2, 1], [-0.693, -0.761, -2.731]),
            (1.0, [2, 0, 1], [-0.678, -0.693, -2.568]),
        ] {
            let config = gnmt(3, 3, 3, penalty);
            let all = search(&config, &mut Table::new(examples, ends_early));
            assert_eq!(all.len(), examples);
            for outputs in all {
                let lens: Vec<usize> = outputs.iter().map(|it| it.tokens.len()).collect();
                assert_eq!(lens, order, "{penalty}");
                for (output, score) in outputs.iter().zip(scores) {
                    assert!(output.ended && output.tokens.iter().all(|&token| token == A));
                    check_close(output.score, score);
                    let sum = [sums[0], sums[2], sums[1]][output.tokens.len()];
                    check_close(output.log_probability, sum);
                }
            }
        }
    }
}

#[test]
fn an_output_that_reaches_the_limit_is_cut_off_and_comes_last() {
    let config = config(1, 2, 2);
    let outputs = search(&config, &mut Table::new(1, ends_early)).remove(0);
    let found = outputs.iter().map(|it| (&it.tokens[..], it.ended));
    assert!(found.eq([(&[][..], true), (&[A], false)]), "{outputs:?}");
    for output in &outputs {
        check_close(output.log_probability, -0.693);
    }
    // Though `a` is more likely than an output that has ended.
    let unlikely_end = |_: &[u32]| vec![0.1, 0.9];
    let outputs = search(&config, &mut Table::new(1, unlikely_end)).remove(0);
    assert!(outputs[0].ended && outputs[0].log_probability < outputs[1].log_probability);
    // A beam of one has no other.
    let greedy = search(&BeamSearchConfig::new(1), &mut Table::new(1, unlikely_end)).remove(0);
    assert_eq!((&greedy[0].tokens[..], greedy[0].ended), (&[A][..], false));
    for outputs in search(&BeamSearchConfig::new(0), &mut Table::new(2, unlikely_end)) {
        let [output] = &outputs[..] else {
            panic!("{outputs:?}")
        };
        assert_eq!((output.tokens.len(), output.ended), (0, false));
        assert_eq!(output.log_probability, 0.0);
    }
}

#[test]
fn a_search_stops_once_no_hypothesis_can_pass_the_last_one_kept() {
    let steps = |max_len: usize, penalty: f64, n_best: usize| {
        let config = gnmt(max_len, 3, n_best, penalty);
        let mut table = Table::new(1, |row: &[u32]| match row.len() {
            0 => vec![0.5, 0.5],
            _ => vec![0.01, 0.99],
        });
        search(&config, &mut table);
        table.steps
    };
    // The empty output has .5 at once, and `a` cannot pass it; with a penalty it can, up to the limit.
    assert_eq!(steps(40, 0.0, 1), 1);
    assert!(steps(40, 1.0, 1) > 30);
    // A second output is kept: what goes on is more likely than all that end.
    assert_eq!(steps(40, 0.0, 2), 40);
}

/// Compares the outputs of each example with the plain search's, and returns the number of examples whose greedy output
/// the plain search lost. Elsewhere both have the same outputs; there the greedy one takes its place among them.
fn check_against_plain<'a>(
    config: &BeamSearchConfig,
    decoding: impl Fn() -> Box<dyn Decoding + 'a>,
) -> usize {
    let of_one = config.clone().with_beam(1).with_n_best(1);
    let greedy = search(&of_one, &mut *decoding());
    let plain = plain_search(config, &mut *decoding());
    let found = search(config, &mut *decoding());
    let mut lost = 0;
    for ((found, plain), greedy) in found.iter().zip(plain).zip(greedy) {
        let mut pairs = found.iter().filter(|output| output.ended).zip(&plain);
        assert!(pairs.all(|(found, plain)| found.score >= plain.score));
        let mut expected = plain;
        let is_lost = |output: &BeamOutput| expected.iter().all(|it| it.tokens != output.tokens);
        if greedy[0].ended && is_lost(&greedy[0]) {
            lost += 1;
            expected.extend(greedy);
            expected.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        expected.truncate(config.n_best);
        let ended: Vec<_> = found.iter().filter(|output| output.ended).collect();
        assert_eq!(ended, expected.iter().collect::<Vec<_>>(), "{config}");
    }
    lost
}

#[test]
fn dropping_what_cannot_pass_loses_no_output() {
    for (beam, n_best, penalty) in [(2, 1, 0.0), (3, 1, 0.7), (5, 1, 0.0), (5, 3, 0.7)] {
        let config = gnmt(12, beam, n_best, penalty);
        let lost = (0..300).map(|seed| {
            // The end is likely after a few tokens, so that greedy outputs end.
            let table = move |row: &[u32]| {
                let mut probabilities = scrambled(4, seed)(row);
                probabilities[0] *= row.len() as f64 * 0.5;
                let sum: f64 = probabilities.iter().sum();
                probabilities.into_iter().map(|it| it / sum).collect()
            };
            check_against_plain(&config, || Box::new(Table::new(1, table)))
        });
        let lost: usize = lost.sum();
        assert!(lost > 0, "{config}: no greedy output was lost");
    }
}

#[test]
fn prompts_have_outputs_at_least_as_likely_as_those_of_the_plain_search() {
    let stack = TransformerEncoderConfig::new(TransformerLayerConfig::new(8, 2, 11), 1);
    let config = LanguageModelConfig::new(TokenEmbeddingConfig::new(13, 8), stack);
    let model = config.init(&device::plain()[0]).valid();
    let mut random = ChaCha8Rng::seed_from_u64(3);
    // Several tokens end an output, and some beams lose the greedy one.
    let model = parameters::changed(model, |_, mut value| {
        value.data.fill_with(|| random.random_range(-0.5..0.5));
        value
    });
    for (n_best, penalty) in [(1, 0.0), (3, 0.6)] {
        let config = gnmt(12, 5, n_best, penalty);
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let lost = (0..PROMPTS / BATCH).map(|batch| {
            let len = 1 + batch % 8;
            let mut prompt = || (0..len).map(|_| random.random_range(A..13)).collect();
            let prompts: Vec<Vec<u32>> = (0..BATCH).map(|_| prompt()).collect();
            check_against_plain(&config, || {
                let decoding = TextDecoding::new(&model, model.cache(), prompts.clone());
                Box::new(decoding.with_ends(vec![END, 5, 7]))
            })
        });
        let lost: usize = lost.sum();
        assert!(lost > 0, "{config}: no greedy output was lost");
    }
}

#[test]
fn an_output_that_no_other_can_pass_costs_no_row_but_its_own() {
    // `a a` is certain enough at each step.
    let sure = |row: &[u32]| match row.len() {
        0 | 1 => vec![0.01, 0.98, 0.01],
        _ => vec![0.98, 0.01, 0.01],
    };
    let config = BeamSearchConfig::new(9).with_beam(5);
    let mut model = Table::new(1, sure);
    let output = search(&config, &mut model).remove(0).remove(0);
    assert_eq!((output.tokens, model.computed), (vec![A, A], 3));
    let mut model = Table::new(1, sure);
    search(&config.with_n_best(2), &mut model);
    assert!(model.computed > 3);
}

#[test]
fn a_wide_beam_finds_the_best_of_all_outputs() {
    let wide = || config(4, 300, 300);
    let configs = [
        wide(),
        gnmt(4, 300, 300, 1.3),
        gnmt(4, 300, 300, 0.4).with_coverage_penalty(0.7),
        wide().with_min_len(2),
        wide().with_prefix(vec![A + 1]),
        wide().with_prefix(vec![A, A + 2]).with_min_len(3),
        wide().with_prefix(vec![A, A, A + 1, A]),
    ];
    for seed in 0..5 {
        let table = scrambled(3, seed);
        for config in &configs {
            let expected = every_output(config, &table);
            let outputs = search(config, &mut Table::new(1, &table)).remove(0);
            assert_eq!(outputs, expected, "{config}");
            // The best few alone, by a search that stops as soon as they are certain.
            for n_best in [1, 3] {
                let few = config.clone().with_n_best(n_best);
                let outputs = search(&few, &mut Table::new(1, &table)).remove(0);
                assert_eq!(outputs, expected[..n_best.min(expected.len())], "{few}");
            }
        }
    }
}

#[test]
fn outputs_differ_and_the_first_is_that_of_a_search_for_one() {
    for seed in 0..50 {
        let table = scrambled(5, seed);
        for (beam, penalty) in [(2, 0.0), (3, 1.0), (7, 0.4)] {
            let found = |n_best| {
                search(&gnmt(9, beam, n_best, penalty), &mut Table::new(1, &table)).remove(0)
            };
            let outputs = found(beam);
            assert_eq!(outputs.len(), beam);
            assert_eq!(found(1), outputs[..1], "{seed} {beam} {penalty}");
            let mut tokens: Vec<_> = outputs.iter().map(|output| &output.tokens).collect();
            tokens.sort();
            tokens.dedup();
            assert_eq!(tokens.len(), beam, "{seed}: {outputs:?}");
            for [better, worse] in outputs.array_windows() {
                assert!(better.ended && !worse.ended || better.score >= worse.score);
            }
        }
    }
}

#[test]
fn the_greedy_output_is_the_first_of_equals_in_any_search() {
    // `a a` and `b a` have the same probability, and `b a` is the more likely beginning.
    let table = |row: &[u32]| match row {
        [] => vec![1e-4, 0.5, 0.25],
        [A] => vec![1e-4, 0.25, 0.2],
        [_] => vec![1e-4, 1.0, 1e-4],
        [A, A] => vec![0.5, 0.1, 0.1],
        _ => vec![0.25, 0.1, 0.1],
    };
    let config = BeamSearchConfig::new(5).with_beam(2);
    let one = search(&config, &mut Table::new(1, table)).remove(0);
    let two = search(&config.with_n_best(2), &mut Table::new(1, table)).remove(0);
    assert_eq!(two[0].score, two[1].score);
    assert_eq!(one[0].tokens, [A, A]);
    assert_eq!(one, two[..1]);
}

#[test]
fn a_token_without_probability_is_not_chosen_but_where_it_is_forced() {
    let never_b = |_: &[u32]| vec![0.3, 0.7, 0.0];
    let config = config(3, 9, 9);
    let outputs = search(&config, &mut Table::new(1, never_b)).remove(0);
    assert_eq!(outputs.len(), 4);
    let forced = config.with_prefix(vec![A + 1]);
    let outputs = search(&forced, &mut Table::new(1, never_b)).remove(0);
    assert!(!outputs.is_empty());
    for output in outputs {
        let expected = (A + 1, f64::NEG_INFINITY);
        assert_eq!((output.tokens[0], output.log_probability), expected);
    }
    // Without a token of the data, the end alone may come, and a minimum length leaves nothing.
    let only_end = |_: &[u32]| vec![1.0];
    let config = BeamSearchConfig::new(3).with_min_len(1);
    let outputs = search(&config, &mut Table::new(1, only_end)).remove(0);
    assert_eq!((outputs[0].tokens.len(), outputs[0].ended), (0, false));
}

#[test]
fn settings_out_of_range_are_refused() {
    let config = || BeamSearchConfig::new(5).with_beam(3);
    let configs = [
        config().with_beam(10_001),
        config().with_coverage_penalty(f64::NAN),
        config().with_length_penalty(LengthPenalty::Average(-1.0)),
        config().with_repetition_penalty(f64::INFINITY),
        config().with_min_len(5),
        config().with_prefix(vec![A; 6]),
        config().with_prefix(vec![END]),
        config().with_prefix(vec![A + 9]),
    ];
    let errors = configs.map(|it| it.search(&mut Table::new(1, ends_early)).unwrap_err());
    let expected = [
        "the beam: expected 1 to 10000, found 10001",
        "the coverage penalty: expected a number from 0, found NaN",
        "the exponent of the length penalty: expected a number from 0, found -1",
        "the repetition penalty: expected a number above 0, found inf",
        "the minimum length: expected less than 5, where outputs are cut off, found 5",
        "the prefix: expected at most 5 tokens, where outputs are cut off, found 6",
        "the prefix: expected tokens of the data, found token 2",
        "the prefix: expected tokens of the data, found token 13",
    ];
    assert_eq!(errors.map(|it| it.to_string()), expected);
    let stopped = config().search_until(&mut Table::new(1, ends_early), &|| true);
    assert_eq!(stopped.unwrap_err(), SearchError::Stopped);
}

/// An example that nothing can extend keeps its outputs while another goes on.
#[test]
fn an_example_that_is_stuck_keeps_what_it_has() {
    let stuck = |row: &[u32]| match row.len() {
        0 => vec![0.0, 1.0, 0.0],
        _ => vec![1.0, 0.0, 0.0],
    };
    let config = BeamSearchConfig::new(4).with_min_len(2);
    let alone = search(&config, &mut Table::new(1, stuck)).remove(0);
    assert_eq!((alone[0].tokens.len(), alone[0].ended), (1, false));
    for outputs in search(&config, &mut Table::new(3, stuck)) {
        assert_eq!(outputs, alone);
    }
}
