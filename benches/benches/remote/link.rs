//! A network between a client and a worker, as slow as one likes, which counts what goes through it.
//!
//! A delay of the kernel (`tc`, netem) would do as well, where it has one and lets us.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::cost::Network;

/// The bytes that are sent on at a time.
const CHUNK: usize = 1 << 14;

/// The bytes sent in a step, and how many times an answer was waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) there: f64,
    pub(crate) back: f64,
    pub(crate) answers: f64,
}

/// The traffic of a link so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    there: u64,
    back: u64,
    answers: u64,
}

impl Counts {
    /// The traffic since `before`, divided by a number of steps.
    pub(crate) fn since(self, before: Self, steps: usize) -> Traffic {
        let each = |after: u64, before: u64| (after - before) as f64 / steps as f64;
        Traffic {
            there: each(self.there, before.there),
            back: each(self.back, before.back),
            answers: each(self.answers, before.answers),
        }
    }
}

/// A port of this machine whose connections lead to a worker.
pub(crate) struct Link {
    address: SocketAddr,
    state: Arc<State>,
}

/// The wire at the client, which all links share.
pub(crate) struct Wire {
    network: Network,
    /// When it is free again, there and back.
    free: [Mutex<Instant>; 2],
}

impl Wire {
    pub(crate) fn new(network: Network) -> Arc<Self> {
        Arc::new(Self {
            network,
            free: [(); 2].map(|()| Mutex::new(Instant::now())),
        })
    }

    /// The time at which so many bytes that are sent now are at the other end.
    fn arrival(&self, is_there: bool, bytes: usize) -> Instant {
        let on_wire = Duration::from_secs_f64(8.0 * bytes as f64 / self.network.bits_per_second);
        let free = &self.free[usize::from(is_there)];
        let mut free = free.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *free = (*free).max(Instant::now()) + on_wire;
        *free + self.network.round_trip / 2
    }
}

struct State {
    wire: Arc<Wire>,
    there: AtomicU64,
    back: AtomicU64,
    answers: AtomicU64,
    /// Whether the last bytes were a request's.
    is_waiting: AtomicBool,
}

impl Link {
    pub(crate) fn start(worker: SocketAddr, wire: Arc<Wire>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            wire,
            there: AtomicU64::new(0),
            back: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            is_waiting: AtomicBool::new(false),
        });
        let of_thread = state.clone();
        // The threads end with the connections, and this one with the process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(worker) else {
                    return;
                };
                for (is_there, from, to) in [(true, &client, &server), (false, &server, &client)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                        return;
                    };
                    // A chunk is small beside what a write may wait for.
                    let _ = to.set_nodelay(true);
                    let state = of_thread.clone();
                    thread::spawn(move || state.lead(is_there, from, to));
                }
            }
        });
        Ok(Self { address, state })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn counts(&self) -> Counts {
        let State {
            there,
            back,
            answers,
            ..
        } = &*self.state;
        let [there, back, answers] = [there, back, answers].map(|it| it.load(Ordering::SeqCst));
        Counts {
            there,
            back,
            answers,
        }
    }
}

impl State {
    /// Leads what comes from one end to the other, each chunk once it would be there.
    fn lead(self: Arc<Self>, is_there: bool, mut from: TcpStream, mut to: TcpStream) {
        let (sender, arriving) = mpsc::channel::<(Instant, Vec<u8>)>();
        let deliver = thread::spawn(move || {
            for (at, bytes) in arriving {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
        let mut chunk = vec![0; CHUNK];
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            self.count(is_there, count);
            let at = self.wire.arrival(is_there, count);
            if sender.send((at, chunk[..count].to_vec())).is_err() {
                break;
            }
        }
        drop(sender);
        let _ = deliver.join();
    }

    fn count(&self, is_there: bool, bytes: usize) {
        let bytes = bytes as u64;
        if is_there {
            self.there.fetch_add(bytes, Ordering::SeqCst);
            self.is_waiting.store(true, Ordering::SeqCst);
        } else {
            self.back.fetch_add(bytes, Ordering::SeqCst);
            if self.is_waiting.swap(false, Ordering::SeqCst) {
                self.answers.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}
