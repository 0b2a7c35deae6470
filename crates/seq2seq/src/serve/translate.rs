//! `POST /v1/translate` and `POST /v1/explain`

use std::sync::Arc;

use attention_seq2seq::text::{ReadTokens, UnknownTokens};
use attention_seq2seq::{Error, Translator};
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::Limits;
use super::answer::{Failure, Outputs, json};
use super::batcher::Batcher;
use super::metrics::Metrics;
use super::request::{ExplainRequest, TranslateRequest, read};
use crate::output::one_line;
use crate::page::{Item, Page, PageModel};

/// The title of the live page.
pub(super) const TITLE: &str = "Attention";

pub(super) struct Server {
    pub(super) translator: Arc<Translator>,
    /// The model, for display on a page.
    pub(super) model: PageModel,
    pub(super) batcher: Batcher,
    pub(super) metrics: Arc<Metrics>,
    pub(super) limits: Limits,
}

pub(super) async fn translate(
    State(server): State<Arc<Server>>,
    request: Request,
) -> Result<Response, Failure> {
    let request: TranslateRequest = server.read(request).await?;
    let (found, most) = (request.texts.len(), server.limits.max_texts.get());
    if found == 0 {
        let line = "texts: expected at least one, found none";
        return Err(Failure::unprocessable(line));
    }
    if found > most {
        let line = format!("texts: expected at most {most} (--max-texts), found {found}");
        return Err(Failure::too_large(line));
    }
    let max_len = server.translator.max_len();
    let search = request.search.unwrap_or_default().0.config(max_len)?;
    search.check(max_len)?;
    let prefix = server.translator.target_tokens(&search.prefix);
    prefix.map_err(|error| Failure::of("prefix", &error))?;
    let read = (1..)
        .zip(&request.texts)
        .map(|(number, text)| server.read_text(&format!("text {number}"), text, request.unknown));
    let read: Vec<ReadTokens> = read.collect::<Result<_, _>>()?;
    let sources = read.iter().map(|read| read.tokens.clone()).collect();
    let outputs = server.batcher.translate(sources, search);
    let outputs = server.in_time(outputs).await?;
    let texts = request.texts.into_iter().zip(read).zip(outputs);
    let results: Vec<Outputs> = texts
        .map(|((text, read), outputs)| Outputs {
            text,
            unknown: read.unknown,
            outputs,
        })
        .collect();
    let results = serde_json::to_string(&results).expect("answers have keys of text alone");
    Ok(json(format!("{{\"results\":{results}}}")))
}

pub(super) async fn explain(
    State(server): State<Arc<Server>>,
    request: Request,
) -> Result<Response, Failure> {
    let mut request: ExplainRequest = server.read(request).await?;
    let config = request.config()?;
    let checked = server.translator.check_explanation(&config);
    checked.map_err(|error| match error {
        Error::UnknownToken { .. } => Failure::of("prefix", &error),
        error => Failure::from(error),
    })?;
    let read = server.read_text("source", &request.source, request.unknown)?;
    let explanation = server.batcher.explain(read.tokens.clone(), config);
    let explanation = server.in_time(explanation).await?;
    let explanation = explanation.in_text(&server.translator, &read);
    let mut page = Page::new(TITLE, vec![server.model.clone()]);
    page.items.push(Item {
        references: Vec::new(),
        explanations: vec![explanation],
    });
    // Megabytes take time, during which this thread would read and write nothing else.
    let text = block_in_place(|| page.to_json());
    text.map(json)
        .map_err(|error| Failure::too_large(one_line(&error)))
}

impl Server {
    /// Reads a JSON request, complete and in time.
    async fn read<T: DeserializeOwned>(&self, request: Request) -> Result<T, Failure> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("none");
        let essence = kind.split(';').next().unwrap_or_default().trim();
        // Another site's page may send every content type but this one without asking first.
        if !essence.eq_ignore_ascii_case("application/json") {
            let line = format!("Content-Type: expected application/json, found {kind}");
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, line));
        }
        let (bytes, limit) = (self.limits.max_bytes, self.limits.timeout);
        let Ok(body) = timeout(limit, Bytes::from_request(request, &())).await else {
            let seconds = limit.as_secs_f64();
            let line = format!("the request did not arrive within {seconds} s");
            return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, line));
        };
        let body = body.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Failure::too_large(format!("expected at most {bytes} bytes (--max-bytes)"))
            }
            _ => Failure::new(StatusCode::BAD_REQUEST, "the body is broken off"),
        })?;
        read(&body)
    }

    /// The tokens of a text; errors call the text by this name.
    fn read_text(
        &self,
        name: &str,
        text: &str,
        unknown: Option<UnknownTokens>,
    ) -> Result<ReadTokens, Failure> {
        let unknown = unknown.unwrap_or_default();
        let read = self.translator.read_source(text, unknown);
        let read = read.map_err(|error| Failure::of(name, &error))?;
        let (found, most) = (read.tokens.len(), self.limits.max_tokens(&self.translator));
        if found == 0 {
            return Err(Failure::unprocessable(format!("{name}: no token is known")));
        }
        if found > most {
            let line =
                format!("{name}: expected at most {most} tokens (--max-tokens), found {found}");
            return Err(Failure::too_large(line));
        }
        Ok(read)
    }

    /// The result of the model, if it comes in time.
    async fn in_time<T>(
        &self,
        result: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let result = timeout(self.limits.timeout, result).await;
        result.unwrap_or_else(|_| Err(Error::Stopped.into()))
    }
}
