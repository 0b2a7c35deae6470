//! Streams whose answers have a time to be taken.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose other side has a time to take each answer: from its first byte until all of it is handed over.
///
/// The time of `tokio-io-timeout` begins anew with each byte, so that a client which takes one now and then would keep
/// its connection.
pub(super) struct Deadline<S> {
    stream: S,
    limit: Duration,
    /// The end of the time, while an answer is under way.
    left: Pin<Box<Sleep>>,
    is_writing: bool,
}

impl<S> Deadline<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            left: Box::pin(sleep(limit)),
            is_writing: false,
        }
    }

    /// The result of an attempt to write, or the error that the time is over.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !self.is_writing {
            self.is_writing = true;
            self.left.as_mut().reset(Instant::now() + self.limit);
        }
        if written.is_pending() {
            ready!(self.left.as_mut().poll(context));
            let line = "the answer was not taken in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, line)));
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Deadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Deadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The end of an answer: a server flushes once nothing of it is left.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if let Poll::Ready(Ok(())) = flushed {
            self.is_writing = false;
            return flushed;
        }
        self.in_time(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::runtime::Builder;
    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Runs a test by a clock that stands still, but where all that goes on waits for it.
    fn by_a_paused_clock(test: impl Future<Output = ()>) {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_time().start_paused(true);
        runtime.build().unwrap().block_on(test);
    }

    #[test]
    fn an_answer_that_is_not_read_ends_after_the_time() {
        by_a_paused_clock(async {
            let (server, _client) = duplex(8);
            let mut server = Deadline::new(server, LIMIT);
            // Time before an answer does not count, nor what the system keeps for the client.
            advance(3 * LIMIT).await;
            server.write_all(&[1; 8]).await.unwrap();
            server.flush().await.unwrap();
            advance(3 * LIMIT).await;
            let started = Instant::now();
            let error = server.write_all(&[1; 9]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(started.elapsed() >= LIMIT && started.elapsed() < LIMIT + LIMIT / 30);
        });
    }

    #[test]
    fn an_answer_that_is_read_byte_by_byte_ends_after_the_time() {
        by_a_paused_clock(async {
            let (server, mut client) = duplex(8);
            let mut server = Deadline::new(server, LIMIT);
            let reading = tokio::spawn(async move {
                let mut count = 0;
                while client.read_u8().await.is_ok() {
                    count += 1;
                    tokio::time::sleep(LIMIT / 4).await;
                }
                count
            });
            let error = server.write_all(&[1; 100]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(server);
            // Bytes on their way arrive: 8, and those that made room for others within the time.
            let count = reading.await.unwrap();
            assert!((8..16).contains(&count), "{count}");
        });
    }

    #[test]
    fn answers_that_are_read_take_as_long_as_they_are_many() {
        by_a_paused_clock(async {
            let (server, mut client) = duplex(8);
            let mut server = Deadline::new(server, LIMIT);
            let reading = tokio::spawn(async move {
                let mut answers = 0;
                let mut answer = [0; 16];
                while client.read_exact(&mut answer).await.is_ok() {
                    answers += 1;
                    tokio::time::sleep(LIMIT / 2).await;
                }
                answers
            });
            for _ in 0..10 {
                server.write_all(&[1; 16]).await.unwrap();
                server.flush().await.unwrap();
            }
            drop(server);
            assert_eq!(reading.await.unwrap(), 10);
        });
    }
}
