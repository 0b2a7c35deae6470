//! Answers to requests.

use attention_seq2seq::Error;
use attention_seq2seq::translate::ScoredHypothesis;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::output::one_line;

/// Content with its type for the header.
pub(super) fn typed(kind: &'static str, content: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], content).into_response()
}

pub(super) fn json(text: String) -> Response {
    typed("application/json", text)
}

/// The outputs of a text, the best first, in the answer to `POST /v1/translate`.
#[derive(Serialize)]
pub(super) struct Outputs {
    pub(super) text: String,
    /// The tokens of the text that the model has not learned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown: Vec<String>,
    pub(super) outputs: Vec<ScoredHypothesis>,
}

/// An error of a request: its status, and a line.
#[derive(Debug, PartialEq)]
pub(super) struct Failure(StatusCode, String);

impl Failure {
    pub(super) fn new(status: StatusCode, line: impl Into<String>) -> Self {
        Self(status, line.into())
    }

    pub(super) fn busy(line: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, line)
    }

    pub(super) fn unprocessable(line: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, line)
    }

    pub(super) fn too_large(line: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, line)
    }

    /// The error for the part of a request with this name.
    pub(super) fn of(name: &str, error: &Error) -> Self {
        Self::unprocessable(format!("{name}: {}", one_line(error)))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error {
            // Settings that only another kind of model supports, and similar errors.
            Error::Config { .. } | Error::UnknownToken { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Error::ExplanationTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            // A client that has gone gets no answer; one whose time is over does.
            Error::Stopped => return Self::busy("the request waited too long for the model"),
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, one_line(&error))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self(status, line) = self;
        let retry =
            (status == StatusCode::SERVICE_UNAVAILABLE).then_some([(header::RETRY_AFTER, "1")]);
        (status, retry, json(json!({ "error": line }).to_string())).into_response()
    }
}
