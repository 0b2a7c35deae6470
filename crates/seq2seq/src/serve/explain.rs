//! `POST /v1/explain`

use std::sync::Arc;

use attention_seq2seq::Error;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use tokio::task::block_in_place;

use super::answer::json;
use super::failure::Failure;
use super::metrics::Kind;
use super::queue::{Job, Text};
use super::request::ExplainRequest;
use super::server::Server;
use crate::output::one_line;
use crate::page::{Item, Page};

/// The title of the live page.
pub(super) const TITLE: &str = "Attention";

pub(super) async fn explain(State(server): State<Arc<Server>>, body: Body) -> Response {
    server.counted(Kind::Explain, server.explain(body)).await
}

impl Server {
    async fn explain(&self, body: Body) -> Result<Response, Failure> {
        let ExplainRequest {
            source,
            config,
            unknown,
        } = self.read(body).await?;
        if let Err(error) = self.translator.check_explanation(&config) {
            let of_prefix = matches!(error, Error::UnknownToken { .. });
            let what = if of_prefix { "prefix: " } else { "" };
            let line = one_line(&error);
            return Err(Failure::unprocessable(format!("{what}{line}")));
        }
        let read = self.read_text("source", &source, unknown)?;
        let text = Text {
            source: read.tokens.clone(),
            config,
        };
        let explanation = self.result(text, Job::Explain).await?;
        let explanation = explanation.in_text(&self.translator, &read);
        let mut page = Page::new(TITLE, vec![self.model.clone()]);
        page.items.push(Item {
            references: Vec::new(),
            explanations: vec![explanation],
        });
        // Megabytes take their time, in which this thread would read and write nothing else.
        let text = block_in_place(|| page.to_json());
        text.map(json)
            .map_err(|error| Failure::too_large(one_line(&error)))
    }
}
