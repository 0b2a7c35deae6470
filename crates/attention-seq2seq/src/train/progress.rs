//! Progress on a plain terminal, or in a log.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::run::{Epoch, Figures};

/// What every terminal shows in one row.
const WIDTH: usize = 79;

/// A log has a line at least as often.
const PERIOD: Duration = Duration::from_secs(30);

/// Progress on the standard output: one line for each epoch; of the epoch in hand a bar on a terminal, elsewhere a line
/// now and then.
///
/// Training goes on if nobody reads it any more.
pub(super) struct Progress {
    epochs: usize,
    started: Instant,
    /// When the last line was printed.
    printed: Instant,
    live: bool,
}

/// The part of an epoch.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) epoch: usize,
    /// Training or validation.
    pub(super) split: &'static str,
    /// The number of batches.
    pub(super) batches: usize,
}

impl Progress {
    /// The progress of a training of so many epochs, which begins.
    pub(super) fn new(epochs: usize) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        Self {
            epochs,
            started: Instant::now(),
            printed: Instant::now(),
            live: std::io::stdout().is_terminal() && !dumb,
        }
    }

    /// So many batches of a part are done.
    pub(super) fn show(&mut self, part: Part, done: usize, figures: &Figures) {
        if !(self.live || self.printed.elapsed() >= PERIOD) {
            return;
        }
        let mut output = std::io::stdout();
        let _ = if self.live {
            write!(output, "\r\x1b[K{}", self.row(part, done, figures))
        } else {
            self.printed = Instant::now();
            writeln!(output, "{}", self.row(part, done, figures))
        };
        let _ = output.flush();
    }

    /// Where the epoch is.
    fn row(&self, part: Part, done: usize, figures: &Figures) -> String {
        const BAR: usize = 16;
        let Part {
            epoch,
            split,
            batches,
        } = part;
        let filled = BAR * done / batches.max(1);
        let bar = "=".repeat(filled) + &" ".repeat(BAR - filled);
        let (epochs, figures) = (self.epochs, describe(figures));
        let row = format!("epoch {epoch:>2}/{epochs} {split} [{bar}] {done}/{batches}  {figures}");
        row.chars().take(WIDTH).collect()
    }

    /// An epoch has ended.
    pub(super) fn ended(&mut self, epoch: &Epoch) {
        self.clear();
        let _ = writeln!(
            std::io::stdout(),
            "epoch {:>2}/{}  {:>4.0} s  train: {}  |  valid: {}",
            epoch.epoch,
            self.epochs,
            self.started.elapsed().as_secs_f64(),
            describe(&epoch.train),
            describe(&epoch.valid),
        );
        self.printed = Instant::now();
    }

    /// Prints a line on the standard error, in place of the row in hand.
    pub(super) fn note(&self, line: impl Display) {
        self.clear();
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    /// Clears the row in hand.
    fn clear(&self) {
        if self.live {
            let mut output = std::io::stdout();
            let _ = write!(output, "\r\x1b[K");
            let _ = output.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn describe(figures: &Figures) -> String {
    let Figures {
        loss,
        exact_match,
        token_errors,
    } = figures;
    format!("loss {loss:.4}  exact match {exact_match:.2} %  token errors {token_errors:.2} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part {
        epoch: 2,
        split: "train",
        batches: 375,
    };
    const FIGURES: Figures = Figures {
        loss: 0.123,
        exact_match: 99.0,
        token_errors: 100.0,
    };

    #[test]
    fn a_row_fits_into_a_terminal() {
        let progress = Progress::new(3);
        let row = progress.row(PART, 75, &FIGURES);
        assert!(
            row.starts_with("epoch  2/3 train [===             ] 75/375  loss 0.1230"),
            "{row}"
        );
        assert_eq!(progress.row(PART, 375, &FIGURES).chars().count(), WIDTH);
    }

    #[test]
    fn a_log_has_a_line_now_and_then() {
        let mut progress = Progress::new(3);
        progress.live = false;
        let now = Instant::now();
        // Far enough ahead that no machine is too slow.
        let ahead = now + 1000 * PERIOD;
        progress.printed = ahead;
        progress.show(PART, 1, &FIGURES);
        assert_eq!(progress.printed, ahead, "too early");
        let Some(long_ago) = now.checked_sub(PERIOD) else {
            return; // The machine was just switched on.
        };
        progress.printed = long_ago;
        progress.show(PART, 2, &FIGURES);
        assert!(progress.printed >= now);
    }
}
