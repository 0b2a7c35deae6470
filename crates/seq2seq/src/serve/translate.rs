//! `POST /v1/translate` and `POST /v1/explain`

use std::sync::Arc;
use std::time::{Duration, Instant};

use attention_seq2seq::text::{ReadTokens, UnknownTokens};
use attention_seq2seq::{Error, Translator};
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::answer::{Failure, Outputs, json};
use super::batcher::Batcher;
use super::metrics::Metrics;
use super::queue::{Awaited, Job};
use super::request::{ExplainRequest, Object, TranslateRequest, read};
use crate::output::one_line;
use crate::page::{Item, Page, PageModel};

/// The title of the live page.
pub(super) const TITLE: &str = "Attention";

/// The most that a request may ask for.
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

pub(super) async fn translate(
    State(server): State<Arc<Server>>,
    request: Request,
) -> Result<Response, Failure> {
    let request: TranslateRequest = server.read(request).await?;
    match (request.texts.len(), server.limits.texts) {
        (0, _) => {
            let line = "texts: expected at least one, found none";
            return Err(Failure::unprocessable(line));
        }
        (found, most) if found > most => {
            let line = format!("texts: expected at most {most} (--max-texts), found {found}");
            return Err(Failure::too_large(line));
        }
        _ => {}
    }
    let max_len = server.translator.max_len();
    let search = request.search.map(|Object(search)| search);
    let search = search.unwrap_or_default().config(max_len)?;
    search.check(max_len)?;
    server
        .translator
        .target_tokens(&search.prefix)
        .map_err(|error| Failure::unprocessable(format!("prefix: {}", one_line(&error))))?;
    let read = (1..)
        .zip(&request.texts)
        .map(|(number, text)| server.read_text(&format!("text {number}"), text, request.unknown));
    let read: Vec<ReadTokens> = read.collect::<Result<_, _>>()?;
    let sources = read.iter().map(|read| read.tokens.clone()).collect();
    let outputs = server.result(sources, search, Job::Translate).await?;
    let texts = request.texts.into_iter().zip(read).zip(outputs);
    let results = texts.map(|((text, read), outputs)| Outputs {
        text,
        unknown: read.unknown,
        outputs,
    });
    let results: Vec<Outputs> = results.collect();
    let results = serde_json::to_string(&results).expect("answers have keys of text alone");
    Ok(json(format!("{{\"results\":{results}}}")))
}

pub(super) async fn explain(
    State(server): State<Arc<Server>>,
    request: Request,
) -> Result<Response, Failure> {
    let mut request: ExplainRequest = server.read(request).await?;
    let config = request.config()?;
    if let Err(error) = server.translator.check_explanation(&config) {
        let of_prefix = matches!(error, Error::UnknownToken { .. });
        let what = if of_prefix { "prefix: " } else { "" };
        let line = one_line(&error);
        return Err(Failure::unprocessable(format!("{what}{line}")));
    }
    let read = server.read_text("source", &request.source, request.unknown)?;
    let sources = vec![read.tokens.clone()];
    let explanation = server.result(sources, config, Job::Explain).await?;
    let explanation = explanation.in_text(&server.translator, &read);
    let mut page = Page::new(TITLE, vec![server.model.clone()]);
    page.items.push(Item {
        references: Vec::new(),
        explanations: vec![explanation],
    });
    // Megabytes take their time, in which this thread would read and write nothing else.
    let text = block_in_place(|| page.to_json());
    text.map(json)
        .map_err(|error| Failure::too_large(one_line(&error)))
}

impl Server {
    /// Reads a request in JSON, whole and in time.
    async fn read<T: DeserializeOwned>(&self, request: Request) -> Result<T, Failure> {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("none");
        let essence = kind.split(';').next().unwrap_or_default().trim();
        // A page of others may send every kind of text but this one without asking first.
        if !essence.eq_ignore_ascii_case("application/json") {
            let line = format!("Content-Type: expected application/json, found {kind}");
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, line));
        }
        let Limits {
            bytes,
            timeout: limit,
            ..
        } = self.limits;
        match timeout(limit, Bytes::from_request(request, &())).await {
            Ok(Ok(body)) => read(&body),
            Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(
                Failure::too_large(format!("expected at most {bytes} bytes (--max-bytes)")),
            ),
            Ok(Err(_)) => Err(Failure::new(
                StatusCode::BAD_REQUEST,
                "the body is broken off",
            )),
            Err(_) => {
                let line = format!(
                    "the request did not arrive within {} s",
                    limit.as_secs_f64()
                );
                Err(Failure::new(StatusCode::REQUEST_TIMEOUT, line))
            }
        }
    }

    /// The tokens of a text that an error calls by this name.
    fn read_text(
        &self,
        name: &str,
        text: &str,
        unknown: Option<UnknownTokens>,
    ) -> Result<ReadTokens, Failure> {
        let most = self.limits.tokens;
        let unknown = unknown.unwrap_or_default();
        match self.translator.read_source(text, unknown) {
            Ok(read) if read.tokens.is_empty() => {
                Err(Failure::unprocessable(format!("{name}: no token is known")))
            }
            Ok(read) if read.tokens.len() > most => Err(Failure::too_large(format!(
                "{name}: expected at most {most} tokens (--max-tokens), found {}",
                read.tokens.len()
            ))),
            Ok(read) => Ok(read),
            Err(error) => {
                let line = format!("{name}: {}", one_line(&error));
                Err(Failure::unprocessable(line))
            }
        }
    }

    /// The result of the model: the sources wait for their turn, if there is a place.
    async fn result<C, T>(
        &self,
        sources: Vec<Vec<String>>,
        config: C,
        job: impl FnOnce(Awaited<C, T>) -> Job,
    ) -> Result<T, Failure> {
        let (reply, result) = oneshot::channel();
        let place = self.batcher.place();
        let place = place.ok_or_else(|| Failure::busy("too many requests are waiting"))?;
        let deadline = Instant::now() + self.limits.timeout;
        self.batcher.submit(job(Awaited {
            sources,
            config,
            deadline,
            reply,
            place,
        }));
        match timeout(self.limits.timeout, result).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) if Instant::now() < deadline => Err(Failure::busy("the model has stopped")),
            Ok(Err(_)) | Err(_) => Err(Error::Stopped.into()),
        }
    }
}
