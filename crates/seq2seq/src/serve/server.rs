//! The parts of an answer that requests have in common.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attention_seq2seq::Translator;
use attention_seq2seq::text::{ReadTokens, UnknownTokens};
use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use http_body_util::LengthLimitError;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::batcher::Batcher;
use super::failure::Failure;
use super::metrics::{Kind, Metrics};
use super::queue::{Awaited, Job};
use super::request::Request;
use crate::output::one_line;
use crate::page::PageModel;

/// The most of what a request may ask for.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) texts: usize,
    /// The most tokens of a text.
    pub(super) tokens: usize,
    pub(super) bytes: usize,
    pub(super) timeout: Duration,
}

pub(super) struct Server {
    pub(super) translator: Arc<Translator>,
    /// The model, as a page shows it.
    pub(super) model: PageModel,
    pub(super) batcher: Batcher,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limits: Limits,
}

impl Server {
    /// The answer to a request, which is counted.
    pub(super) async fn counted(
        &self,
        kind: Kind,
        answer: impl Future<Output = Result<Response, Failure>>,
    ) -> Response {
        let started = Instant::now();
        let response = answer.await.unwrap_or_else(Failure::into_response);
        let status = response.status().as_u16();
        self.metrics.answered(kind, status, started.elapsed());
        response
    }

    /// Reads a request, whole and in time.
    pub(super) async fn read<T: Request>(&self, body: Body) -> Result<T, Failure> {
        let (bytes, limit) = (self.limits.bytes, self.limits.timeout);
        let body = match timeout(limit, to_bytes(body, bytes)).await {
            Err(_) => {
                let seconds = limit.as_secs_f64();
                let line = format!("the request did not arrive within {seconds} s");
                return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, line));
            }
            Ok(Err(error)) => {
                let cause = error.source();
                let is_too_large = cause.is_some_and(|cause| cause.is::<LengthLimitError>());
                return Err(if is_too_large {
                    Failure::too_large(format!("expected at most {bytes} bytes (--max-bytes)"))
                } else {
                    Failure::new(StatusCode::BAD_REQUEST, "the body is broken off")
                });
            }
            Ok(Ok(body)) => body,
        };
        T::read(&body, self.translator.max_len()).map_err(Failure::from)
    }

    /// The tokens of a text that an error calls by this name.
    pub(super) fn read_text(
        &self,
        name: &str,
        text: &str,
        unknown: UnknownTokens,
    ) -> Result<ReadTokens, Failure> {
        let most = self.limits.tokens;
        match self.translator.read_source(text, unknown) {
            Ok(read) if read.tokens.is_empty() => {
                Err(Failure::unprocessable(format!("{name}: no token is known")))
            }
            Ok(read) if read.tokens.len() > most => {
                let found = read.tokens.len();
                Err(Failure::too_large(format!(
                    "{name}: expected at most {most} tokens (--max-tokens), found {found}"
                )))
            }
            Ok(read) => Ok(read),
            Err(error) => {
                let line = format!("{name}: {}", one_line(&error));
                Err(Failure::unprocessable(line))
            }
        }
    }

    /// The result of the model: the work waits for its turn, if there is a place.
    pub(super) async fn result<W, T>(
        &self,
        work: W,
        job: impl FnOnce(Awaited<W, T>) -> Job,
    ) -> Result<T, Failure> {
        let (reply, result) = oneshot::channel();
        let place = self.batcher.place();
        let place = place.ok_or_else(|| Failure::busy("too many requests are waiting"))?;
        let deadline = Instant::now() + self.limits.timeout;
        self.batcher.submit(job(Awaited {
            work,
            deadline,
            reply,
            place,
        }));
        match timeout(self.limits.timeout, result).await {
            Ok(Ok(result)) => result.map_err(Failure::from),
            Ok(Err(_)) if Instant::now() < deadline => Err(Failure::busy("the model has stopped")),
            Ok(Err(_)) | Err(_) => Err(Failure::late()),
        }
    }
}
