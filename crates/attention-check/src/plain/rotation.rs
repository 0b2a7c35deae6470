//! Pairs of features, turned by angles.

/// Rows `[batch, heads, rows, size]` and an angle for each pair, `[examples, rows, pairs]`.
#[derive(Clone, Copy)]
pub(crate) struct Rotation {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) rows: usize,
    pub(crate) size: usize,
    /// The batch, or 1.
    pub(crate) examples: usize,
    pub(crate) pairs: usize,
    /// Whether the features of a pair are neighbours, rather than one of each half.
    pub(crate) is_interleaved: bool,
}

impl Rotation {
    pub(crate) fn shape_of_angles(&self) -> [usize; 3] {
        [self.examples, self.rows, self.pairs]
    }

    /// The angle of each pair.
    pub(crate) fn angles(&self) -> Vec<f64> {
        let mut angles = Vec::new();
        for example in 0..self.examples {
            for row in 0..self.rows {
                for pair in 0..self.pairs {
                    angles.push(angle(example, row, pair));
                }
            }
        }
        angles
    }

    /// Each pair turned by its angle times `direction`; with direction -1, the gradient of those turned with 1.
    pub(crate) fn rotate(&self, input: &[f64], direction: f64) -> Vec<f64> {
        let mut output = input.to_vec();
        for r in 0..self.batch * self.heads * self.rows {
            let example = r / (self.heads * self.rows) % self.examples;
            for pair in 0..self.pairs {
                let (sin, cos) = (direction * angle(example, r % self.rows, pair)).sin_cos();
                let [x, y] = if self.is_interleaved {
                    [2 * pair, 2 * pair + 1]
                } else {
                    [pair, pair + self.pairs]
                };
                let [x, y] = [x, y].map(|feature| r * self.size + feature);
                output[x] = input[x] * cos - input[y] * sin;
                output[y] = input[y] * cos + input[x] * sin;
            }
        }
        output
    }
}

fn angle(example: usize, row: usize, pair: usize) -> f64 {
    1.1 * example as f64 + 0.7 * row as f64 + 0.3 * pair as f64
}
