//! Outputs that have different tokens but the same text.

use std::collections::HashMap;

use super::ScoredHypothesis;
use crate::model::BeamSearchConfig;

/// Outputs, the best first, each text once: the first output of a text, with the probability of all with this text.
pub(super) fn each_text_once(
    outputs: impl Iterator<Item = ScoredHypothesis>,
    search: &BeamSearchConfig,
) -> Vec<ScoredHypothesis> {
    let mut places = HashMap::new();
    let mut found: Vec<ScoredHypothesis> = Vec::new();
    for output in outputs {
        let place = *places.entry(output.text.clone()).or_insert(found.len());
        let Some(first) = found.get_mut(place) else {
            found.push(output);
            continue;
        };
        let (own, other) = (first.log_probability, output.log_probability);
        // An output that was cut off is the beginning of many, not another division of an ended one.
        if first.ended != output.ended || other == f64::NEG_INFINITY {
            continue;
        }
        // exp(own) + exp(other) is at most 1, except for rounding.
        let sum = own.max(other) + (own.min(other) - own.max(other)).exp().ln_1p();
        first.log_probability = sum.min(0.0);
        let len = first.steps();
        // Without the coverage penalty, which each output has for itself.
        let score = |log_probability| search.score(log_probability, len, &[]);
        first.score += score(first.log_probability) - score(own);
    }
    found.sort_by(|a, b| b.ended.cmp(&a.ended).then(b.score.total_cmp(&a.score)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LengthPenalty;

    fn output(tokens: &[&str], ended: bool, probability: f64) -> ScoredHypothesis {
        ScoredHypothesis {
            tokens: tokens.iter().map(|&it| it.to_owned()).collect(),
            text: tokens.concat(),
            ended,
            log_probability: probability.ln(),
            score: probability.ln(),
        }
    }

    #[test]
    fn ways_to_divide_a_text_are_one_output_with_the_probability_of_all() {
        let outputs = [
            output(&["no"], true, 0.3),
            output(&["lo", "w"], true, 0.25),
            output(&["low"], true, 0.125),
            output(&["new"], true, 0.0),
            output(&["n", "ew"], true, 0.0),
            output(&["l", "ow"], false, 0.125),
            output(&["l", "o"], false, 0.0625),
        ];
        let search = BeamSearchConfig::new(9);
        let found = each_text_once(outputs.clone().into_iter(), &search);
        let texts: Vec<&str> = found.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["low", "no", "new", "lo"]);
        assert_eq!(found[0].tokens, ["lo", "w"]);
        assert!((found[0].log_probability - 0.375_f64.ln()).abs() < 1e-15);
        assert_eq!(found[0].score, found[0].log_probability);
        assert_eq!(found[1..3], [outputs[0].clone(), outputs[3].clone()]);
        // Three tokens with the end: the sum is divided as the output was.
        let search = search.with_length_penalty(LengthPenalty::Gnmt(0.5));
        let mut low = outputs[1..3].to_vec();
        low[0].score = search.score(low[0].log_probability, 3, &[]);
        let found = each_text_once(low.into_iter(), &search);
        let expected = 0.375_f64.ln() / (8.0_f64 / 6.0).sqrt();
        assert!((found[0].score - expected).abs() < 1e-15);
    }
}
