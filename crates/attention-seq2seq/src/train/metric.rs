//! The exact match of outputs and targets.

use std::sync::Arc;

use burn::data::dataloader::Progress;
use burn::tensor::{Int, Tensor, TensorReadError};
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};

/// The share, in percent, of outputs that equal their target in every token, as a metric of `burn-train`.
///
/// ```
/// use attention_seq2seq::ExactMatch;
/// use burn::train::metric::Metric;
///
/// assert_eq!(ExactMatch::new().name().as_str(), "Exact match");
/// ```
#[derive(Clone)]
pub struct ExactMatch {
    name: MetricName,
    state: NumericMetricState,
}

/// The tokens that [`ExactMatch`] compares.
pub struct ExactMatchInput {
    /// The outputs, `[batch, target tokens]`.
    pub outputs: Tensor<2, Int>,
    /// The targets, `[batch, target tokens]`.
    pub targets: Tensor<2, Int>,
}

impl ExactMatch {
    /// The metric before the first output.
    pub fn new() -> Self {
        Self {
            name: Arc::new("Exact match".to_string()),
            state: NumericMetricState::default(),
        }
    }

    fn format(&self) -> FormatOptions {
        FormatOptions::new(self.name()).unit("%").precision(2)
    }
}

impl Default for ExactMatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Metric for ExactMatch {
    type Input = ExactMatchInput;

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: Some("%".to_string()),
            higher_is_better: true,
        }
        .into()
    }

    fn update(
        &mut self,
        item: &ExactMatchInput,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        let [examples, _] = item.targets.dims();
        let wrong = item
            .outputs
            .clone()
            .not_equal(item.targets.clone())
            .int()
            .sum_dim(1);
        let wrong = wrong.try_into_vec_as::<i64>()?;
        let right = wrong.iter().filter(|&&wrong| wrong == 0).count();
        self.state
            .update(100.0 * right as f64 / examples.max(1) as f64, examples);
        Ok(self.state.compute_update(self.format()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.state.compute_final(self.format()))
    }

    fn clear(&mut self) {
        self.state.reset();
    }
}

impl Numeric for ExactMatch {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}

/// What the metrics of Burn ask for, of which those of a training make nothing.
pub(super) fn metadata() -> MetricMetadata {
    MetricMetadata {
        progress: Progress {
            items_processed: 1,
            items_total: 1,
            unit: None,
        },
        iteration: None,
        lr: None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::device::test_device;

    /// Feeds one batch, and returns the value of it and of all so far.
    fn update<const N: usize, const W: usize>(
        metric: &mut ExactMatch,
        outputs: [[i64; W]; N],
        targets: [[i64; W]; N],
    ) -> (f64, f64) {
        let device = test_device();
        let input = ExactMatchInput {
            outputs: Tensor::from_data(outputs, &device),
            targets: Tensor::from_data(targets, &device),
        };
        metric.update(&input, &metadata()).unwrap();
        let value = metric.value().unwrap().current();
        (value, metric.running_value().unwrap().current())
    }

    #[test]
    fn only_whole_outputs_count() {
        let metric = &mut ExactMatch::new();
        let all = [[5, 6, 2], [7, 2, 0]];
        assert_eq!(update(metric, all, all), (100.0, 100.0));
        // One token off; an end too early; a token after the end.
        let wrong = [[5, 6, 4], [2, 0, 0], [7, 2, 5], [7, 2, 0]];
        let right = [[5, 6, 2], [7, 2, 0], [7, 2, 0], [7, 2, 0]];
        // 1 of 4, and 3 of 6: every output weighs the same.
        assert_eq!(update(metric, wrong, right), (25.0, 50.0));
        assert_eq!(metric.final_value().current(), 50.0);
        // Errors that would cancel out in a sum of differences.
        assert_eq!(update(metric, [[4, 6]], [[5, 5]]).0, 0.0);

        metric.clear();
        assert_eq!(update(metric, [[2]], [[4]]), (0.0, 0.0));
        assert_eq!(metric.name().as_str(), "Exact match");
    }
}
