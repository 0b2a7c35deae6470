//! Inputs of additive attention, and what plain loops make of them.

use attention_kernels::AttentionReal;
use attention_kernels::{Dropout, HeadIndex};

use crate::case::{Case, elements};
use crate::oracle::{from_f64, to_f64};

/// Inputs of attention: those of its scores, and the rest.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    pub(super) case: Case,
    pub(super) value_size: usize,
    pub(super) values: Vec<f64>,
    pub(super) context_gradient: Vec<f64>,
    pub(super) dropout: Option<Dropout>,
}

/// Context, log-sum-exp and gradients, by name.
pub(super) type Outcome = Vec<(&'static str, Vec<f64>)>;

impl Attention {
    pub(super) fn new(case: Case, value_size: usize) -> Self {
        let [batch, heads, queries, keys, _] = case.sizes;
        Self {
            value_size,
            values: elements(5, batch * case.key_heads * keys * value_size),
            context_gradient: elements(6, batch * heads * queries * value_size),
            dropout: None,
            case,
        }
    }

    /// By plain loops in arithmetic of type `E`.
    pub(super) fn solve<E: AttentionReal>(&self) -> Outcome {
        let [_, heads, num_queries, num_keys, _] = self.case.sizes;
        let size = self.value_size;
        let scores: Vec<E> = from_f64(&self.case.solve::<E>().scores);
        let values: Vec<E> = from_f64(&self.values);
        let gradient: Vec<E> = from_f64(&self.context_gradient);
        let mut context = vec![E::ZERO; gradient.len()];
        let mut lse = vec![f64::NEG_INFINITY; scores.len() / num_keys.max(1)];
        let mut to_values = vec![E::ZERO; values.len()];
        let mut score_gradients = vec![E::ZERO; scores.len()];
        for row in 0..lse.len() {
            let (head, query) = (row / num_queries, row % num_queries);
            let attended = (0..num_keys).filter(|key| self.case.attends(head, query, *key));
            let keys: Vec<usize> = attended.collect();
            if keys.is_empty() {
                continue;
            }
            let mut factors = vec![E::ONE; num_keys];
            if let Some(dropout) = self.dropout {
                let at = HeadIndex {
                    batch: head / heads,
                    head: head % heads,
                };
                dropout.factors(at, query, 0, &mut factors);
            }
            let score = |key: usize| scores[row * num_keys + key];
            let most = keys.iter().fold(-E::INFINITY, |most, key| {
                if score(*key) > most {
                    score(*key)
                } else {
                    most
                }
            });
            let sum: E = keys.iter().map(|key| (score(*key) - most).exp()).sum();
            lse[row] = most.to_f64() + sum.to_f64().ln();
            let weight = |key: usize| (score(key) - most).exp() / sum;
            let value_row = |key: usize| (self.case.key_head(head) * num_keys + key) * size;
            let gradient = &gradient[row * size..(row + 1) * size];
            let weight_gradient = |key: usize| -> E {
                let value = &values[value_row(key)..][..size];
                let products = value.iter().zip(gradient).map(|(v, g)| *v * *g);
                products.sum::<E>() * factors[key]
            };
            let terms = keys.iter().map(|key| weight(*key) * weight_gradient(*key));
            let total: E = terms.sum();
            for &key in &keys {
                score_gradients[row * num_keys + key] =
                    weight(key) * (weight_gradient(key) - total);
                for x in 0..size {
                    let at = value_row(key) + x;
                    context[row * size + x] += weight(key) * factors[key] * values[at];
                    to_values[at] += weight(key) * factors[key] * gradient[x];
                }
            }
        }
        let scored = Case {
            gradient: to_f64(&score_gradients),
            ..self.case.clone()
        }
        .solve::<E>();
        vec![
            ("context", to_f64(&context)),
            ("log-sum-exp", lse),
            ("gradient of queries", scored.queries),
            ("gradient of keys", scored.keys),
            ("gradient of values", to_f64(&to_values)),
            ("gradient of weight", scored.weight),
        ]
    }
}
