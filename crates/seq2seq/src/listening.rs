//! Commands that serve: where they listen, the threads that read and write, and the end.

use std::io;
use std::net::{SocketAddr, TcpListener};

use attention_seq2seq::{Error, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::signal;

/// Listens at an address, and tells it: port 0 takes a free one.
pub(super) fn listen(at: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listen = || {
        let listener = TcpListener::bind(at)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| refused(at, source))
}

/// The error of a server that cannot serve at an address.
pub(super) fn refused(at: SocketAddr, source: io::Error) -> Error {
    Error::io("listen at", at.to_string(), source)
}

/// Threads that read and write. What computes has threads of its own.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

/// Waits until the server is told to stop: by Ctrl-C, or SIGTERM.
#[cfg(unix)]
pub(super) fn stopped() -> io::Result<impl Future<Output = ()>> {
    use signal::unix::{SignalKind, signal};

    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}

#[cfg(not(unix))]
pub(super) fn stopped() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = signal::ctrl_c().await;
    })
}
