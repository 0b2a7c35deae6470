//! Progress on a plain terminal, or in a log.

use std::io::Write;
use std::time::{Duration, Instant};

use attention_seq2seq::TrainEvent;
use attention_seq2seq::run::{Epoch, Figures};
use attention_seq2seq::train::{Split, TrainObserver};

use crate::output::{is_terminal, note, say};

/// The number of columns that every terminal shows.
const WIDTH: usize = 79;

/// The longest time without a line in a log.
const PERIOD: Duration = Duration::from_secs(30);

/// Progress on the standard output: one line for each epoch; for the current epoch a bar on a terminal, elsewhere an
/// occasional line. Refused steps are named on the standard error.
///
/// Training continues if nobody reads it any more.
pub(super) struct Progress {
    epochs: usize,
    started: Instant,
    /// When the last line was printed.
    printed: Instant,
    /// Whether the current epoch has a row on a terminal.
    live: bool,
}

impl TrainObserver for Progress {
    fn observe(&mut self, event: &TrainEvent) {
        match event {
            TrainEvent::Started { epochs, .. } => self.start(*epochs),
            TrainEvent::BatchDone {
                epoch,
                split,
                done,
                batches,
                figures,
            } if self.is_due() => self.show(&self.row(*epoch, *split, *done, *batches, figures)),
            TrainEvent::StepRefused { .. } => {
                self.clear();
                note_refused(event);
            }
            TrainEvent::EpochEnded(epoch) => self.end(epoch),
            _ => {}
        }
    }
}

impl Progress {
    /// The progress of a training that has not started.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            epochs: 0,
            started: now,
            printed: now,
            live: false,
        }
    }

    fn start(&mut self, epochs: usize) {
        let dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        self.epochs = epochs;
        self.started = Instant::now();
        self.printed = self.started;
        self.live = is_terminal() && !dumb;
    }

    /// Whether it is time to show the progress within the epoch.
    fn is_due(&self) -> bool {
        self.live || self.printed.elapsed() >= PERIOD
    }

    /// Shows the progress within the epoch: replacing the previous row, or as a line.
    fn show(&mut self, row: &str) {
        if self.live {
            let mut output = std::io::stdout();
            let _ = write!(output, "\r\x1b[K{row}");
            let _ = output.flush();
        } else {
            self.printed = Instant::now();
            let _ = say(row);
        }
    }

    fn row(
        &self,
        epoch: usize,
        split: Split,
        done: usize,
        batches: usize,
        figures: &Figures,
    ) -> String {
        const BAR: usize = 16;
        let filled = BAR * done / batches.max(1);
        let bar = "=".repeat(filled) + &" ".repeat(BAR - filled);
        let (epochs, figures) = (self.epochs, describe(figures));
        let row = format!("epoch {epoch:>2}/{epochs} {split} [{bar}] {done}/{batches}  {figures}");
        row.chars().take(WIDTH).collect()
    }

    fn end(&mut self, epoch: &Epoch) {
        self.clear();
        let _ = say(format_args!(
            "epoch {:>2}/{}  {:>4.0} s  train: {}  |  valid: {}",
            epoch.epoch,
            self.epochs,
            self.started.elapsed().as_secs_f64(),
            describe(&epoch.train),
            describe(&epoch.valid),
        ));
        self.printed = Instant::now();
    }

    /// Clears the current row.
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

/// Names a refused step on the standard error.
pub(super) fn note_refused(event: &TrainEvent) {
    if let TrainEvent::StepRefused {
        epoch,
        step,
        steps,
        reason,
    } = event
    {
        note(format_args!(
            "note: refused step {step} of {steps} in epoch {epoch}: {reason}"
        ));
    }
}

fn describe(figures: &Figures) -> String {
    let bleu = figures.bleu.map(|bleu| format!("  BLEU {bleu:.2}"));
    let bleu = bleu.unwrap_or_default();
    let [loss, exact, errors] = [figures.loss, figures.exact_match, figures.token_errors];
    format!("loss {loss:.4}  exact match {exact:.2} %  token errors {errors:.2} %{bleu}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Figures = Figures {
        loss: 0.123,
        exact_match: 99.0,
        token_errors: 100.0,
        bleu: None,
    };

    /// So many batches of the second epoch are done.
    fn batch_done(done: usize) -> TrainEvent {
        TrainEvent::BatchDone {
            epoch: 2,
            split: Split::Train,
            done,
            batches: 375,
            figures: FIGURES,
        }
    }

    #[test]
    fn a_row_fits_into_a_terminal() {
        let mut progress = Progress::new();
        progress.start(3);
        let row = progress.row(2, Split::Train, 75, 375, &FIGURES);
        let start = "epoch  2/3 train [===             ] 75/375  loss 0.1230";
        assert!(row.starts_with(start), "{row}");
        let row = progress.row(2, Split::Train, 375, 375, &FIGURES);
        assert_eq!(row.chars().count(), WIDTH);
    }

    #[test]
    fn a_log_has_a_line_now_and_then() {
        let mut progress = Progress::new();
        let now = Instant::now();
        // Far enough ahead that no machine is too slow.
        let ahead = now + 1000 * PERIOD;
        progress.printed = ahead;
        progress.observe(&batch_done(1));
        assert_eq!(progress.printed, ahead, "too early");
        let Some(long_ago) = now.checked_sub(PERIOD) else {
            return; // The machine was just switched on.
        };
        progress.printed = long_ago;
        progress.observe(&batch_done(2));
        assert!(progress.printed >= now);
    }
}
