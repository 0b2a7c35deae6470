//! Scores, softmax and weighted sums over the pairs of queries and keys that a mask allows.
//!
//! Tensors of queries are `[batch, heads, queries, size]`, those of keys `[batch, key_heads, keys, size]`, those of
//! pairs `[batch, heads, queries, keys]`. What belongs to masked pairs alone is never read.

/// The sizes of all axes but the last of queries and keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axes {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
}

/// A query that attends to a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// Its place in a tensor of pairs.
    pub(crate) at: usize,
    /// The row of the query.
    pub(crate) query: usize,
    /// The row of the key.
    pub(crate) key: usize,
    /// The bias of the key: its place in `[batch, heads, 1, keys]`.
    pub(crate) bias: usize,
}

/// The pairs that are not masked.
#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    pub(crate) attended: Vec<Pair>,
    pub(crate) axes: Axes,
}

impl Pairs {
    /// The pairs `[example, head, query, key]` for which `attends` is true.
    pub(crate) fn new(axes: Axes, attends: impl Fn([usize; 4]) -> bool) -> Self {
        let mut attended = Vec::new();
        for b in 0..axes.batch {
            for h in 0..axes.heads {
                let key_head = h * axes.key_heads / axes.heads;
                for i in 0..axes.queries {
                    for j in 0..axes.keys {
                        if !attends([b, h, i, j]) {
                            continue;
                        }
                        let query = (b * axes.heads + h) * axes.queries + i;
                        attended.push(Pair {
                            at: query * axes.keys + j,
                            query,
                            key: (b * axes.key_heads + key_head) * axes.keys + j,
                            bias: (b * axes.heads + h) * axes.keys + j,
                        });
                    }
                }
            }
        }
        Self { attended, axes }
    }

    /// The number of rows of queries.
    pub(crate) fn query_rows(&self) -> usize {
        self.axes.batch * self.axes.heads * self.axes.queries
    }

    /// The number of rows of keys.
    pub(crate) fn key_rows(&self) -> usize {
        self.axes.batch * self.axes.key_heads * self.axes.keys
    }

    /// The number of biases.
    pub(crate) fn bias_count(&self) -> usize {
        self.axes.batch * self.axes.heads * self.axes.keys
    }

    /// The number of all pairs.
    pub(crate) fn count(&self) -> usize {
        self.query_rows() * self.axes.keys
    }
}

/// `score = sum_h weight[h] tanh(query[h] + key[h])`, and 0 where masked.
pub(crate) fn additive_score(pairs: &Pairs, [queries, keys, weight]: [&[f64]; 3]) -> Vec<f64> {
    let size = weight.len();
    let mut scores = vec![0.0; pairs.count()];
    for pair in &pairs.attended {
        for h in 0..size {
            let sum = queries[pair.query * size + h] + keys[pair.key * size + h];
            scores[pair.at] += weight[h] * sum.tanh();
        }
    }
    scores
}

/// The gradients of queries, keys and weight.
pub(crate) fn additive_score_backward(
    pairs: &Pairs,
    [queries, keys, weight]: [&[f64]; 3],
    grad_output: &[f64],
) -> [Vec<f64>; 3] {
    let size = weight.len();
    let [mut grad_queries, mut grad_keys, mut grad_weight] =
        [queries, keys, weight].map(|input| vec![0.0; input.len()]);
    for pair in &pairs.attended {
        for h in 0..size {
            let unit = (queries[pair.query * size + h] + keys[pair.key * size + h]).tanh();
            let grad_sum = grad_output[pair.at] * weight[h] * (1.0 - unit * unit);
            grad_queries[pair.query * size + h] += grad_sum;
            grad_keys[pair.key * size + h] += grad_sum;
            grad_weight[h] += grad_output[pair.at] * unit;
        }
    }
    [grad_queries, grad_keys, grad_weight]
}

