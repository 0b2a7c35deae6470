//! Progress on a plain terminal, or in a log.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, MetricId};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use burn::train::LearnerSummary;

/// One line for each epoch; on a terminal also a line that shows how far the epoch is.
pub struct PlainProgress {
    names: HashMap<MetricId, String>,
    train: Vec<(String, f64)>,
    valid: Vec<(String, f64)>,
    epoch: usize,
    epochs: usize,
    split: String,
    batches: usize,
    started: Instant,
    live: bool,
}

impl PlainProgress {
    /// Progress on the standard output.
    pub fn new() -> Self {
        Self {
            names: HashMap::new(),
            train: Vec::new(),
            valid: Vec::new(),
            epoch: 1,
            epochs: 0,
            split: String::new(),
            batches: 0,
            started: Instant::now(),
            live: std::io::stdout().is_terminal(),
        }
    }

    fn name(&self, id: &MetricId) -> String {
        self.names.get(id).cloned().unwrap_or_default()
    }

    fn show_live(&self, done: usize) {
        if !self.live || self.batches == 0 {
            return;
        }
        const WIDTH: usize = 24;
        let filled = WIDTH * done / self.batches;
        let bar = "=".repeat(filled) + &" ".repeat(WIDTH - filled);
        let values = match self.split.as_str() {
            "valid" => describe(&self.valid),
            _ => describe(&self.train),
        };
        print!(
            "\r\x1b[Kepoch {:>2}/{} {} [{bar}] {done}/{}  {values}",
            self.epoch, self.epochs, self.split, self.batches
        );
        // A terminal that has gone away is no reason to stop training.
        let _ = std::io::stdout().flush();
    }

    fn clear_live(&self) {
        if self.live {
            print!("\r\x1b[K");
        }
    }
}

impl Default for PlainProgress {
    fn default() -> Self {
        Self::new()
    }
}

/// The running value of each metric; "epoch" in Burn's text is the running mean.
fn record(values: &mut Vec<(String, f64)>, name: String, state: MetricState) {
    let MetricState::Numeric(entry, _) = state else {
        return;
    };
    let text = entry.serialized_entry.formatted;
    let running = text.strip_prefix("epoch ").and_then(|text| text.split_whitespace().next());
    let Some(value) = running.and_then(|value| value.parse().ok()) else {
        return;
    };
    match values.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = value,
        None => values.push((name, value)),
    }
}

fn describe(values: &[(String, f64)]) -> String {
    let value = |(name, value): &(String, f64)| match name.as_str() {
        "Loss" => format!("loss {value:.4}"),
        "CER" => format!("token errors {value:.2} %"),
        name => format!("{} {value:.2} %", name.to_lowercase()),
    };
    values.iter().map(value).collect::<Vec<_>>().join("  ")
}

impl MetricsRendererTraining for PlainProgress {
    fn update_train(&mut self, state: MetricState) {
        if let MetricState::Numeric(entry, _) = &state {
            let name = self.name(&entry.metric_id);
            record(&mut self.train, name, state);
        }
    }

    fn update_valid(&mut self, state: MetricState) {
        if let MetricState::Numeric(entry, _) = &state {
            let name = self.name(&entry.metric_id);
            record(&mut self.valid, name, state);
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
        self.batches = total_items;
    }

    fn update_split(&mut self, items_processed: usize) {
        self.show_live(items_processed);
    }

    fn update_epoch(&mut self, epoch: usize) {
        self.clear_live();
        println!(
            "epoch {epoch:>2}/{}  {:>4.0} s  train: {}  |  valid: {}",
            self.epochs,
            self.started.elapsed().as_secs_f64(),
            describe(&self.train),
            describe(&self.valid),
        );
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
        self.names.insert(definition.metric_id, definition.name.to_string());
    }
}
