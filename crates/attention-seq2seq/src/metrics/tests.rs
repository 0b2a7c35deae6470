//! BLEU and chrF are sacreBLEU's, and D2L's is D2L's.

use attention_tests::{reference_path, refuses};
use serde::Deserialize;

use super::tokenize_13a::{tokenize_13a, words};
use super::{Bleu, Bootstrap, ChrF, d2l_bleu};

/// A corpus with its figures, by `tests/reference/generate_text_metrics.py`.
#[derive(Deserialize)]
struct Case {
    name: String,
    outputs: Vec<String>,
    references: Vec<Vec<String>>,
    tokens_13a: Vec<Vec<String>>,
    bleu: f64,
    bleu_of_words: f64,
    chrf: f64,
}

fn cases() -> Vec<Case> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<Case>,
    }
    let path = reference_path("text_metrics.json");
    let file: File = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(file.cases.len() > 10);
    file.cases
}

#[track_caller]
fn assert_is(what: &str, name: &str, found: f64, expected: f64) {
    let is_near = (found - expected).abs() <= 1e-6;
    assert!(is_near, "{what} of {name:?}: {found} is not {expected}");
}

#[test]
fn scores_of_corpora_are_those_of_sacrebleu() {
    for case in cases() {
        let (mut bleu, mut of_words, mut chrf) =
            (Bleu::default(), Bleu::default(), ChrF::default());
        for (output, references) in case.outputs.iter().zip(&case.references) {
            bleu += Bleu::of_texts(output, references);
            let known: Vec<Vec<&str>> = references.iter().map(|it| words(it).collect()).collect();
            of_words += Bleu::of_tokens(&words(output).collect::<Vec<_>>(), &known);
            chrf += ChrF::of_texts(output, references);
        }
        for (what, found, expected) in [
            ("BLEU", bleu.score(), case.bleu),
            ("BLEU of words", of_words.score(), case.bleu_of_words),
            ("chrF", chrf.score(), case.chrf),
        ] {
            assert_is(what, &case.name, found, expected);
        }
    }
}

#[test]
fn texts_are_split_as_sacrebleu_splits_them() {
    for case in cases() {
        for (output, tokens) in case.outputs.iter().zip(&case.tokens_13a) {
            let found = tokenize_13a(output);
            assert_eq!(words(&found).collect::<Vec<_>>(), *tokens, "{output:?}");
        }
    }
}

#[test]
fn the_bleu_of_d2l_is_its_function() {
    let words = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
    for (output, reference, max_order, expected) in [
        ("il est mouillé .", "il est calme .", 2, 0.6580370064762462),
        ("il court .", "il est calme .", 2, 0.0),
        ("il court .", "il est calme .", 1, 0.5850453652111616),
        ("va !", "va !", 2, 1.0),
        ("a b c d e f", "a b c d", 3, 0.6589666468204242),
        ("", "a", 2, 0.0),
        ("a", "", 2, 0.0),
        ("", "", 2, 1.0),
    ] {
        let found = d2l_bleu(&words(output), &words(reference), max_order);
        assert_is("D2L's BLEU", output, found, expected);
    }
}

#[test]
fn intervals_of_scores_hold_the_score() {
    for case in cases().iter().filter(|case| case.outputs.len() >= 20) {
        let pairs = case.outputs.iter().zip(&case.references);
        let bleu = pairs.map(|(output, known)| Bleu::of_texts(output, known));
        let bleu: Vec<Bleu> = bleu.collect();
        let [interval] = Bootstrap::default().intervals(&bleu, |sum| [sum.score()]);
        let is_inside = interval.lower < case.bleu && case.bleu < interval.upper;
        assert!(is_inside, "{}: {interval:?}", case.name);
    }
}

#[test]
fn an_output_without_reference_has_no_score() {
    let none: &[&str] = &[];
    refuses("at least one reference", || Bleu::of_texts("a", none));
    refuses("at least one reference", || ChrF::of_texts("a", none));
}
