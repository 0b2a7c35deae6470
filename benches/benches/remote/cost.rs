//! A model of the time of a step on several machines.
//!
//! `step = fixed + batch / machines * share + exchange + bytes / bandwidth + answers * round trip`
//!
//! `fixed` and `share` are fitted to a worker over the loopback interface with a batch and with half of it. Parameters
//! and gradients are exchanged `1 + 3 (machines - 1)` times: read from the first machine, sent to the others, read from
//! them, sent to the first. These phases follow each other on the client's wire, so that both directions add up. The
//! cost of an exchange beside the wire, packing and copying, is fitted to two workers. The machines compute and answer
//! at the same time.

use std::fmt;
use std::time::Duration;

use crate::link::Traffic;

/// A network, on which all machines are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) round_trip: Duration,
    pub(crate) bits_per_second: f64,
}

impl Network {
    /// The loopback interface: a link adds nothing.
    pub(crate) const LOOPBACK: Self = Self {
        round_trip: Duration::ZERO,
        bits_per_second: f64::INFINITY,
    };
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            round_trip,
            bits_per_second,
        } = self;
        let milliseconds = 1e3 * round_trip.as_secs_f64();
        let megabits = 1e-6 * bits_per_second;
        write!(f, "{megabits} Mbit/s and a round trip of {milliseconds} ms")
    }
}

/// The costs of a step, in seconds and bytes.
#[derive(Debug)]
pub(crate) struct Cost {
    fixed: f64,
    /// Cost of an example.
    share: f64,
    /// Cost of sending the parameters once, beside the network's.
    exchange: f64,
    /// Bytes of requests to a machine and of its answers, parameters and gradients aside.
    requests: f64,
    /// The bytes of the parameters.
    parameters: f64,
    /// The answers that are waited for, of one machine, and of several one after the other.
    answers: [f64; 2],
}

impl Cost {
    /// The costs of a step of `batch` examples, from the time on a worker, there with half of them, and on two workers,
    /// and from what the first and the second of these send.
    pub(crate) fn fit(
        batch: usize,
        one: Duration,
        half: Duration,
        two: Duration,
        [of_one, of_two]: [&[Traffic]; 2],
    ) -> Self {
        let [one, half, two] = [one, half, two].map(|it| it.as_secs_f64());
        let share = ((one - half) / (batch as f64 / 2.0)).max(1e-9);
        // The second of two sends gradients, and hardly anything else.
        let parameters = of_two[1].back;
        let most = |traffic: &[Traffic]| traffic.iter().map(|it| it.answers).fold(0.0, f64::max);
        Self {
            fixed: (one - share * batch as f64).max(0.0),
            share,
            exchange: ((two - half) / 4.0).max(0.0),
            requests: of_one[0].there + of_one[0].back,
            parameters,
            answers: [most(of_one), of_two.iter().map(|it| it.answers).sum()],
        }
    }

    /// The seconds of a step.
    pub(crate) fn step(&self, batch: usize, machines: usize, network: Network) -> f64 {
        self.fixed + self.share * batch as f64 / machines as f64 + self.beside(machines, network)
    }

    /// The batch from which on so many machines are as fast as one.
    pub(crate) fn batch_that_pays(&self, machines: usize, network: Network) -> f64 {
        let more = self.beside(machines, network) - self.beside(1, network);
        more / (self.share * (1.0 - 1.0 / machines as f64))
    }

    /// The part that the size of the batch does not change.
    fn beside(&self, machines: usize, network: Network) -> f64 {
        let times = match machines {
            1 => 0.0,
            _ => (1 + 3 * (machines - 1)) as f64,
        };
        let answers = self.answers[usize::from(machines > 1)];
        let bytes = self.requests * machines as f64 + times * self.parameters;
        times * self.exchange
            + 8.0 * bytes / network.bits_per_second
            + answers * network.round_trip.as_secs_f64()
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            fixed,
            share,
            exchange,
            requests,
            parameters,
            answers: [alone, of_several],
        } = self;
        write!(
            f,
            "cost of a step: {:.1} ms, {:.3} ms an example, {:.1} kB, {alone:.1} answers (of several machines \
             {of_several:.1}); parameters {:.1} kB, {:.2} ms each time",
            1e3 * fixed,
            1e3 * share,
            1e-3 * requests,
            1e-3 * parameters,
            1e3 * exchange
        )
    }
}
