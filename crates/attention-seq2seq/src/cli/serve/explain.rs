//! `POST /v1/explain`

use std::sync::Arc;

use attention_seq2seq::explain::Explanation;
use attention_seq2seq::page::{Item, Page};
use attention_seq2seq::{Error, ReadTokens};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;

use super::answer::json;
use super::failure::Failure;
use super::metrics::Kind;
use super::queue::{Job, Text};
use super::request::ExplainRequest;
use super::server::Server;
use crate::cli::output::one_line;

/// The title of the live page.
pub(super) const TITLE: &str = "Attention";

/// The most attention weights of an answer: some 5 MB.
const MOST_WEIGHTS: usize = 1_000_000;

pub(super) async fn explain(State(server): State<Arc<Server>>, body: Body) -> Response {
    server.counted(Kind::Explain, server.explain(body)).await
}

impl Server {
    async fn explain(&self, body: Body) -> Result<Response, Failure> {
        let request: ExplainRequest = self.read(body).await?;
        let config = request.config().map_err(Failure::unprocessable)?;
        self.translator
            .check_explanation(&config)
            .map_err(|error| match error {
                Error::UnknownToken { .. } => {
                    Failure::unprocessable(format!("prefix: {}", one_line(&error)))
                }
                error => Failure::unprocessable(one_line(&error)),
            })?;
        let ReadTokens { tokens, .. } =
            self.read_text("source", &request.source, request.unknown)?;
        let text = Text {
            source: tokens,
            config,
        };
        let explanation = self.result(text, Job::Explain).await?;
        check_size(&explanation)?;
        let mut page = Page::new(TITLE, vec![self.model.clone()]);
        page.items.push(Item {
            references: Vec::new(),
            explanations: vec![explanation],
        });
        let text = page.to_json();
        text.map(json)
            .map_err(|error| Failure::too_large(one_line(&error)))
    }
}

/// Checks that an answer is no longer than a browser draws in a moment.
fn check_size(explanation: &Explanation) -> Result<(), Failure> {
    let outputs = explanation.outputs.iter();
    let attentions = outputs.filter_map(|output| output.attention.as_ref());
    let found: usize = attentions.map(|attention| attention.weights.len()).sum();
    if found > MOST_WEIGHTS {
        return Err(Failure::too_large(format!(
            "source: expected at most {MOST_WEIGHTS} attention weights (a smaller n_best has fewer), found {found}"
        )));
    }
    Ok(())
}
