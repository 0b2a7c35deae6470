//! Paths of the server, and their answers.

use std::sync::Arc;

use attention_seq2seq::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_request_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use super::access::{Hosts, guarded};
use super::answer::{Failure, typed};
use super::metrics::counted;
use super::translate::{Server, TITLE, explain, translate};
use crate::page::{LivePage, Page};

/// The policy of a page: it may run this server's script and send it requests, but make no markup from texts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types 'none'";

/// The paths of a server, for requests that come by one of its hosts.
pub(super) fn routes(server: Server, hosts: Hosts) -> Result<Router> {
    let page = Page::new(TITLE, vec![server.model.clone()]).to_live()?;
    let counting = |kind: &'static str| from_fn_with_state((server.metrics.clone(), kind), counted);
    let [style, script] = [LivePage::STYLE, LivePage::SCRIPT].map(|name| format!("/{name}"));
    let translating = post(translate).route_layer(counting("translate"));
    let explaining = post(explain).route_layer(counting("explain"));
    let router = Router::new()
        .route("/", file("text/html; charset=utf-8", page.html))
        .route(&style, file("text/css; charset=utf-8", page.style))
        .route(&script, file("text/javascript; charset=utf-8", page.script))
        .route("/v1/translate", translating)
        .route("/v1/explain", explaining)
        .route("/healthz", get(health))
        .route("/metrics", get(metrics_text))
        .fallback(|| async { Failure::new(StatusCode::NOT_FOUND, "no such path") })
        .method_not_allowed_fallback(|| async {
            let line = "this path takes another method";
            Failure::new(StatusCode::METHOD_NOT_ALLOWED, line)
        })
        .layer(DefaultBodyLimit::max(server.limits.max_bytes.get()))
        .layer(map_request_with_state(Arc::new(hosts), guarded))
        .layer(map_response(distrusted))
        .with_state(Arc::new(server));
    Ok(router)
}

/// A file of the page.
fn file(kind: &'static str, content: String) -> MethodRouter<Arc<Server>> {
    // Shared by the answers, not copied.
    let content = Bytes::from(content);
    get(move || async move { typed(kind, content) })
}

/// An answer that a browser must not interpret as another type.
async fn distrusted(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn health(State(server): State<Arc<Server>>) -> Response {
    if server.batcher.is_running() {
        "ok\n".into_response()
    } else {
        Failure::busy("the model has stopped").into_response()
    }
}

async fn metrics_text(State(server): State<Arc<Server>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    typed(kind, server.metrics.to_text(server.batcher.requests()))
}
