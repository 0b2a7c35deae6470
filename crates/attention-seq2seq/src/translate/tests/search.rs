//! Beam search, scores of given outputs, ensembles, and the weights of any output.

use super::*;
use crate::error::Error;
use crate::model::AttentionHead;

const WIDE: usize = 8;

const NO_TOKEN: &str = "a source: expected at least one token, found none";

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

#[test]
fn outputs_of_a_search_do_not_depend_on_the_batch_to_the_bit() {
    let (_folder, translator) = lively();
    let expected = translator.n_best(TEXTS, &wide()).unwrap();
    for (text, outputs) in TEXTS.iter().zip(&expected) {
        assert_eq!(&translator.n_best([text], &wide()).unwrap()[0], outputs);
        assert_eq!(outputs.len(), WIDE);
    }
    for size in [1, 2, 5] {
        let (_folder, translator) = (&_folder, reopened(&_folder));
        let translator = translator.with_batch_size(size).unwrap();
        assert_eq!(translator.batch_size(), size);
        assert_eq!(translator.n_best(TEXTS, &wide()).unwrap(), expected);
    }
    assert!(
        translator
            .n_best(&[] as &[&str], &wide())
            .unwrap()
            .is_empty()
    );
}

fn reopened(folder: &TempDir) -> Translator {
    Translator::load(&RunDir::new(folder.path().join("run")), &device()).unwrap()
}

#[test]
fn a_search_of_one_is_the_translation() {
    let (folder, translator) = lively();
    let best = translator.n_best(TEXTS, &SearchConfig::new()).unwrap();
    let greedy = translator.translate(TEXTS).unwrap();
    for (best, greedy) in best.iter().zip(&greedy) {
        assert_eq!(best.len(), 1);
        assert_eq!(best[0].tokens, greedy.tokens);
        assert_eq!(best[0].text, greedy.text);
        assert_eq!(best[0].ended, greedy.ended);
        assert_eq!(best[0].score, best[0].log_probability);
    }
    let path = folder.path().join("run");
    let opened = Translator::open(&path).unwrap();
    assert_eq!(opened.translate(TEXTS).unwrap(), greedy);
    assert!(
        line(Translator::open(folder.path().join("other"))).contains("no trained model is there")
    );
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
        assert!(
            some.len() == 1 || sum(&some[..some.len() - 1]) < mass,
            "{mass}: {some:?}"
        );
    }
    assert_eq!(found(SearchConfig::new().with_mass(Some(1e-9))).len(), 1);
    for output in found(wide().with_prefix("yx".to_string())) {
        assert!(output.text.starts_with("yx"), "{output:?}");
    }
    for output in found(wide().with_min_len(3).with_max_len(Some(4))) {
        assert!((3..=4).contains(&output.tokens.len()), "{output:?}");
        assert_eq!(output.ended, output.tokens.len() == 3);
    }
    assert!(found(wide().with_length_penalty(2.0))[0].tokens.len() >= all[0].tokens.len());
    let refused = |search: SearchConfig| line(translator.n_best(["decade"], &search));
    assert_eq!(
        refused(wide().with_mass(Some(0.0))),
        "the probability of the best outputs: expected above 0 and at most 1, found 0"
    );
    assert_eq!(
        refused(wide().with_prefix("xz".to_string())),
        "unknown token \"z\" at position 2; expected one of: \"x\" \"y\""
    );
    assert_eq!(
        refused(wide().with_max_len(Some(0))),
        "the length of outputs: expected at least 1 token, found 0"
    );
    assert_eq!(
        refused(wide().with_min_len(MAX_LEN)),
        "the minimum length: expected less than 5, where outputs are cut off, found 5"
    );
}

#[test]
fn a_score_is_the_probability_that_a_search_finds() {
    let (_folder, translator) = lively();
    let sources: Vec<Vec<String>> = TEXTS.iter().map(|text| Chars.split(text)).collect();
    let mut pairs = Vec::new();
    let mut expected = Vec::new();
    let all = translator.n_best(TEXTS, &wide()).unwrap();
    for (source, outputs) in sources.iter().zip(&all) {
        for output in outputs.iter().filter(|output| output.ended) {
            pairs.push((&source[..], &output.tokens[..]));
            expected.push(output.log_probability);
        }
    }
    assert!(pairs.len() > TEXTS.len());
    let scores = translator.score_all(&pairs).unwrap();
    for (((source, target), score), expected) in pairs.iter().zip(&scores).zip(expected) {
        // To the bit: these are the same steps.
        assert_eq!(score.log_probability, expected, "{source:?} {target:?}");
        assert_eq!(score.tokens.len(), target.len() + 1);
        assert_eq!(&translator.score(source, target).unwrap(), score);
    }
    let source = Chars.split("cab");
    assert_eq!(
        line(translator.score(&source, &Chars.split("xz"))),
        "unknown token \"z\" at position 2; expected one of: \"x\" \"y\""
    );
    assert_eq!(line(translator.score(&[], &[])), NO_TOKEN);
    let none = translator.n_best_tokens(&[&source, &[]], &wide());
    assert_eq!(line(none), NO_TOKEN);
    let (_folder, nan) = loaded([0.0, 0.0, f32::NAN, 0.0, 0.0, 0.0]);
    let error = nan.score(&source, &Chars.split("x"));
    assert!(matches!(error, Err(Error::NoProbabilities { position: 1 })));
}

