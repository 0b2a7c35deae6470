//! Beam search, scores of given outputs, ensembles, and the weights of any output.

use super::*;
use crate::data::batch::Source;
use crate::error::Error;
use crate::model::{LengthPenalty, Seq2SeqModel};

const WIDE: usize = 8;

/// Sources of several lengths, some of them alike.
const TEXTS: [&str; 9] = [
    "fade", "a", "bed", "a", "decade", "cab", "f", "dab", "faced",
];

fn wide() -> SearchConfig {
    SearchConfig::new()
        .with_beam(Some(WIDE))
        .with_n_best(Some(WIDE))
}

/// A model whose outputs depend on the source.
pub(super) fn lively() -> (TempDir, Translator) {
    loaded([-9.0, -9.0, 0.3, 0.0, 0.5, 0.5])
}

fn reopened(folder: &TempDir) -> Translator {
    Translator::load(&RunDir::new(folder.path().join("run")), &device()).unwrap()
}

#[test]
fn settings_of_a_search_count() {
    let (_folder, translator) = lively();
    let found = |search: SearchConfig| translator.n_best(["decade"], &search).unwrap().remove(0);
    let all = found(wide());
    // As many as together have the probability.
    for mass in [0.1, 0.5, 0.9, 1.0] {
        let some = found(wide().with_n_best(None).with_mass(Some(mass)));
        assert_eq!(some, all[..some.len()]);
        let sum = |outputs: &[ScoredHypothesis]| -> f64 {
            outputs.iter().map(|it| it.log_probability.exp()).sum()
        };
        let reached = sum(&some) >= mass;
        assert!(reached || some.len() == WIDE, "{mass}: {some:?}");
        let is_least = some.len() == 1 || sum(&some[..some.len() - 1]) < mass;
        assert!(is_least, "{mass}: {some:?}");
    }
    assert_eq!(found(SearchConfig::new().with_mass(Some(1e-9))).len(), 1);
    // Penalties, which favour unlikely outputs, neither order nor choose these.
    let with_penalties = wide()
        .with_length_penalty(LengthPenalty::Gnmt(9.0))
        .with_coverage_penalty(9.0);
    assert_ne!(found(with_penalties.clone())[0], all[0]);
    let found_by_mass = found(with_penalties.with_n_best(None).with_mass(Some(0.5)));
    assert_eq!(found_by_mass, all[..found_by_mass.len()]);
    for output in found(wide().with_min_len(3).with_max_len(Some(4))) {
        assert!((3..=4).contains(&output.tokens.len()), "{output:?}");
        assert_eq!(output.ended, output.tokens.len() == 3);
    }
}

/// Shared weights give the same outputs as weights made for one search, to the bit.
#[test]
fn searches_share_the_weights_of_the_model() {
    let (_folder, translator) = lively();
    let model = translator.model().unwrap();
    let search = wide().beam_search(MAX_LEN, Vec::new());
    for _ in 0..2 {
        for (text, found) in TEXTS.iter().zip(translator.n_best(TEXTS, &wide()).unwrap()) {
            let source = translator.encoded(&[&Chars.split(text)]);
            let source = Source::new(source.iter().map(Vec::as_slice), &device());
            let mut decoding = model.decoding(&source, MAX_LEN, false);
            let expected = search.search(&mut *decoding).unwrap().remove(0);
            let found: Vec<f64> = found.iter().map(|it| it.log_probability).collect();
            let expected: Vec<f64> = expected.iter().map(|it| it.log_probability).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}

#[test]
fn an_ensemble_joins_tokens_by_their_names() {
    let (folder, first) = lively();
    // The same tokens, numbered the other way round.
    let run = RunDir::new(folder.path().join("other"));
    let vocabs = vocabs("ffffffeeeeeddddcccbba", "yyx");
    run.create(&config(), &vocabs).unwrap();
    add(&run, 1, [-9.0, -9.0, 0.3, 0.0, 0.7, 0.2]);
    let other = || Translator::load(&run, &device()).unwrap();
    let members = [reopened(&folder), other(), other()];
    let pair = Translator::ensemble(vec![other(), other()]).unwrap();
    let ensemble = Translator::ensemble(vec![first, pair]).unwrap();
    for (source, target) in [("decade", "yxxyy"), ("fab", ""), ("f", "x")] {
        let (source, target) = (Chars.split(source), Chars.split(target));
        let of = |it: &Translator| it.score(&source, &target).unwrap().tokens;
        let of_members = members.each_ref().map(of);
        for (at, score) in of(&ensemble).iter().enumerate() {
            let sum: f64 = of_members.iter().map(|scores| scores[at].exp()).sum();
            assert!((score.exp() - sum / 3.0).abs() < 1e-12, "{target:?}");
        }
    }
    // What a search finds has the score of its text.
    for (text, outputs) in TEXTS.iter().zip(ensemble.n_best(TEXTS, &wide()).unwrap()) {
        for output in outputs.iter().filter(|output| output.ended) {
            let score = ensemble.score(&Chars.split(text), &output.tokens).unwrap();
            assert!((score.log_probability - output.log_probability).abs() < 1e-9);
        }
    }
}

#[test]
fn models_without_probabilities_end_in_an_ensemble() {
    let nan = || loaded([0.0, 0.0, f32::NAN, 0.0, 0.0, 0.0]).1;
    let ensemble = Translator::ensemble(vec![nan(), lively().1]).unwrap();
    for output in ensemble.translate(TEXTS).unwrap() {
        assert_eq!((output.text.as_str(), output.ended), ("", true));
    }
    let error = ensemble.n_best(TEXTS, &SearchConfig::new());
    assert!(matches!(error, Err(Error::NoProbabilities { position: 1 })));
}

#[test]
fn weights_of_an_output_are_those_with_which_it_was_written() {
    let (_folder, translator) = lively();
    let head = AttentionHead::default();
    for text in TEXTS {
        let source = Chars.split(text);
        let expected = translator.attend(&source, head).unwrap();
        let output = &expected.output;
        let attended = translator.attend_to(&source, &output.tokens, output.ended, head);
        let attended = attended.unwrap();
        assert_eq!(attended.weights, expected.weights);
        assert_eq!(attended.target, expected.target);
        assert_eq!(attended.source, expected.source);
        // Of another output there are as many rows as it has tokens.
        let other = translator.attend_to(&source, &Chars.split("yx"), true, head);
        let other = other.unwrap();
        assert_eq!(other.target, ["y", "x", "<eos>"]);
        assert_eq!(other.weights.len(), 3 * source.len());
    }
    assert_eq!(line(translator.attend_to(&[], &[], true, head)), NO_TOKEN);
}
