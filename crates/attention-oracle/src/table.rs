//! Rows of a table.

/// The rows `indices` of a table.
pub fn select_rows(table: &[f64], size: usize, indices: &[usize]) -> Vec<f64> {
    let mut rows = Vec::new();
    for &index in indices {
        rows.extend_from_slice(&table[index * size..(index + 1) * size]);
    }
    rows
}

/// The gradient of the table.
pub fn select_rows_backward(
    table: &[f64],
    size: usize,
    indices: &[usize],
    grad_output: &[f64],
) -> Vec<f64> {
    let mut grad_table = vec![0.0; table.len()];
    for (row, &index) in indices.iter().enumerate() {
        for s in 0..size {
            grad_table[index * size + s] += grad_output[row * size + s];
        }
    }
    grad_table
}
