//! Gradients by finite differences.

/// The derivative of `loss` by each element of `point`, by central differences.
pub fn differences(point: &[f64], step: f64, loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut moved = point.to_vec();
    let mut gradient = Vec::new();
    for at in 0..point.len() {
        moved[at] = point[at] + step;
        let above = loss(&moved);
        moved[at] = point[at] - step;
        gradient.push((above - loss(&moved)) / (2.0 * step));
        moved[at] = point[at];
    }
    gradient
}
