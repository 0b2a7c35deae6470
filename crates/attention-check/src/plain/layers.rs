//! A linear layer, the rows of a table, and a linear layer to classes with its cross-entropy.

/// `output[r, o] = sum_i input[r, i] weight[i, o] + bias[o]`, with a bias of zeros where there is none.
pub(crate) fn linear([input, weight, bias]: [&[f64]; 3]) -> Vec<f64> {
    let out = bias.len();
    let size = weight.len() / out;
    let rows = input.len() / size;
    let mut output = vec![0.0; rows * out];
    for r in 0..rows {
        for o in 0..out {
            let mut sum = bias[o];
            for i in 0..size {
                sum += input[r * size + i] * weight[i * out + o];
            }
            output[r * out + o] = sum;
        }
    }
    output
}

/// The gradients of input, weight and bias.
pub(crate) fn linear_backward(
    [input, weight, bias]: [&[f64]; 3],
    grad_output: &[f64],
) -> [Vec<f64>; 3] {
    let out = bias.len();
    let size = weight.len() / out;
    let rows = input.len() / size;
    let [mut grad_input, mut grad_weight, mut grad_bias] =
        [input, weight, bias].map(|input| vec![0.0; input.len()]);
    for r in 0..rows {
        for o in 0..out {
            let grad_output = grad_output[r * out + o];
            for i in 0..size {
                grad_input[r * size + i] += grad_output * weight[i * out + o];
                grad_weight[i * out + o] += grad_output * input[r * size + i];
            }
            grad_bias[o] += grad_output;
        }
    }
    [grad_input, grad_weight, grad_bias]
}

/// The rows `indices` of a table.
pub(crate) fn select_rows(table: &[f64], size: usize, indices: &[usize]) -> Vec<f64> {
    let mut rows = Vec::new();
    for &index in indices {
        rows.extend_from_slice(&table[index * size..(index + 1) * size]);
    }
    rows
}

/// The gradient of the table.
pub(crate) fn select_rows_backward(
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

/// The class of each row, and the factor on its loss.
pub(crate) struct Targets<'a> {
    pub(crate) classes: &'a [usize],
    pub(crate) factors: &'a [f64],
}

impl Targets<'_> {
    /// The loss of the classes' logits: the sum over rows of `factor (log sum_c exp logit[c] - logit[target])`.
    pub(crate) fn cross_entropy(&self, logits: &[f64]) -> f64 {
        let count = logits.len() / self.classes.len();
        let mut loss = 0.0;
        for (row, logits) in logits.chunks(count).enumerate() {
            let greatest = logits[argmax(logits)];
            let mut sum = 0.0;
            for logit in logits {
                sum += (logit - greatest).exp();
            }
            let log_sum = sum.ln() + greatest;
            loss += self.factors[row] * (log_sum - logits[self.classes[row]]);
        }
        loss
    }

    /// The gradient of the logits: `grad_loss factor (softmax(logits)[c] - (1 if c is the target))`.
    pub(crate) fn cross_entropy_backward(&self, logits: &[f64], grad_loss: f64) -> Vec<f64> {
        let count = logits.len() / self.classes.len();
        let mut grad_logits = vec![0.0; logits.len()];
        for (row, logits) in logits.chunks(count).enumerate() {
            let greatest = logits[argmax(logits)];
            let mut sum = 0.0;
            for logit in logits {
                sum += (logit - greatest).exp();
            }
            for c in 0..count {
                let probability = (logits[c] - greatest).exp() / sum;
                let hit = if c == self.classes[row] { 1.0 } else { 0.0 };
                grad_logits[row * count + c] = grad_loss * self.factors[row] * (probability - hit);
            }
        }
        grad_logits
    }

    /// The greatest class of each row.
    pub(crate) fn predictions(&self, logits: &[f64]) -> Vec<f64> {
        let count = logits.len() / self.classes.len();
        let rows = logits.chunks(count);
        rows.map(|logits| argmax(logits) as f64).collect()
    }
}

fn argmax(numbers: &[f64]) -> usize {
    let mut greatest = 0;
    for index in 0..numbers.len() {
        if numbers[index] > numbers[greatest] {
            greatest = index;
        }
    }
    greatest
}
