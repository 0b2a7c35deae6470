//! Metrics of a server, for Prometheus.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Names of labels, and their values.
type Labels<const N: usize> = [(&'static str, String); N];

pub(super) struct Metrics {
    requests: Family<Labels<2>, Counter>,
    seconds: Family<Labels<1>, Histogram>,
    /// The number of sources that are translated at once.
    pub(super) sources: Histogram,
    waiting: Gauge,
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        // From a millisecond to half a minute.
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let mut metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            sources: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            waiting: Gauge::default(),
            registry: Registry::with_prefix("seq2seq"),
        };
        let registry = &mut metrics.registry;
        let help = "Requests for translations and explanations, by status";
        registry.register("requests", help, metrics.requests.clone());
        let help = "Seconds from a request to its answer";
        registry.register("request_seconds", help, metrics.seconds.clone());
        let help = "Sources translated at once";
        registry.register("batch_sources", help, metrics.sources.clone());
        let help = "Requests that wait for the model or are under way";
        registry.register("waiting", help, metrics.waiting.clone());
        metrics
    }
}

impl Metrics {
    /// All metrics, in the text format of OpenMetrics.
    pub(super) fn to_text(&self, waiting: usize) -> String {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes any text");
        text
    }
}

/// The answer to a request of a kind, `translate` or `explain`, which is counted.
pub(super) async fn counted(
    State((metrics, kind)): State<(Arc<Metrics>, &'static str)>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    let kind = [("kind", kind.to_string())];
    let seconds = metrics.seconds.get_or_create_owned(&kind);
    seconds.observe(started.elapsed().as_secs_f64());
    let ([kind], requests) = (kind, &metrics.requests);
    requests.get_or_create(&[kind, ("status", status)]).inc();
    response
}
