//! The cost of a step on several machines.

/// A link between machines.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    /// The time of a message without bytes, in milliseconds.
    pub delay: f64,
    /// Bytes a millisecond.
    pub rate: f64,
}

impl Link {
    /// The milliseconds of a ring all-reduce: 2 (N - 1) messages one after the other, each with 1/N of the bytes.
    pub(crate) fn all_reduce(self, machines: usize, bytes: usize) -> f64 {
        let message = self.delay + bytes as f64 / machines as f64 / self.rate;
        2.0 * (machines - 1) as f64 * message
    }
}

/// The parts of a step, in milliseconds.
pub(crate) struct Cost {
    batch: f64,
    bytes: usize,
    /// Whatever the batch: also the step of the optimizer.
    fixed: f64,
    /// The work for an example that threads do not share.
    serial: f64,
    /// The work for an example that threads share.
    shared: f64,
    /// The sum in memory, and the wait for the slower process.
    exchange: f64,
}

impl Cost {
    /// The parts that explain measured steps: of one thread, of one with half the batch, of two threads. `exchange` is
    /// measured as it is.
    pub(crate) fn fit(
        batch: usize,
        bytes: usize,
        [one_thread, half_batch, two_threads]: [f64; 3],
        exchange: f64,
    ) -> Self {
        let batch = batch as f64;
        let of_example = 2.0 * (one_thread - half_batch) / batch;
        let shared = 2.0 * (one_thread - two_threads) / batch;
        let shared = shared.max(0.0).min(of_example);
        Self {
            batch,
            bytes,
            fixed: (one_thread - of_example * batch).max(0.0),
            serial: of_example - shared,
            shared,
            exchange,
        }
    }

    /// A step with this number of examples on each of several machines.
    fn step(&self, examples: f64, machines: usize, cores: usize, link: Link) -> f64 {
        let alone = self.fixed + examples * (self.serial + self.shared / cores as f64);
        match machines {
            1 => alone,
            _ => alone + self.exchange + link.all_reduce(machines, self.bytes),
        }
    }

    /// The steps of several machines by one's: with the batch divided among them, and with a batch for each.
    fn gains(&self, machines: usize, cores: usize, link: Link) -> [f64; 2] {
        let one = self.step(self.batch, 1, cores, link);
        let number = machines as f64;
        let divided = self.step(self.batch / number, machines, cores, link);
        let each = self.step(self.batch, machines, cores, link);
        [one / divided, number * one / each]
    }

    /// Prints the parts, the step of two processes over the link beside the measured one, and what machines gain.
    pub(crate) fn print(&self, link: Link, linked: f64) {
        println!(
            "  fitted: {:.2} ms + {} examples of ({:.4} + {:.4} / threads) ms; {:.2} ms between processes",
            self.fixed, self.batch, self.serial, self.shared, self.exchange
        );
        let predicted = self.step(self.batch / 2.0, 2, 1, link);
        println!("  over the link: predicted {predicted:.1} ms, measured {linked:.1}");
        for cores in [2, 32] {
            let gains = [2, 8, 32].map(|machines| {
                let [divided, each] = self.gains(machines, cores, link);
                format!("{machines}: {divided:.2} ({each:.2})")
            });
            println!(
                "  predicted steps on machines of {cores} cores by one's, a batch divided (a batch each): {}",
                gains.join(", ")
            );
        }
    }
}
