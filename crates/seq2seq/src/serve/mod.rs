//! `seq2seq serve`

mod access;
mod answer;
mod batcher;
mod connections;
mod metrics;
mod request;
mod routes;
mod translate;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use attention_seq2seq::data::PairFileOptions;
use attention_seq2seq::{DataSource, Error, Result, Translator};
use clap::Args;

use crate::model::Model;
use crate::output::{note, say_to_anyone};
use crate::page::PageModel;
use access::Hosts;
use batcher::Batcher;
use connections::{listen, refused};
use metrics::Metrics;
use translate::Server;

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// The address to listen at; port 0 takes a free one. An address that other machines reach has to be asked for:
    /// requests are neither encrypted nor is it checked whose they are. A proxy before it takes care of that.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// A host by which requests may come besides, as a browser's address has it: translate.example.org, or host:8443.
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    model: Model,
}

/// The most that is taken on.
#[derive(Args)]
struct Limits {
    /// The most texts of a request.
    #[arg(long, value_name = "N", default_value = "256")]
    max_texts: NonZeroUsize,
    /// The most tokens of a text [default: the most that the training allowed].
    #[arg(long, value_name = "N")]
    max_tokens: Option<NonZeroUsize>,
    /// The most bytes of a request.
    #[arg(long, value_name = "N", default_value = "1048576")]
    max_bytes: NonZeroUsize,
    /// The most requests that wait for the model or are under way; others are refused at once.
    #[arg(long, value_name = "N", default_value = "1024")]
    queue: NonZeroUsize,
    /// The most connections at a time; others wait to be taken.
    #[arg(long, value_name = "N", default_value = "1024")]
    max_connections: NonZeroUsize,
    /// The seconds that a request may take to arrive, then to be answered, then for its answer to be read.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: Duration,
}

impl Limits {
    /// The most tokens of a text.
    fn max_tokens(&self, translator: &Translator) -> usize {
        let of_training = match &translator.config().data {
            DataSource::Files { options, .. } => options.max_tokens,
            DataSource::Task { .. } => PairFileOptions::MAX_TOKENS,
        };
        self.max_tokens.map_or(of_training, NonZeroUsize::get)
    }
}

/// A time, of an option.
fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("expected 0.001 to 86400 seconds".to_string());
    }
    Ok(Duration::from_secs_f64(seconds))
}

impl ServeArgs {
    pub(crate) fn run(self) -> Result<()> {
        // An address in use is reported before the model is loaded.
        let (listener, address) = listen(self.listen)?;
        let translator: Arc<Translator> = Arc::new(self.model.load()?);
        if !address.ip().is_loopback() {
            note(format_args!(
                "note: whoever reaches {address} can use the model; requests are not encrypted (put a proxy before it)"
            ));
        }
        let metrics = Arc::new(Metrics::default());
        let (connections, timeout) = (self.limits.max_connections, self.limits.timeout);
        let batcher = Batcher::start(translator.clone(), self.limits.queue, metrics.clone())
            .map_err(|source| Error::io("start", "the thread of the model", source))?;
        let server = Server {
            model: PageModel::new(self.model.name_without_path(), &translator),
            translator,
            batcher,
            metrics,
            limits: self.limits,
        };
        let routes = routes::routes(server, Hosts::new(address, self.allow_host))?;
        say_to_anyone(format_args!("listening at http://{address}"))?;
        connections::serve(listener, routes, connections.get(), timeout)
            .map_err(|source| refused(self.listen, source))?;
        say_to_anyone("stopped")
    }
}
