//! Errors of requests.

use attention_seq2seq::Error;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::answer::as_json;
use super::fields::Fault;
use super::queue::Failed;
use crate::output::{escaped, one_line};

/// An error of a request: its status, and a line.
pub(super) struct Failure {
    status: StatusCode,
    message: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, message: impl ToString) -> Self {
        let message = message.to_string();
        Self { status, message }
    }

    pub(super) fn busy(line: impl ToString) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, line)
    }

    /// The time of the request is over, before or while the model works on it.
    pub(super) fn late() -> Self {
        Self::busy("the request waited too long for the model")
    }

    pub(super) fn unprocessable(line: impl ToString) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, line)
    }

    pub(super) fn too_large(line: impl ToString) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, line)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Form(line) => Self::new(StatusCode::BAD_REQUEST, escaped(&line)),
            Fault::Range(line) => Self::unprocessable(line),
        }
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        match failed {
            // Settings that only a model of another kind can have, and the like.
            Failed::Error(error @ (Error::Config { .. } | Error::UnknownToken { .. })) => {
                Self::unprocessable(one_line(&error))
            }
            Failed::Error(error @ Error::ExplanationTooLarge { .. }) => {
                Self::too_large(one_line(&error))
            }
            // It has an answer only if the time was over, and not if the client was gone.
            Failed::Error(Error::Stopped) => Self::late(),
            Failed::Error(error) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, one_line(&error)),
            Failed::Panicked => {
                let line = "the model panicked; the server's standard error has more";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, line)
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = as_json(&json!({ "error": self.message }));
        *response.status_mut() = self.status;
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
