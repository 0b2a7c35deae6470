//! Connections: accepted, limited, and ended.

use std::io;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time;

use super::deadline::Deadline;
use crate::listening::{runtime, stopped};
use crate::output::note;

/// The time that requests under way have once the server is told to stop.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// The pause after an accept that failed, as one does where files are scarce.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until Ctrl-C or SIGTERM, then ends what is under way. At most `most` connections are open; a client has
/// `timeout` to send the head of a request, and as long to take an answer.
pub(super) fn serve(
    listener: TcpListener,
    routes: Router,
    most: usize,
    timeout: Duration,
) -> io::Result<()> {
    runtime()?.block_on(accept(listener, routes, most, timeout))
}

async fn accept(
    listener: TcpListener,
    routes: Router,
    most: usize,
    timeout: Duration,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .max_headers(64)
        .max_buf_size(1 << 16);
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
        let stream: TcpStream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                note(format_args!("note: a connection was not accepted: {error}"));
                time::sleep(PAUSE).await;
                continue;
            }
        };
        // Answers are small: they are not to wait for each other.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(routes.clone());
        let stream = TokioIo::new(Deadline::new(stream, timeout));
        let connection = http.serve_connection(stream, service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _permit = permit;
            // A client that sends no HTTP, takes no answer or goes away is its own affair.
            let _ = connection.await;
        });
    }
    drop((listener, routes));
    if time::timeout(LAST_REQUESTS, graceful.shutdown())
        .await
        .is_err()
    {
        note("note: some requests were not answered before the server stopped");
    }
    Ok(())
}
