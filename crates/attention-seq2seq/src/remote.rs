//! Devices of workers: `seq2seq worker`, on this machine or another.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use attention_core::remote::{WorkerError, connect, kernel_calls};
use burn::remote::RemoteHost;
use burn::tensor::Device;

use crate::error::{Error, Result};
use crate::probe::{compute_once, silently};

/// The time that a worker has to open a session and compute something in it.
const SESSION: Duration = Duration::from_secs(20);

/// The time that who computes has to find out by itself that the connection is lost.
const GRACE: Duration = Duration::from_secs(10);

/// The time between two questions to a worker, whether it is there.
const PAUSE: Duration = Duration::from_secs(1);

/// The address of a worker, and the number of the device among its own: `ws://HOST:PORT`, or `ws://HOST:PORT/N`.
///
/// ```
/// use attention_seq2seq::WorkerAddress;
///
/// let address: WorkerAddress = "ws://gpu.local:3000/1".parse()?;
/// assert_eq!(address.to_string(), "ws://gpu.local:3000/1");
/// let error = "ws://gpu.local".parse::<WorkerAddress>().unwrap_err();
/// assert!(error.to_string().contains("expected ws://HOST:PORT"));
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerAddress {
    host: String,
    port: u16,
    index: usize,
}

impl WorkerAddress {
    /// The beginning of every address.
    pub const SCHEME: &str = "ws://";

    /// Whether a device of this name is that of a worker: an address, a right one or not.
    pub fn is_meant_by(device: &str) -> bool {
        device.contains("://")
    }

    /// The address without the number of a device, as Burn takes it.
    fn url(&self) -> String {
        format!("{}{}:{}", Self::SCHEME, self.host, self.port)
    }

    /// Opens a connection, and closes it: the quickest way to know that nobody listens.
    fn knock(&self, timeout: Duration) -> io::Result<()> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut refused = io::Error::other("the name of the host has no address");
        for address in (host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(_) => return Ok(()),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl FromStr for WorkerAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = || {
            let rest = text.strip_prefix(Self::SCHEME)?;
            let (place, index) = match rest.split_once('/') {
                Some((place, "")) => (place, 0),
                Some((place, index)) => (place, index.parse().ok()?),
                None => (rest, 0),
            };
            let (host, port) = place.rsplit_once(':')?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let is_v6 = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
            let is_host = is_v6 || !host.is_empty() && host.chars().all(is_name);
            let port = port.parse().ok().filter(|port| *port > 0)?;
            let host = host.to_ascii_lowercase();
            is_host.then_some(Self { host, port, index })
        };
        parsed().ok_or_else(|| {
            let expected = "ws://HOST:PORT, or ws://HOST:PORT/N for the N-th of a worker's devices";
            Error::config("the address of a worker", expected, format!("{text:?}"))
        })
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())?;
        match self.index {
            0 => Ok(()),
            index => write!(f, "/{index}"),
        }
    }
}

/// Opens the device of a worker, with the worker's kernels.
///
/// # Errors
/// [`Error::DeviceUnavailable`] if there is no worker of this version, or it does not answer in time.
pub(crate) fn open(address: &WorkerAddress) -> Result<Device> {
    let unavailable = |reason: String| Error::DeviceUnavailable {
        name: address.to_string(),
        reason: reason.replace('\n', " "),
    };
    let nobody = |error| {
        unavailable(format!(
            "no worker is there ({error}); `seq2seq worker --listen ADDRESS` starts one"
        ))
    };
    address.knock(SESSION / 4).map_err(nobody)?;
    session(address, RemoteHost::websocket(&address.url())).map_err(unavailable)
}

/// Opens a session and computes in it once, in a thread of its own: Burn waits without an end for a worker that takes
/// the connection and says nothing.
fn session(address: &WorkerAddress, host: RemoteHost) -> std::result::Result<Device, String> {
    let (sender, receiver) = mpsc::channel();
    let index = address.index;
    let begin = move || {
        let device = connect(&host, index).map_err(|error| error.to_string());
        let device = device.and_then(|device| compute_once(&device).map(|()| device));
        // Nobody may be waiting any more.
        let _ = sender.send(device);
    };
    let opened = silently(|| {
        let started = thread::Builder::new().spawn(begin);
        started.map(|_| receiver.recv_timeout(SESSION))
    });
    match opened.map_err(|error| format!("no thread can be started: {error}"))? {
        Ok(device) => device,
        Err(RecvTimeoutError::Timeout) => Err(format!(
            "whoever listens there does not answer as a worker within {} s",
            SESSION.as_secs()
        )),
        // The thread panicked, as Burn does where a connection breaks at once.
        Err(RecvTimeoutError::Disconnected) => Err("the connection broke off".to_string()),
    }
}

/// A watch on a worker, by a session of its own.
#[derive(Debug)]
pub struct WorkerWatch {
    address: WorkerAddress,
}