/// `score = scale sum_s query[s] key[s]`, and 0 where masked.
pub(crate) fn dot_product_score(
    pairs: &Pairs,
    [queries, keys]: [&[f64]; 2],
    scale: f64,
) -> Vec<f64> {
    let size = queries.len() / pairs.query_rows();
    let mut scores = vec![0.0; pairs.count()];
    for pair in &pairs.attended {
        for s in 0..size {
            scores[pair.at] += scale * queries[pair.query * size + s] * keys[pair.key * size + s];
        }
    }
    scores
}

/// The gradients of queries and keys.
pub(crate) fn dot_product_score_backward(
    pairs: &Pairs,
    [queries, keys]: [&[f64]; 2],
    scale: f64,
    grad_output: &[f64],
) -> [Vec<f64>; 2] {
    let size = queries.len() / pairs.query_rows();
    let [mut grad_queries, mut grad_keys] = [queries, keys].map(|input| vec![0.0; input.len()]);
    for pair in &pairs.attended {
        for s in 0..size {
            let (query, key) = (pair.query * size + s, pair.key * size + s);
            grad_queries[query] += grad_output[pair.at] * scale * keys[key];
            grad_keys[key] += grad_output[pair.at] * scale * queries[query];
        }
    }
    [grad_queries, grad_keys]
}

/// `scores + bias`, with `bias` `[batch, heads, 1, keys]`.
pub(crate) fn with_bias(pairs: &Pairs, [scores, bias]: [&[f64]; 2]) -> Vec<f64> {
    let mut sums = scores.to_vec();
    for pair in &pairs.attended {
        sums[pair.at] += bias[pair.bias];
    }
    sums
}

/// The gradient of the bias.
pub(crate) fn with_bias_backward(pairs: &Pairs, grad_output: &[f64]) -> Vec<f64> {
    let mut grad_bias = vec![0.0; pairs.bias_count()];
    for pair in &pairs.attended {
        grad_bias[pair.bias] += grad_output[pair.at];
    }
    grad_bias
}

/// `weight[j] = exp(score[j]) / sum_j exp(score[j])` over the keys of a query, and 0 where masked.
pub(crate) fn softmax(pairs: &Pairs, scores: &[f64]) -> Vec<f64> {
    let mut greatest = vec![f64::NEG_INFINITY; pairs.query_rows()];
    for pair in &pairs.attended {
        greatest[pair.query] = greatest[pair.query].max(scores[pair.at]);
    }
    let mut sums = vec![0.0; pairs.query_rows()];
    for pair in &pairs.attended {
        sums[pair.query] += (scores[pair.at] - greatest[pair.query]).exp();
    }
    let mut weights = vec![0.0; pairs.count()];
    for pair in &pairs.attended {
        weights[pair.at] = (scores[pair.at] - greatest[pair.query]).exp() / sums[pair.query];
    }
    weights
}

/// The gradient of the scores: `weight[j] (grad_output[j] - sum_k weight[k] grad_output[k])`.
pub(crate) fn softmax_backward(pairs: &Pairs, scores: &[f64], grad_output: &[f64]) -> Vec<f64> {
    let weights = softmax(pairs, scores);
    let mut means = vec![0.0; pairs.query_rows()];
    for pair in &pairs.attended {
        means[pair.query] += weights[pair.at] * grad_output[pair.at];
    }
    let mut grad_scores = vec![0.0; pairs.count()];
    for pair in &pairs.attended {
        grad_scores[pair.at] = weights[pair.at] * (grad_output[pair.at] - means[pair.query]);
    }
    grad_scores
}

/// `context = sum_j weight[j] values[j]` over the keys of a query.
pub(crate) fn weighted_sum(pairs: &Pairs, [weights, values]: [&[f64]; 2]) -> Vec<f64> {
    let size = values.len() / pairs.key_rows();
    let mut context = vec![0.0; pairs.query_rows() * size];
    for pair in &pairs.attended {
        for v in 0..size {
            context[pair.query * size + v] += weights[pair.at] * values[pair.key * size + v];
        }
    }
    context
}

