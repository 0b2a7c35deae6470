//! Figures of a server, for Prometheus.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The figures.
pub(super) struct Metrics {
    requests: Family<Answered, Counter>,
    seconds: Family<Asked, Histogram>,
    sources: Histogram,
    waiting: Gauge,
    registry: Mutex<Registry>,
}

/// The kind of a request: what it asks the model for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Translate,
    Explain,
}

impl EncodeLabelValue for Kind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        let name = match self {
            Self::Translate => "translate",
            Self::Explain => "explain",
        };
        name.encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    kind: Kind,
    status: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        let requests = Family::default();
        // From a millisecond to half a minute.
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let seconds = Family::new_with_constructor(seconds);
        let sources = Histogram::new(exponential_buckets(1.0, 2.0, 10));
        let waiting = Gauge::default();
        let mut registry = Registry::with_prefix("seq2seq");
        registry.register(
            "requests",
            "Requests for translations and explanations, by status",
            requests.clone(),
        );
        registry.register(
            "request_seconds",
            "Seconds from a request to its answer",
            seconds.clone(),
        );
        registry.register(
            "batch_sources",
            "Sources translated at once",
            sources.clone(),
        );
        registry.register(
            "waiting",
            "Requests that wait for the model or are under way",
            waiting.clone(),
        );
        Self {
            requests,
            seconds,
            sources,
            waiting,
            registry: Mutex::new(registry),
        }
    }
}

impl Metrics {
    /// A request was answered.
    pub(super) fn answered(&self, kind: Kind, status: u16, after: Duration) {
        self.requests
            .get_or_create(&Answered { kind, status })
            .inc();
        let seconds = self.seconds.get_or_create(&Asked { kind });
        seconds.observe(after.as_secs_f64());
    }

    /// So many sources were translated at once.
    pub(super) fn batch_translated(&self, sources: usize) {
        self.sources.observe(sources as f64);
    }

    /// All figures, in the text format of OpenMetrics.
    pub(super) fn to_text(&self, waiting: usize) -> String {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes any text");
        text
    }
}
