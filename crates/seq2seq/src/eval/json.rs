//! The metrics as one JSON object.

use attention_seq2seq::metrics::{AlignedStep, Bootstrap, Interval};
use serde::Serialize;

use crate::page::EvaluatedModel;

/// All metrics. Rates are fractions of 1, BLEU and chrF are in percent.
#[derive(Serialize)]
struct Figures<'a> {
    sources: usize,
    exact_match: f64,
    sequence_error_rate: f64,
    token_error_rate: f64,
    edits: usize,
    reference_tokens: usize,
    /// The number of outputs that reached `max_length`.
    cut_off: usize,
    max_length: usize,
    bleu: f64,
    chrf: f64,
    d2l_bleu: f64,
    intervals: Intervals,
    unknown: &'a [String],
    unknown_targets: &'a [String],
    /// The number of sources all of whose targets have an unknown token.
    out_of_reach: usize,
    errors: Vec<Wrong<'a>>,
    /// The metrics of the model that is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Box<Self>>,
}

#[derive(Serialize)]
struct Intervals {
    confidence: f64,
    samples: usize,
    sequence_error_rate: [f64; 2],
    token_error_rate: [f64; 2],
    bleu: [f64; 2],
    chrf: [f64; 2],
}

/// A wrong output.
#[derive(Serialize)]
struct Wrong<'a> {
    source: &'a str,
    output: &'a str,
    reference: &'a str,
    edits: usize,
    is_cut_off: bool,
    alignment: Vec<AlignedStep>,
}

/// The line with the object for the first model; the second, if there is one, is compared with it.
pub(super) fn object(models: &[EvaluatedModel<'_>]) -> String {
    let in_reverse = models.iter().rev();
    let figures = in_reverse.fold(None, |compared, model| {
        Some(Box::new(figures_of(model, compared)))
    });
    // Keys are strings, and all values can be serialized.
    serde_json::to_string(&figures).expect("figures have a JSON form")
}

fn figures_of<'a>(
    model: &'a EvaluatedModel<'_>,
    compared: Option<Box<Figures<'a>>>,
) -> Figures<'a> {
    let evaluation = &model.evaluation;
    let sums = evaluation.sums();
    let bootstrap = Bootstrap::default();
    let intervals = evaluation.intervals(&bootstrap);
    let bounds = |Interval { lower, upper }| [lower, upper];
    Figures {
        sources: sums.errors.sequences(),
        exact_match: sums.errors.exact_match(),
        sequence_error_rate: sums.errors.sequence_error_rate(),
        token_error_rate: sums.errors.token_error_rate(),
        edits: sums.errors.edits(),
        reference_tokens: sums.errors.reference_tokens(),
        cut_off: sums.errors.cut_off(),
        max_length: model.translator.max_len(),
        bleu: sums.bleu.score(),
        chrf: sums.chrf.score(),
        d2l_bleu: sums.d2l_bleu(),
        intervals: Intervals {
            confidence: bootstrap.confidence,
            samples: bootstrap.samples,
            sequence_error_rate: bounds(intervals.sequence_error_rate),
            token_error_rate: bounds(intervals.token_error_rate),
            bleu: bounds(intervals.bleu),
            chrf: bounds(intervals.chrf),
        },
        unknown: evaluation.unknown(),
        unknown_targets: evaluation.unknown_targets(),
        out_of_reach: evaluation.out_of_reach(),
        errors: evaluation.worst().map(wrong).collect(),
        compared,
    }
}

fn wrong(wrong: &attention_seq2seq::evaluation::WrongOutput) -> Wrong<'_> {
    Wrong {
        source: &wrong.source,
        output: &wrong.output_text,
        reference: &wrong.reference_text,
        edits: wrong.edits,
        is_cut_off: wrong.is_cut_off,
        alignment: wrong.alignment(),
    }
}
