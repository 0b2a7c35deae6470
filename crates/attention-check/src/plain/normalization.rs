//! Normalizations of rows.

/// The value that a mean square is never below.
pub(crate) const EPSILON: f64 = 1e-5;

/// Rows of `gain.len()` features, with a bias of zeros where there is none.
#[derive(Clone, Copy)]
pub(crate) struct Normalization<'a> {
    pub(crate) rows: &'a [f64],
    pub(crate) gain: &'a [f64],
    pub(crate) bias: &'a [f64],
    /// Whether the mean of a row is subtracted.
    pub(crate) is_centered: bool,
}

impl Normalization<'_> {
    /// `(x - mean) / deviation gain + bias`
    pub(crate) fn forward(&self) -> Vec<f64> {
        let size = self.gain.len();
        let mut output = Vec::new();
        for row in self.rows.chunks(size) {
            let (normal, _) = self.normal(row);
            for s in 0..size {
                output.push(normal[s] * self.gain[s] + self.bias[s]);
            }
        }
        output
    }

    /// The gradients of rows, gain and bias.
    pub(crate) fn backward(&self, grad_output: &[f64]) -> [Vec<f64>; 3] {
        let size = self.gain.len();
        let mut grad_rows = Vec::new();
        let (mut grad_gain, mut grad_bias) = (vec![0.0; size], vec![0.0; size]);
        for (row, grad_output) in self.rows.chunks(size).zip(grad_output.chunks(size)) {
            let (normal, deviation) = self.normal(row);
            let (mut mean, mut mean_product) = (0.0, 0.0);
            for s in 0..size {
                grad_gain[s] += grad_output[s] * normal[s];
                grad_bias[s] += grad_output[s];
                let grad_normal = grad_output[s] * self.gain[s];
                mean += grad_normal / size as f64;
                mean_product += grad_normal * normal[s] / size as f64;
            }
            if !self.is_centered {
                mean = 0.0;
            }
            for s in 0..size {
                let grad_normal = grad_output[s] * self.gain[s];
                grad_rows.push((grad_normal - mean - normal[s] * mean_product) / deviation);
            }
        }
        [grad_rows, grad_gain, grad_bias]
    }

    /// A row without gain and bias, and what it was divided by.
    fn normal(&self, row: &[f64]) -> (Vec<f64>, f64) {
        let size = row.len() as f64;
        let mean = if self.is_centered {
            row.iter().sum::<f64>() / size
        } else {
            0.0
        };
        let mut variance = 0.0;
        for x in row {
            variance += (x - mean) * (x - mean) / size;
        }
        let deviation = (variance + EPSILON).sqrt();
        let normal = row.iter().map(|x| (x - mean) / deviation);
        (normal.collect(), deviation)
    }
}