/// The gradients of weights and values.
pub(crate) fn weighted_sum_backward(
    pairs: &Pairs,
    [weights, values]: [&[f64]; 2],
    grad_output: &[f64],
) -> [Vec<f64>; 2] {
    let size = values.len() / pairs.key_rows();
    let [mut grad_weights, mut grad_values] = [weights, values].map(|input| vec![0.0; input.len()]);
    for pair in &pairs.attended {
        for v in 0..size {
            let grad_output = grad_output[pair.query * size + v];
            grad_weights[pair.at] += grad_output * values[pair.key * size + v];
            grad_values[pair.key * size + v] += grad_output * weights[pair.at];
        }
    }
    [grad_weights, grad_values]
}

/// Additive attention of queries, keys, values and weight: the scores, softmax and the weighted sum. `factors` are
/// those of the weights after softmax: 1, or with dropout 0 or `1 / (1 - probability)`.
pub(crate) fn additive_attention(
    pairs: &Pairs,
    [queries, keys, values, weight]: [&[f64]; 4],
    factors: &[f64],
) -> Vec<f64> {
    let scores = additive_score(pairs, [queries, keys, weight]);
    pool(pairs, [&scores, values], factors)
}

/// The gradients of queries, keys, values and weight.
pub(crate) fn additive_attention_backward(
    pairs: &Pairs,
    [queries, keys, values, weight]: [&[f64]; 4],
    factors: &[f64],
    grad_output: &[f64],
) -> [Vec<f64>; 4] {
    let inputs = [queries, keys, weight];
    let scores = additive_score(pairs, inputs);
    let [grad_scores, grad_values] = pool_backward(pairs, [&scores, values], factors, grad_output);
    let [grad_queries, grad_keys, grad_weight] =
        additive_score_backward(pairs, inputs, &grad_scores);
    [grad_queries, grad_keys, grad_values, grad_weight]
}

/// Dot-product attention of queries, keys, values and bias; `factors` as in [`additive_attention`].
pub(crate) fn dot_product_attention(
    pairs: &Pairs,
    [queries, keys, values, bias]: [&[f64]; 4],
    scale: f64,
    factors: &[f64],
) -> Vec<f64> {
    let scores = dot_product_score(pairs, [queries, keys], scale);
    let scores = with_bias(pairs, [&scores, bias]);
    pool(pairs, [&scores, values], factors)
}

/// The gradients of queries, keys, values and bias.
pub(crate) fn dot_product_attention_backward(
    pairs: &Pairs,
    [queries, keys, values, bias]: [&[f64]; 4],
    scale: f64,
    factors: &[f64],
    grad_output: &[f64],
) -> [Vec<f64>; 4] {
    let scores = dot_product_score(pairs, [queries, keys], scale);
    let scores = with_bias(pairs, [&scores, bias]);
    let [grad_scores, grad_values] = pool_backward(pairs, [&scores, values], factors, grad_output);
    let [grad_queries, grad_keys] =
        dot_product_score_backward(pairs, [queries, keys], scale, &grad_scores);
    let grad_bias = with_bias_backward(pairs, &grad_scores);
    [grad_queries, grad_keys, grad_values, grad_bias]
}

/// Softmax, the factors of dropout, and the weighted sum.
fn pool(pairs: &Pairs, [scores, values]: [&[f64]; 2], factors: &[f64]) -> Vec<f64> {
    let dropped = products(&softmax(pairs, scores), factors);
    weighted_sum(pairs, [&dropped, values])
}

/// The gradients of scores and values.
fn pool_backward(
    pairs: &Pairs,
    [scores, values]: [&[f64]; 2],
    factors: &[f64],
    grad_output: &[f64],
) -> [Vec<f64>; 2] {
    let dropped = products(&softmax(pairs, scores), factors);
    let [grad_dropped, grad_values] = weighted_sum_backward(pairs, [&dropped, values], grad_output);
    let grad_weights = products(&grad_dropped, factors);
    [softmax_backward(pairs, scores, &grad_weights), grad_values]
}

fn products(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}
