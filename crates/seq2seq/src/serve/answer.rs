//! Answers to requests.

use attention_seq2seq::translate::ScoredHypothesis;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

pub(super) fn as_json(value: &impl Serialize) -> Response {
    json(serde_json::to_string(value).expect("answers have keys of text alone"))
}

pub(super) fn json(text: String) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], text).into_response()
}

/// The body of an answer to `POST /v1/translate`.
#[derive(Serialize)]
pub(super) struct Answer {
    /// One for each text, in their order.
    pub(super) results: Vec<Outputs>,
}

/// The outputs of a text, the best first.
#[derive(Serialize)]
pub(super) struct Outputs {
    pub(super) text: String,
    /// Its tokens that the model has not learned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown: Vec<String>,
    pub(super) outputs: Vec<Output>,
}

#[derive(Serialize)]
pub(super) struct Output {
    text: String,
    tokens: Vec<String>,
    log_probability: f64,
    score: f64,
    /// Whether the model ended it; else it was cut off.
    ended: bool,
}

impl From<ScoredHypothesis> for Output {
    fn from(output: ScoredHypothesis) -> Self {
        Self {
            text: output.text,
            tokens: output.tokens,
            log_probability: output.log_probability,
            score: output.score,
            ended: output.ended,
        }
    }
}