#[test]
fn an_ensemble_has_the_mean_of_the_probabilities() {
    let (folders, members): (Vec<_>, Vec<_>) = (0..3).map(|_| lively()).unzip();
    let ensemble = Translator::ensemble(members).unwrap();
    let members: Vec<Translator> = folders.iter().map(reopened).collect();
    assert!(ensemble.is_ensemble() && !members[0].is_ensemble());
    let source = Chars.split("decade");
    for target in ["", "x", "yxxy"] {
        let target = Chars.split(target);
        let scores = ensemble.score(&source, &target).unwrap();
        let of_members: Vec<TokenScores> = members
            .iter()
            .map(|member| member.score(&source, &target).unwrap())
            .collect();
        for (at, score) in scores.tokens.iter().enumerate() {
            let sum: f64 = of_members
                .iter()
                .map(|scores| scores.tokens[at].exp())
                .sum();
            assert!((score.exp() - sum / 3.0).abs() < 1e-12, "{target:?}");
        }
    }
    // Greedy search, and a beam of one.
    let greedy = ensemble.translate(TEXTS).unwrap();
    let best = ensemble.n_best(TEXTS, &SearchConfig::new()).unwrap();
    for (greedy, best) in greedy.iter().zip(best) {
        assert_eq!((&greedy.text, greedy.ended), (&best[0].text, best[0].ended));
    }
    // An ensemble of a model with itself is that model.
    let twice = Translator::ensemble(vec![reopened(&folders[0]), reopened(&folders[0])]).unwrap();
    let outputs = |of: &Translator| of.n_best(TEXTS, &wide()).unwrap();
    for (twice, once) in outputs(&twice)
        .iter()
        .flatten()
        .zip(outputs(&members[0]).iter().flatten())
    {
        assert_eq!(twice.tokens, once.tokens);
        assert!((twice.score - once.score).abs() < 1e-12);
    }
    assert_eq!(
        line(ensemble.attend(&source)),
        "attention weights: expected those of one model, found an ensemble of 3"
    );
}

#[test]
fn an_ensemble_joins_tokens_by_their_names() {
    let (folder, first) = lively();
    // The same tokens, numbered the other way round.
    let run = RunDir::new(folder.path().join("other"));
    let vocab = |letters: &str| Vocab::build([&Chars.split(letters)[..]]);
    let vocabs = Vocabs {
        source: vocab("ffffffeeeeeddddcccbba"),
        target: vocab("yyx"),
    };
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
fn an_ensemble_of_other_tokens_is_refused() {
    let (folder, first) = lively();
    let run = RunDir::new(folder.path().join("other"));
    let vocab = |letters: &str| Vocab::build([&Chars.split(letters)[..]]);
    let vocabs = Vocabs {
        source: vocab("abcdef"),
        target: vocab("xz"),
    };
    run.create(&config(), &vocabs).unwrap();
    add(&run, 1, PREDICTS_X);
    let other = Translator::load(&run, &device()).unwrap();
    assert_eq!(
        line(Translator::ensemble(vec![first, other])),
        "the target tokens of model 2: expected \"y\", as in the first model of the ensemble (models of the same \
         training pairs have the same tokens: train both with --valid), found \"z\""
    );
    let none = line(Translator::ensemble(Vec::new()));
    assert_eq!(
        none,
        "the models of an ensemble: expected at least one, found none"
    );
}

#[test]
fn weights_of_an_output_are_those_with_which_it_was_written() {
    let (_folder, translator) = lively();
    let head = AttentionHead::default();
    for text in TEXTS {
        let source = Chars.split(text);
        let expected = translator.attend(&source).unwrap();
        let output = &expected.output;
        let attended = translator
            .attend_to(&source, &output.tokens, output.ended, head)
            .unwrap();
        assert_eq!(attended.weights, expected.weights);
        assert_eq!(attended.target, expected.target);
        assert_eq!(attended.source, expected.source);
        // Of another output there are as many rows as it has tokens.
        let other = translator
            .attend_to(&source, &Chars.split("yx"), true, head)
            .unwrap();
        assert_eq!(other.target, ["y", "x", "<eos>"]);
        assert_eq!(other.weights.len(), 3 * source.len());
    }
    assert_eq!(line(translator.attend_to(&[], &[], true, head)), NO_TOKEN);
}
