//! Progress on a plain terminal, or in a log.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, MetricId, NumericEntry};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use burn::train::{Interrupter, LearnerSummary};

/// What every terminal shows in one row.
const WIDTH: usize = 79;

/// A log has a line at least as often.
const PERIOD: Duration = Duration::from_secs(30);

/// Progress on the standard output: one line for each epoch; of the epoch in hand a bar on a terminal, elsewhere a line
/// now and then.
pub(super) struct PlainProgress {
    names: HashMap<MetricId, String>,
    train: Means,
    valid: Means,
    epoch: usize,
    epochs: usize,
    split: String,
    batches: usize,
    started: Instant,
    /// When the last line was printed.
    printed: Instant,
    live: bool,
    interrupter: Interrupter,
}

impl PlainProgress {
    /// The progress of a training that `interrupter` may stop.
    pub(super) fn new(interrupter: Interrupter) -> Self {
        Self {
            names: HashMap::new(),
            train: Means::default(),
            valid: Means::default(),
            epoch: 1,
            epochs: 0,
            split: String::new(),
            batches: 0,
            started: Instant::now(),
            printed: Instant::now(),
            live: std::io::stdout().is_terminal()
                && std::env::var_os("TERM").is_none_or(|name| name != "dumb"),
            interrupter,
        }
    }

    fn name(&self, id: &MetricId) -> String {
        self.names.get(id).cloned().unwrap_or_default()
    }

    fn show(&mut self, done: usize) {
        if self.batches == 0 || !(self.live || self.printed.elapsed() >= PERIOD) {
            return;
        }
        // Training goes on if the output is closed.
        let mut output = std::io::stdout();
        let _ = if self.live {
            write!(output, "\r\x1b[K{}", self.row(done))
        } else {
            self.printed = Instant::now();
            writeln!(output, "{}", self.row(done))
        };
        let _ = output.flush();
    }

    /// Where the epoch is.
    fn row(&self, done: usize) -> String {
        const BAR: usize = 16;
        let filled = BAR * done / self.batches;
        let bar = "=".repeat(filled) + &" ".repeat(BAR - filled);
        let values = match self.split.as_str() {
            "valid" => self.valid.describe(),
            _ => self.train.describe(),
        };
        let Self {
            epoch,
            epochs,
            split,
            batches,
            ..
        } = self;
        let row = format!("epoch {epoch:>2}/{epochs} {split} [{bar}] {done}/{batches}  {values}");
        row.chars().take(WIDTH).collect()
    }

    fn clear_live(&self) {
        if self.live {
            let _ = write!(std::io::stdout(), "\r\x1b[K");
        }
    }
}

/// The mean of each metric over the batches of a split so far.
#[derive(Default)]
struct Means(Vec<(String, Mean)>);

#[derive(Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Means {
    fn add(&mut self, name: String, entry: &NumericEntry) {
        let index = self.0.iter().position(|(known, _)| *known == name);
        let index = index.unwrap_or_else(|| {
            self.0.push((name, Mean::default()));
            self.0.len() - 1
        });
        let mean = &mut self.0[index].1;
        let (value, count) = match *entry {
            NumericEntry::Aggregated {
                aggregated_value,
                count,
            } => (aggregated_value, count as f64),
            NumericEntry::Value(value) => (value, 1.0),
            NumericEntry::Final(value) => {
                *mean = Mean::default();
                (value, 1.0)
            }
        };
        if count > 0.0 {
            mean.sum += value * count;
            mean.count += count;
        }
    }

    fn describe(&self) -> String {
        let describe = |(name, mean): &(String, Mean)| {
            let value = mean.sum / mean.count;
            match name.as_str() {
                "Loss" => format!("loss {value:.4}"),
                "CER" => format!("token errors {value:.2} %"),
                name => format!("{} {value:.2} %", name.to_lowercase()),
            }
        };
        self.0.iter().map(describe).collect::<Vec<_>>().join("  ")
    }
}

impl MetricsRendererTraining for PlainProgress {
    fn update_train(&mut self, state: MetricState) {
        if let MetricState::Numeric(entry, Some(value)) = &state {
            self.train.add(self.name(&entry.metric_id), value);
        }
    }

    fn update_valid(&mut self, state: MetricState) {
        if let MetricState::Numeric(entry, Some(value)) = &state {
            self.valid.add(self.name(&entry.metric_id), value);
        }
    }

    fn on_train_end(
        &mut self,
        _summary: Option<LearnerSummary>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        self.clear_live();
        Ok(())
    }
}

impl TrainingProgressLogger for PlainProgress {
    fn start(
        &mut self,
        total_epochs: usize,
        starting_epoch: usize,
        _total_items: Option<usize>,
        _label: Option<&str>,
    ) {
        self.epochs = total_epochs;
        self.epoch = starting_epoch;
        self.started = Instant::now();
    }

    fn start_split(&mut self, split: &str, total_items: usize) {
        self.split = split.to_lowercase();
        match self.split.as_str() {
            "valid" => self.valid = Means::default(),
            _ => self.train = Means::default(),
        }
        self.batches = total_items;
    }

    fn update_split(&mut self, items_processed: usize) {
        self.show(items_processed);
    }

    fn update_epoch(&mut self, epoch: usize) {
        self.clear_live();
        if self.interrupter.should_stop() {
            // The epoch was interrupted: its figures are of a part, and it leaves no checkpoint.
            return;
        }
        let _ = writeln!(
            std::io::stdout(),
            "epoch {epoch:>2}/{}  {:>4.0} s  train: {}  |  valid: {}",
            self.epochs,
            self.started.elapsed().as_secs_f64(),
            self.train.describe(),
            self.valid.describe(),
        );
        self.printed = Instant::now();
        self.epoch = epoch + 1;
    }

    fn end_split(&mut self) {}

    fn end(&mut self) {
        self.clear_live();
    }

    fn log_event_training(&mut self, _event: String) {}
}

impl MetricsRendererEvaluation for PlainProgress {
    fn update_test(&mut self, _name: EvaluationName, _state: MetricState) {}
}

impl EvaluationProgressLogger for PlainProgress {
    fn start_global_progress(&mut self, _total_tests: usize) {}
    fn start_test(&mut self, _name: &str, _total_items: usize) {}
    fn update_test_progress(&mut self, _items_processed: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _event: String) {}
}

impl MetricsRenderer for PlainProgress {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.names
            .insert(definition.metric_id, definition.name.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_into_a_terminal() {
        let mut progress = PlainProgress::new(Interrupter::new());
        progress.start(3, 2, None, None);
        progress.start_split("Train", 375);
        progress
            .train
            .add("Loss".to_string(), &NumericEntry::Value(0.123));
        let row = progress.row(75);
        assert!(
            row.starts_with("epoch  2/3 train [===             ] 75/375  loss 0.1230"),
            "{row}"
        );
        for name in ["Exact match", "CER", "Another", "And another"] {
            progress
                .train
                .add(name.to_string(), &NumericEntry::Value(99.0));
        }
        assert_eq!(progress.row(375).chars().count(), WIDTH);
    }

    #[test]
    fn a_log_has_a_line_now_and_then() {
        let mut progress = PlainProgress::new(Interrupter::new());
        progress.live = false;
        progress.start_split("train", 10);
        let before = progress.printed;
        progress.show(1);
        assert_eq!(progress.printed, before, "too early");
        let Some(long_ago) = before.checked_sub(PERIOD) else {
            return; // The machine was just switched on.
        };
        progress.printed = long_ago;
        progress.show(2);
        assert!(progress.printed >= before);
    }
}
