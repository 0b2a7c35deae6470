//! The share of outputs that are right as a whole.

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorReadError};
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};

/// The share, in percent, of outputs that equal their target in every token.
#[derive(Clone)]
pub struct ExactMatch {
    name: MetricName,
    state: NumericMetricState,
}

/// What [`ExactMatch`] compares.
pub struct ExactMatchInput {
    /// `[batch, tokens]`
    pub outputs: Tensor<2, Int>,
    /// `[batch, tokens]`
    pub targets: Tensor<2, Int>,
}

impl ExactMatch {
    /// The metric, before the first output.
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
        let wrong = item.outputs.clone().not_equal(item.targets.clone()).int().sum_dim(1);
        let wrong = wrong.try_into_vec_as::<i64>()?;
        let right = wrong.iter().filter(|&&wrong| wrong == 0).count();
        self.state.update(100.0 * right as f64 / examples.max(1) as f64, examples);
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