impl WorkerWatch {
    /// Asks the worker again and again whether it is there, and tells `on_loss` once it is not: there was no answer for
    /// `timeout`, or the connection is lost, and nobody who computes has ended the program in the seconds after.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`] if the worker opens no further session.
    pub fn start(
        address: WorkerAddress,
        timeout: Duration,
        on_loss: impl FnOnce(Error) + Send + 'static,
    ) -> Result<Self> {
        // Another credential is another session to Burn; a worker does not look at it.
        let host = RemoteHost::websocket(&address.url()).with_credential("watch");
        let unavailable = |reason| Error::DeviceUnavailable {
            name: address.to_string(),
            reason,
        };
        let device = session(&address, host).map_err(unavailable)?;
        let no_thread = |error: io::Error| unavailable(error.to_string());
        let (answers, answered) = mpsc::channel();
        let ask = move || {
            while answers.send(None).is_ok() {
                let answer = kernel_calls(&device).map(|_| ());
                if answers.send(Some(answer)).is_err() {
                    break;
                }
                thread::sleep(PAUSE);
            }
        };
        thread::Builder::new().spawn(ask).map_err(no_thread)?;
        let lost = address.clone();
        let wait = move || {
            loop {
                let reason = match next_answer(&answered, timeout) {
                    Ok(Some(Ok(()))) => continue,
                    Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                        thread::sleep(GRACE);
                        CLOSED.to_string()
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        format!("it has not answered for {} s", timeout.as_secs_f64())
                    }
                };
                return on_loss(Error::WorkerLost {
                    address: lost.to_string(),
                    reason,
                });
            }
        };
        thread::Builder::new().spawn(wait).map_err(no_thread)?;
        Ok(Self { address })
    }

    /// The loss of the worker, if it is lost or has ended the session, after a failure that says no more than that
    /// there was one.
    pub fn loss(&self, failure: &str) -> Option<Error> {
        let reason = match self.address.knock(SESSION / 4) {
            Err(_) => CLOSED,
            Ok(()) if is_of_session(failure) => "it ended the session, and said why where it runs",
            Ok(()) => return None,
        };
        Some(Error::WorkerLost {
            address: self.address.to_string(),
            reason: reason.to_string(),
        })
    }
}

const CLOSED: &str = "the connection was closed";

/// None before a question, the worker's answer after it.
type Asked = Option<std::result::Result<(), WorkerError>>;

/// Waits for the next question, and `timeout` for the answer to it.
fn next_answer(
    asked: &Receiver<Asked>,
    timeout: Duration,
) -> std::result::Result<Asked, RecvTimeoutError> {
    // However long it takes until the worker is asked again: that is no time of the worker's.
    asked.recv()?;
    match asked.recv_timeout(timeout) {
        // This process may have been stopped in the meantime, and the answer be about to be read.
        Err(RecvTimeoutError::Timeout) => asked.recv_timeout(PAUSE),
        answer => answer,
    }
}

/// Whether Burn 0.22.1 says this of a session that has ended.
fn is_of_session(failure: &str) -> bool {
    const SAID: [&str; 4] = [
        "Failed to read tensor",
        "Remote response channel closed",
        "Service call failed",
        "Failed to open a remote session",
    ];
    SAID.iter().any(|said| failure.contains(said))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_is_a_host_a_port_and_a_device() {
        let parsed = |text: &str| text.parse::<WorkerAddress>();
        for (text, shown) in [
            ("ws://127.0.0.1:3000", "ws://127.0.0.1:3000"),
            ("ws://GPU.local:3000/", "ws://gpu.local:3000"),
            ("ws://[::1]:3000/2", "ws://[::1]:3000/2"),
        ] {
            assert_eq!(parsed(text).expect("an address").to_string(), shown);
        }
        for wrong in [
            "ws://",
            "ws://localhost",
            "ws://:3000",
            "ws://localhost:0",
            "ws://localhost:70000",
            "ws://localhost:3000/x",
            "ws://localhost:3000/1/2",
            "ws://user@localhost:3000",
            "ws://[::1:3000",
            "ws://a b:3000",
            "wss://localhost:3000",
        ] {
            let error = parsed(wrong).expect_err(wrong).to_string();
            assert!(error.contains("expected ws://HOST:PORT"), "{error}");
            assert!(error.ends_with(&format!("found {wrong:?}")), "{error}");
        }
    }

    #[test]
    fn an_answer_that_lies_there_is_in_time() {
        let (answers, asked) = mpsc::channel();
        let next = || next_answer(&asked, Duration::ZERO);
        answers.send(None).expect("it is received");
        answers.send(Some(Ok(()))).expect("it is received");
        assert!(matches!(next(), Ok(Some(Ok(())))));
        answers.send(None).expect("it is received");
        assert!(matches!(next(), Err(RecvTimeoutError::Timeout)));
        drop(answers);
        assert!(matches!(next(), Err(RecvTimeoutError::Disconnected)));
    }

    #[test]
    fn nobody_there_is_one_line() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        drop(listener);
        let address = format!("ws://{address}").parse().expect("an address");
        let error = open(&address).expect_err("nobody listens").to_string();
        assert!(error.contains("no worker is there"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}
