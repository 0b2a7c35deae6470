//! Pairs of features, rotated by angles: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position
//! Embedding".

/// Rows `[batch, heads, rows, size]`, and an angle for each of their pairs.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// The axes of the rows.
    pub shape: [usize; 4],
    /// `[batch or 1, rows, pairs]`; features after the pairs stay as they are.
    pub angles: &'a [f64],
    /// The last axis of the angles.
    pub pairs: usize,
    /// Whether the features of a pair are neighbours, instead of one from each half.
    pub is_interleaved: bool,
}

impl Rotation<'_> {
    /// Each pair, rotated by its angle times `direction`; the direction -1 gives the gradient of a rotation with 1.
    pub fn rotate(&self, input: &[f64], direction: f64) -> Vec<f64> {
        let [batch, heads, rows, size] = self.shape;
        let examples = self.angles.len() / (rows * self.pairs).max(1);
        let mut output = input.to_vec();
        for r in 0..batch * heads * rows {
            let example = r / (heads * rows) % examples;
            for pair in 0..self.pairs {
                let angle = self.angles[(example * rows + r % rows) * self.pairs + pair];
                let (sin, cos) = (direction * angle).sin_cos();
                let [x, y] = if self.is_interleaved {
                    [2 * pair, 2 * pair + 1]
                } else {
                    [pair, pair + self.pairs]
                };
                let [x, y] = [x, y].map(|feature| r * size + feature);
                output[x] = input[x] * cos - input[y] * sin;
                output[y] = input[y] * cos + input[x] * sin;
            }
        }
        output
    }
}
