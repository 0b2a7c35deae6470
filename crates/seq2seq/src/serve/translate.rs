//! `POST /v1/translate`

use std::sync::Arc;

use attention_seq2seq::text::ReadTokens;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;

use super::answer::{Answer, Outputs, as_json};
use super::failure::Failure;
use super::metrics::Kind;
use super::queue::{Job, Texts};
use super::request::TranslateRequest;
use super::server::{Limits, Server};
use crate::output::one_line;

pub(super) async fn translate(State(server): State<Arc<Server>>, body: Body) -> Response {
    server
        .counted(Kind::Translate, server.translate(body))
        .await
}

impl Server {
    async fn translate(&self, body: Body) -> Result<Response, Failure> {
        let request: TranslateRequest = self.read(body).await?;
        let Limits { texts: most, .. } = self.limits;
        match request.texts.len() {
            0 => {
                let line = "texts: expected at least one, found none";
                return Err(Failure::unprocessable(line));
            }
            found if found > most => {
                let line = format!("texts: expected at most {most} (--max-texts), found {found}");
                return Err(Failure::too_large(line));
            }
            _ => {}
        }
        let search = request.search;
        search
            .check(self.translator.max_len())
            .map_err(|error| Failure::unprocessable(one_line(&error)))?;
        self.translator
            .target_tokens(&search.prefix)
            .map_err(|error| Failure::unprocessable(format!("prefix: {}", one_line(&error))))?;
        let texts = (1..).zip(&request.texts);
        let read = texts
            .map(|(number, text)| self.read_text(&format!("text {number}"), text, request.unknown));
        let read: Vec<ReadTokens> = read.collect::<Result<_, _>>()?;
        let sources = read.iter().map(|read| read.tokens.clone()).collect();
        let texts = Texts { sources, search };
        let outputs = self.result(texts, Job::Translate).await?;
        let results = request.texts.into_iter().zip(read).zip(outputs);
        Ok(as_json(&Answer {
            results: results
                .map(|((text, read), outputs)| Outputs {
                    text,
                    unknown: read.unknown,
                    outputs: outputs.into_iter().map(Into::into).collect(),
                })
                .collect(),
        }))
    }
}
