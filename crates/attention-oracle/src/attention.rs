//! Attention: scores, modifiers, softmax, dropout and the weighted sum, each stored, and their gradients.

use crate::modifiers::distance;
use crate::{Bias, Modifiers, Pair, Pairs, Real, Score};

/// The inputs of attention.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a, E> {
    /// The pairs that the mask allows; pairs that a bias masks are left out, too.
    pub pairs: &'a Pairs,
    /// How scores are computed.
    pub score: Score<'a, E>,
    /// `[batch, heads, queries, size]`
    pub queries: &'a [E],
    /// `[batch, key_heads, keys, size]`
    pub keys: &'a [E],
    /// `[batch, key_heads, keys, value_size]`
    pub values: &'a [E],
    /// The size of a value, which cannot be derived from the values if there are none.
    pub value_size: usize,
    /// The modifications of the scores.
    pub modifiers: Modifiers<'a, E>,
    /// The factors on the weights after softmax, `[batch, heads, queries, keys]`: with dropout 0 or `1 / (1 -
    /// probability)`; 1 if absent.
    pub factors: Option<&'a [E]>,
}

/// The results of a forward pass.
#[derive(Clone, Debug)]
pub struct AttentionOutputs<E> {
    /// `[batch, heads, queries, value_size]`, 0 for a query without keys.
    pub context: Vec<E>,
    /// The logarithm of the sum of exponentials of each query, including the logits of sinks.
    pub log_sum_exp: Vec<f64>,
    /// `[batch, heads, queries, keys]`, before the factors.
    pub weights: Vec<E>,
    /// The weight of the sink of each query.
    sink_weights: Vec<E>,
    /// The pairs with a weight, and the derivatives of their soft-caps.
    attended: Vec<(Pair, E)>,
}

/// The gradients of attention, each in the shape of its input; empty if there is no such input.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct AttentionGradients<E> {
    pub queries: Vec<E>,
    pub keys: Vec<E>,
    pub values: Vec<E>,
    pub weight: Vec<E>,
    pub bias: Vec<E>,
    pub relative_bias: Vec<E>,
    pub sinks: Vec<E>,
}

impl<E: Real> Attention<'_, E> {
    /// Context, weights and log-sum-exp.
    pub fn forward(&self) -> AttentionOutputs<E> {
        let (pairs, rows) = (self.pairs, self.pairs.query_rows());
        let mut scores = self.score.forward(pairs, [self.queries, self.keys]);
        let mut attended = Vec::new();
        for pair in &pairs.attended {
            let score = scores[pair.at];
            let [modified, slope] = self.modifiers.modify(score, pairs.axes.queries, pair.place);
            scores[pair.at] = modified;
            if modified != E::MASKED {
                attended.push((*pair, slope));
            }
        }
        let mut outputs = AttentionOutputs {
            context: vec![E::ZERO; rows * self.value_size],
            log_sum_exp: vec![f64::NEG_INFINITY; rows],
            weights: vec![E::ZERO; pairs.count()],
            sink_weights: vec![E::ZERO; rows],
            attended,
        };
        let sink = |row| self.modifiers.sinks.map(|sinks| sinks[pairs.head(row)]);
        for row in 0..rows {
            outputs.log_sum_exp[row] = sink(row).map_or(f64::NEG_INFINITY, E::wide);
        }
        let attended = &outputs.attended;
        for of_query in attended.chunk_by(|(a, _), (b, _)| a.query == b.query) {
            let row = of_query[0].0.query;
            let sink = sink(row).filter(|sink| *sink != E::MASKED);
            let logits = of_query.iter().map(|(pair, _)| scores[pair.at]).chain(sink);
            let greatest = logits.fold(E::MASKED, |most, x| if x > most { x } else { most });
            let power = |score: E| (score - greatest).exp();
            let of_sink = sink.map_or(E::ZERO, power);
            let of_keys = of_query.iter().map(|(pair, _)| power(scores[pair.at]));
            let sum = of_keys.sum::<E>() + of_sink;
            outputs.log_sum_exp[row] = greatest.wide() + sum.wide().ln();
            outputs.sink_weights[row] = of_sink / sum;
            for (pair, _) in of_query {
                let weight = power(scores[pair.at]) / sum;
                outputs.weights[pair.at] = weight;
                for v in 0..self.value_size {
                    let value = self.values[pair.key * self.value_size + v];
                    let kept = weight * self.factor(pair);
                    outputs.context[row * self.value_size + v] += kept * value;
                }
            }
        }
        outputs
    }

    /// The gradients of all inputs, from the gradient of the context.
    pub fn backward(
        &self,
        outputs: &AttentionOutputs<E>,
        grad_context: &[E],
    ) -> AttentionGradients<E> {
        let (pairs, size) = (self.pairs, self.value_size);
        let modifiers = &self.modifiers;
        let zeros = |len: usize| vec![E::ZERO; len];
        let of_bias = |bias: Option<Bias<E>>| zeros(bias.map_or(0, |bias| bias.elements.len()));
        let mut grad_scores = zeros(pairs.count());
        let mut gradients = AttentionGradients {
            queries: Vec::new(),
            keys: Vec::new(),
            values: zeros(self.values.len()),
            weight: Vec::new(),
            bias: of_bias(modifiers.bias),
            relative_bias: of_bias(modifiers.relative_bias),
            sinks: zeros(modifiers.sinks.map_or(0, <[E]>::len)),
        };
        let attended = &outputs.attended;
        for of_query in attended.chunk_by(|(a, _), (b, _)| a.query == b.query) {
            let row = of_query[0].0.query;
            let grad_context = &grad_context[row * size..][..size];
            let weight = |pair: &Pair| outputs.weights[pair.at];
            let grad_weight = |pair: &Pair| {
                let value = &self.values[pair.key * size..];
                (0..size).map(|v| grad_context[v] * value[v]).sum::<E>() * self.factor(pair)
            };
            let term = |(pair, _): &(Pair, E)| weight(pair) * grad_weight(pair);
            let mean: E = of_query.iter().map(term).sum();
            if modifiers.sinks.is_some() {
                gradients.sinks[pairs.head(row)] += -(outputs.sink_weights[row] * mean);
            }
            for (pair, slope) in of_query {
                let grad = weight(pair) * (grad_weight(pair) - mean);
                if let Some(bias) = modifiers.bias {
                    gradients.bias[bias.position(pair.place)] += grad;
                }
                if let Some(bias) = modifiers.relative_bias {
                    let place = distance(pairs.axes.queries, pair.place);
                    gradients.relative_bias[bias.position(place)] += grad;
                }
                grad_scores[pair.at] = grad * *slope;
                for v in 0..size {
                    let kept = weight(pair) * self.factor(pair);
                    gradients.values[pair.key * size + v] += kept * grad_context[v];
                }
            }
        }
        let inputs = [self.queries, self.keys];
        let attended = outputs.attended.iter().map(|(pair, _)| *pair).collect();
        let pairs = &Pairs {
            attended,
            axes: pairs.axes,
        };
        let [queries, keys, weight] = self.score.backward(pairs, inputs, &grad_scores);
        AttentionGradients {
            queries,
            keys,
            weight,
            ..gradients
        }
    }

    fn factor(&self, pair: &Pair) -> E {
        self.factors.map_or(E::ONE, |factors| factors[pair.at])
    }
}
