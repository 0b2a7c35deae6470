//! Explanations: outputs that begin with given tokens, and the limits of time and size.

use std::cell::Cell;

use super::search::lively;
use super::*;
use crate::error::Error;
use crate::model::LengthPenalty;
use crate::translate::explain::{ExplainConfig, Explanation};

fn config(prefix: &[&str]) -> ExplainConfig {
    ExplainConfig {
        search: SearchConfig::new().with_beam(Some(4)).with_n_best(Some(4)),
        prefix: prefix.iter().map(|&token| token.to_string()).collect(),
        ..ExplainConfig::default()
    }
}

#[test]
fn an_end_that_is_also_a_token_of_the_data_is_refused() {
    let (_folder, mut translator) = lively();
    let tokens = ["x".to_string(), "<eos>".to_string()];
    translator.vocabs.target = Vocab::build([&tokens[..]]);
    for prefix in [&["<eos>"][..], &["x", "<eos>"]] {
        let expected = "the prefix: expected no `<eos>` at its end, which is a token of this model's data, found one";
        let found = line(translator.check_explanation(&config(prefix)));
        assert_eq!(found, expected);
    }
    let forced = config(&["<eos>", "x"]);
    let explanation = translator.explain("bed", &forced).unwrap();
    for output in explanation.outputs {
        assert!(output.tokens().starts_with(&forced.prefix), "{output:?}");
    }
}

/// The explanation, stopped after `questions` questions, and the number that it asked.
fn explained_until(
    translator: &Translator,
    config: &ExplainConfig,
    questions: usize,
) -> (Result<Explanation>, usize) {
    let asked = Cell::new(0);
    let should_stop = || asked.replace(asked.get() + 1) >= questions;
    let explanation = translator.explain_tokens_until(&Chars.split("decade"), config, should_stop);
    (explanation, asked.get())
}

#[test]
fn an_explanation_ends_where_nobody_waits_for_it() {
    let (_folder, translator) = lively();
    let whole = ["x", "y", "x", "<eos>"];
    for config in [config(&[]), config(&["y"]), config(&whole)] {
        let (explanation, questions) = explained_until(&translator, &config, usize::MAX);
        let explanation = explanation.unwrap();
        assert_eq!(translator.explain("decade", &config).unwrap(), explanation);
        // Each output is decoded without source tokens, step by step.
        let steps: usize = explanation.outputs.iter().map(|it| it.steps.len()).sum();
        assert!(questions > steps, "{questions} {steps}");
        for stop in 0..questions {
            let (stopped, asked) = explained_until(&translator, &config, stop);
            assert!(matches!(stopped, Err(Error::Stopped)), "{stop}");
            // It asks no more.
            assert_eq!(asked, stop + 1);
        }
    }
    let source = Chars.split("decade");
    let search = SearchConfig::new().with_beam(Some(3));
    let asked = Cell::new(0);
    // Before the first step.
    let should_stop = || asked.replace(asked.get() + 1) >= 1;
    let stopped = translator.n_best_tokens_until(&[&source], &search, should_stop);
    assert!(matches!(stopped, Err(Error::Stopped)) && asked.get() == 2);
}

/// An output that no search has found, as greedy search's, has the score that a search with the same penalties gives.
#[test]
fn an_output_that_was_not_searched_for_has_its_penalties() {
    let (_folder, translator) = lively();
    for [length, coverage] in [[1.5, 0.0], [0.0, 0.7], [0.4, 0.3]] {
        let with_penalties = |config: ExplainConfig| ExplainConfig {
            search: config
                .search
                .with_length_penalty(LengthPenalty::Gnmt(length))
                .with_coverage_penalty(coverage),
            ..config
        };
        let mut found = with_penalties(config(&[]));
        for output in translator.n_best(["bed"], &found.search).unwrap().concat() {
            if output.ended {
                let mut whole = with_penalties(config(&["<eos>"]));
                whole.prefix.splice(..0, output.tokens.clone());
                let explained = translator.explain("bed", &whole).unwrap().outputs.remove(0);
                let [score, log_probability] = [output.score, output.log_probability];
                assert!((explained.log_probability - log_probability).abs() < 1e-9);
                let is_near = (explained.score - score).abs() < 1e-6;
                assert!(is_near, "{explained:?} {score}");
            }
        }
        // The greedy output is cut off, and none of the search's.
        found.search = found.search.with_n_best(Some(1));
        let (_folder, endless) = loaded([-9.0, -9.0, -20.0, 0.0, 0.5, 0.5]);
        let explanation = endless.explain("bed", &found).unwrap();
        let greedy = &explanation.outputs[explanation.greedy];
        assert_eq!((greedy.ended, greedy.steps.len()), (false, MAX_LEN));
        if coverage == 0.0 {
            let expected = greedy.log_probability / (10.0_f64 / 6.0).powf(length);
            assert!((greedy.score - expected).abs() < 1e-12, "{greedy:?}");
        }
    }
}

#[test]
fn an_explanation_of_too_many_numbers_is_refused_before_they_are_computed() {
    let (folders, members): (Vec<_>, Vec<_>) = (0..2).map(|_| lively()).unzip();
    let ensemble = Translator::ensemble(members).unwrap();
    let translator = Translator::load(&RunDir::new(folders[0].path().join("run")), &device());
    for translator in [translator.unwrap(), ensemble] {
        for occlusion_limit in [6, 5] {
            let limited = |most_numbers| ExplainConfig {
                occlusion_limit,
                most_numbers,
                ..config(&[])
            };
            let (explanation, questions) = explained_until(&translator, &limited(None), usize::MAX);
            let explanation = explanation.unwrap();
            let numbers = explanation.outputs.iter().map(|output| {
                let weights = output.attention.as_ref().map_or(0, |it| it.weights.len());
                let changes = output.occlusion.as_ref().map_or(0, |it| it.steps.len());
                let alternatives = output.steps.iter().map(|step| step.alternatives.len());
                weights + changes + alternatives.sum::<usize>()
            });
            let numbers: usize = numbers.sum();
            let enough = translator.explain("decade", &limited(Some(numbers)));
            assert_eq!(enough.unwrap(), explanation);
            for most in [1, numbers - 1] {
                let (refused, asked) =
                    explained_until(&translator, &limited(Some(most)), usize::MAX);
                let expected = format!(
                    "the explanation: expected at most {most} weights, changes and alternatives of its outputs, found \
                     {numbers}; fewer outputs, or a shorter source, have fewer"
                );
                assert_eq!(line(refused), expected);
                // The search was all, of the greedy output first: a question before it, and one after it.
                assert!(asked < questions && asked <= 2 * MAX_LEN + 2, "{asked}");
            }
        }
    }
}
