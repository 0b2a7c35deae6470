//! Paths of the server, and what is answered there.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attention_seq2seq::{Error, ReadTokens, Translator};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::LengthLimitError;
use serde::Serialize;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answer::{Answer, Outputs};
use super::batcher::{Batcher, Failed, Job};
use super::metrics::Metrics;
use super::request::Request;
use crate::cli::output::one_line;

/// The most of what a request may ask for.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) texts: usize,
    /// Those of a text.
    pub(super) tokens: usize,
    pub(super) bytes: usize,
    pub(super) timeout: Duration,
}

struct Server {
    translator: Arc<Translator>,
    batcher: Batcher,
    metrics: Arc<Metrics>,
    limits: Limits,
}

/// The paths of a server.
pub(super) fn routes(
    translator: Arc<Translator>,
    batcher: Batcher,
    metrics: Arc<Metrics>,
    limits: Limits,
) -> Router {
    let server = Server {
        translator,
        batcher,
        metrics,
        limits,
    };
    Router::new()
        .route("/v1/translate", post(translate))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics_text))
        .fallback(|| async { Failure::new(StatusCode::NOT_FOUND, "no such path") })
        .method_not_allowed_fallback(|| async {
            Failure::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path takes another method",
            )
        })
        .with_state(Arc::new(server))
}

/// An error of a request.
struct Failure {
    status: StatusCode,
    message: String,
}

impl Failure {
    fn new(status: StatusCode, message: impl ToString) -> Self {
        let message = message.to_string();
        Self { status, message }
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

fn as_json(value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).expect("answers have keys of text alone");
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], text).into_response()
}

async fn health(State(server): State<Arc<Server>>) -> Response {
    match server.batcher.is_running() {
        true => "ok\n".into_response(),
        false => busy("the model has stopped").into_response(),
    }
}

async fn metrics_text(State(server): State<Arc<Server>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let text = server.metrics.to_text(server.batcher.jobs());
    (
        [(header::CONTENT_TYPE, HeaderValue::from_static(kind))],
        text,
    )
        .into_response()
}

async fn translate(State(server): State<Arc<Server>>, body: Body) -> Response {
    let started = Instant::now();
    let response = match server.translate(body).await {
        Ok(answer) => as_json(&answer),
        Err(failure) => failure.into_response(),
    };
    let status = response.status().as_u16();
    server.metrics.answered(status, started.elapsed());
    response
}

impl Server {
    async fn translate(&self, body: Body) -> Result<Answer, Failure> {
        let request = self.read(body).await?;
        let search = request.search.config(self.translator.max_len());
        let search = search.map_err(unprocessable)?;
        self.translator
            .target_tokens(&search.prefix)
            .map_err(|error| unprocessable(format!("prefix: {}", one_line(&error))))?;
        let read: Vec<ReadTokens> = (1..)
            .zip(&request.texts)
            .map(|(number, text)| {
                let read = self.translator.read_source(text, request.unknown);
                match read {
                    Ok(read) if read.tokens.is_empty() => {
                        Err(unprocessable(format!("text {number}: no token is known")))
                    }
                    Ok(read) if read.tokens.len() > self.limits.tokens => {
                        let Limits { tokens: most, .. } = self.limits;
                        let found = read.tokens.len();
                        let line = format!(
                            "text {number}: expected at most {most} tokens (--max-tokens), found {found}"
                        );
                        Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, line))
                    }
                    Ok(read) => Ok(read),
                    Err(error) => Err(unprocessable(format!(
                        "text {number}: {}",
                        one_line(&error)
                    ))),
                }
            })
            .collect::<Result<_, _>>()?;
        let (reply, outputs) = oneshot::channel();
        let place = self.batcher.place();
        let place = place.ok_or_else(|| busy("too many requests are waiting"))?;
        let deadline = Instant::now() + self.limits.timeout;
        let job = Job {
            sources: read.iter().map(|read| read.tokens.clone()).collect(),
            search,
            deadline,
            reply,
            _place: place,
        };
        self.batcher.submit(job);
        let outputs = match timeout(self.limits.timeout, outputs).await {
            Ok(Ok(outputs)) => outputs.map_err(|failed| match failed {
                // Settings that only a model of another kind can have, and the like.
                Failed::Error(error @ (Error::Config { .. } | Error::UnknownToken { .. })) => {
                    unprocessable(one_line(&error))
                }
                Failed::Error(error) => {
                    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, one_line(&error))
                }
                Failed::Panicked => {
                    let line = "the model panicked; the server's standard error has more";
                    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, line)
                }
            })?,
            Ok(Err(_)) if Instant::now() < deadline => return Err(busy("the model has stopped")),
            Ok(Err(_)) | Err(_) => return Err(busy("the request waited too long for the model")),
        };
        let results = request.texts.into_iter().zip(read).zip(outputs);
        Ok(Answer {
            results: results
                .map(|((text, read), outputs)| Outputs {
                    text,
                    unknown: read.unknown,
                    outputs: outputs.into_iter().map(Into::into).collect(),
                })
                .collect(),
        })
    }

    /// Reads a request, whole and in time.
    async fn read(&self, body: Body) -> Result<Request, Failure> {
        let Limits {
            texts,
            bytes,
            timeout: limit,
            ..
        } = self.limits;
        let too_large = || {
            let line = format!("expected at most {bytes} bytes (--max-bytes)");
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, line)
        };
        let body = match timeout(limit, to_bytes(body, bytes)).await {
            Err(_) => {
                let line = format!(
                    "the request did not arrive within {} s",
                    limit.as_secs_f64()
                );
                return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, line));
            }
            Ok(Err(error)) => {
                let cause = error
                    .source()
                    .is_some_and(|cause| cause.is::<LengthLimitError>());
                return Err(match cause {
                    true => too_large(),
                    false => Failure::new(StatusCode::BAD_REQUEST, "the body is broken off"),
                });
            }
            Ok(Ok(body)) => body,
        };
        let request: Request = serde_json::from_slice(&body)
            .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, error))?;
        match request.texts.len() {
            0 => Err(unprocessable("texts: expected at least one, found none")),
            found if found > texts => {
                let line = format!("texts: expected at most {texts} (--max-texts), found {found}");
                Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, line))
            }
            _ => Ok(request),
        }
    }
}

fn busy(line: impl ToString) -> Failure {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, line)
}

fn unprocessable(line: impl ToString) -> Failure {
    Failure::new(StatusCode::UNPROCESSABLE_ENTITY, line)
}
