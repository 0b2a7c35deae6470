//! A linear layer.

/// `output[r, o] = sum_i input[r, i] weight[i, o] + bias[o]`, where an absent bias is 0.
pub fn linear([input, weight, bias]: [&[f64]; 3]) -> Vec<f64> {
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
pub fn linear_backward([input, weight, bias]: [&[f64]; 3], grad_output: &[f64]) -> [Vec<f64>; 3] {
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
