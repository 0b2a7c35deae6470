//! Explanations of outputs that begin with given tokens.

use super::search::lively;
use super::*;
use crate::translate::explain::{ExplainConfig, ExplainedOutput};

fn config(prefix: &[&str]) -> ExplainConfig {
    ExplainConfig {
        search: SearchConfig::new().with_beam(Some(4)).with_n_best(Some(4)),
        prefix: prefix.iter().map(|&token| token.to_string()).collect(),
        ..ExplainConfig::default()
    }
}

#[test]
fn outputs_begin_with_the_prefix_that_is_given() {
    let (_folder, translator) = lively();
    for prefix in [&["x"][..], &["y", "x"], &["y", "y", "y", "y"]] {
        let explanation = translator.explain("decade", &config(prefix)).unwrap();
        let is_begun =
            |output: &ExplainedOutput| output.tokens().starts_with(&config(prefix).prefix);
        assert!(explanation.outputs.iter().all(is_begun), "{prefix:?}");
        // As the text of a prefix, where tokens are letters.
        let search = config(&[]).search.with_prefix(prefix.concat());
        let found = translator.n_best(["decade"], &search).unwrap().remove(0);
        for (output, expected) in explanation.outputs.iter().zip(&found) {
            assert_eq!(output.text, expected.text);
            assert_eq!(output.log_probability, expected.log_probability);
        }
        let same = ExplainConfig {
            search,
            ..config(&[])
        };
        assert_eq!(translator.explain("decade", &same).unwrap(), explanation);
        let greedy = SearchConfig::new().with_prefix(prefix.concat());
        let greedy = translator.n_best(["decade"], &greedy).unwrap().remove(0);
        assert_eq!(explanation.outputs[explanation.greedy].text, greedy[0].text);
    }
}

#[test]
fn a_prefix_with_the_end_is_the_output() {
    let (_folder, translator) = lively();
    for tokens in [&[][..], &["x"], &["y", "x", "x", "y", "x"]] {
        let whole = [tokens, &["<eos>"]].concat();
        let explanation = translator.explain("bed", &config(&whole)).unwrap();
        let [output] = &explanation.outputs[..] else {
            panic!("{explanation:?}")
        };
        assert!(output.ended && output.text == tokens.concat());
        let (source, target) = (Chars.split("bed"), Chars.split(&tokens.concat()));
        let score = translator.score(&source, &target).unwrap();
        assert_eq!(output.log_probability, score.log_probability);
        assert_eq!(output.score, score.log_probability);
    }
}

#[test]
fn a_prefix_that_no_output_has_is_an_error() {
    let (_folder, translator) = lively();
    for (prefix, line) in [
        (
            &["x", "z"][..],
            "unknown token \"z\" at position 2; expected one of: \"x\" \"y\"",
        ),
        (
            &["<eos>", "x"],
            "unknown token \"<eos>\" at position 1; expected one of: \"x\" \"y\"",
        ),
        (
            &["x"; 6],
            "the prefix: expected at most 5 tokens, where outputs are cut off, found 6",
        ),
    ] {
        let checked = translator.check_explanation(&config(prefix)).unwrap_err();
        assert_eq!(checked.to_string(), line);
        let error = translator.explain("bed", &config(prefix)).unwrap_err();
        assert_eq!(error.to_string(), line);
    }
}
