//! Normalizations of rows.

/// Rows of `gain.len()` features.
#[derive(Clone, Copy, Debug)]
pub struct Normalization<'a> {
    /// The rows.
    pub rows: &'a [f64],
    /// The factor of each feature.
    pub gain: &'a [f64],
    /// The number added to each feature, if there is a bias.
    pub bias: Option<&'a [f64]>,
    /// The number added to the mean square below the root.
    pub epsilon: f64,
    /// Whether the mean of a row is subtracted: Ba et al. 2016, "Layer Normalization", or Zhang and Sennrich 2019,
    /// "Root Mean Square Layer Normalization".
    pub is_centered: bool,
}

impl Normalization<'_> {
    /// `(x - mean) / deviation gain + bias`
    pub fn forward(&self) -> Vec<f64> {
        let mut output = Vec::new();
        for row in self.rows.chunks_exact(self.gain.len()) {
            let (normal, _) = self.normal(row);
            for s in 0..normal.len() {
                output.push(normal[s] * self.gain[s] + self.bias.map_or(0.0, |bias| bias[s]));
            }
        }
        output
    }

    /// The gradients of rows, gain and bias.
    pub fn backward(&self, grad_output: &[f64]) -> [Vec<f64>; 3] {
        let size = self.gain.len();
        let mut grad_rows = Vec::new();
        let (mut grad_gain, mut grad_bias) = (vec![0.0; size], vec![0.0; size]);
        let rows = self.rows.chunks_exact(size);
        for (row, grad_output) in rows.zip(grad_output.chunks_exact(size)) {
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

    /// A row before gain and bias, and the number that divided it.
    fn normal(&self, row: &[f64]) -> (Vec<f64>, f64) {
        let size = row.len() as f64;
        let mean = if self.is_centered {
            row.iter().sum::<f64>() / size
        } else {
            0.0
        };
        let squares = row.iter().map(|x| (x - mean) * (x - mean));
        let deviation = (squares.sum::<f64>() / size + self.epsilon).sqrt();
        let normal = row.iter().map(|x| (x - mean) / deviation);
        (normal.collect(), deviation)
    }
}
