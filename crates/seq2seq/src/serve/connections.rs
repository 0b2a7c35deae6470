//! Connections: accepted, limited, and ended.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use attention_seq2seq::{Error, Result};
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};
use tokio::{signal, time};

use crate::output::note;

/// The time for current requests after the server is told to stop.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// The pause after a failed accept, which happens when file handles are scarce.
const PAUSE: Duration = Duration::from_millis(50);

/// Listens at an address, and returns it; port 0 takes a free one.
pub(super) fn listen(at: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(at);
    let listening = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = listening.map_err(|source| refused(at, source))?;
    Ok((listener, address))
}

/// The error for a server that cannot serve at an address.
pub(super) fn refused(at: SocketAddr, source: io::Error) -> Error {
    Error::io("listen at", at.to_string(), source)
}

/// Serves until Ctrl-C or SIGTERM, then finishes current requests. At most `most` connections are open; a client has
/// `timeout` to send the head of a request, and the same time to take an answer. Computation has threads of its own.
pub(super) fn serve(
    listener: TcpListener,
    routes: Router,
    most: usize,
    timeout: Duration,
) -> io::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(accept(listener, routes, most, timeout))
}

async fn accept(
    listener: TcpListener,
    routes: Router,
    most: usize,
    timeout: Duration,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(most));
    let mut stop = pin!(stopped()?);
    loop {
        let next = async {
            let permit = connections.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                note(format_args!("note: a connection was not accepted: {error}"));
                time::sleep(PAUSE).await;
                continue;
            }
        };
        // Answers are small, and should not wait for each other.
        let _ = stream.set_nodelay(true);
        let connection = connection(stream, routes.clone(), timeout, &graceful);
        tokio::spawn(async move {
            let _permit = permit;
            connection.await;
        });
    }
    drop((listener, routes));
    let ended = time::timeout(LAST_REQUESTS, graceful.shutdown()).await;
    if ended.is_err() {
        note("note: some requests were not answered before the server stopped");
    }
    Ok(())
}

/// Waits until the server is told to stop: by Ctrl-C, or SIGTERM.
fn stopped() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut signals = {
        use signal::unix::{SignalKind, signal};
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = signals.0.recv() => {}
            _ = signals.1.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = signal::ctrl_c().await;
    })
}

/// Answers the requests of a connection. It ends when no request has come for as long as a client has for all parts of
/// one together: sending head and body, waiting for the model, and taking the answer, however slowly it does.
fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    routes: Router,
    timeout: Duration,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + 'static {
    let (asked, mut requests) = watch::channel(());
    let service = TowerToHyperService::new(routes);
    let service = service_fn(move |request| {
        asked.send_replace(());
        service.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .max_headers(64)
        .max_buf_size(1 << 16);
    let answers = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
    async move {
        let silence = async {
            while let Ok(Ok(())) = time::timeout(4 * timeout, requests.changed()).await {}
        };
        // A client that does not send HTTP, does not take its answer or disconnects is ignored.
        tokio::select! {
            _ = answers => {}
            () = silence => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// The seconds that a connection lasts whose client does this, by a clock that stands still but where all that
    /// goes on waits for it.
    fn seconds_of<C: Future<Output = ()> + Send + 'static>(
        client: impl FnOnce(DuplexStream) -> C,
    ) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(async {
            let (server, stream) = duplex(64);
            let routes = Router::new().route("/", get(|| async { "a".repeat(1000) }));
            let started = Instant::now();
            tokio::spawn(client(stream));
            connection(server, routes, LIMIT, &GracefulShutdown::new()).await;
            started.elapsed().as_secs()
        })
    }

    #[test]
    fn answers_that_are_not_taken_in_time_end_a_connection() {
        let deaf = |mut stream: DuplexStream| async move {
            let _ = stream.write_all(REQUEST).await;
            sleep(100 * LIMIT).await;
        };
        assert_eq!(seconds_of(deaf), 4 * LIMIT.as_secs());
        // Byte by byte.
        let slow = |mut stream: DuplexStream| async move {
            let _ = stream.write_all(REQUEST).await;
            while stream.read_u8().await.is_ok() {
                sleep(LIMIT / 4).await;
            }
        };
        assert_eq!(seconds_of(slow), 4 * LIMIT.as_secs());
        // The head of a request that never comes.
        let silent = |stream: DuplexStream| async move {
            sleep(100 * LIMIT).await;
            drop(stream);
        };
        assert_eq!(seconds_of(silent), LIMIT.as_secs());
    }

    #[test]
    fn a_connection_lasts_as_long_as_its_answers_are_taken() {
        let patient = |mut stream: DuplexStream| async move {
            for _ in 0..20 {
                stream.write_all(REQUEST).await.unwrap();
                let mut answer = Vec::new();
                while !answer.ends_with(&[b'a'; 1000]) {
                    assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
                }
                sleep(LIMIT / 2).await;
            }
        };
        assert_eq!(seconds_of(patient), 10 * LIMIT.as_secs());
    }
}
