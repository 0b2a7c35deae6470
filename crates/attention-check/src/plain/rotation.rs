//! Pairs of features, turned by angles.

/// The angle of a pair of a row, times `direction`.
pub(crate) fn angle(row: usize, pair: usize, direction: f64) -> f64 {
    direction * (0.7 * row as f64 + 0.3 * pair as f64)
}

/// Rows `[.., rows, size]`, each pair turned by its angle; with direction -1, the gradient of those turned with 1.
pub(crate) fn rotate(input: &[f64], [rows, size]: [usize; 2], direction: f64) -> Vec<f64> {
    let mut output = vec![0.0; input.len()];
    for r in 0..input.len() / size {
        for pair in 0..size / 2 {
            let (sin, cos) = angle(r % rows, pair, direction).sin_cos();
            let at = r * size + 2 * pair;
            output[at] = input[at] * cos - input[at + 1] * sin;
            output[at + 1] = input[at + 1] * cos + input[at] * sin;
        }
    }
    output
}
