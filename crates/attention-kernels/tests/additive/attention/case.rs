//! Inputs of additive attention, and what plain loops make of them.

use attention_kernels::AttentionReal;
use attention_kernels::{Dropout, HeadIndex};

use crate::case::{Case, elements};
use crate::modifiers::{Modifiers, OwnedModifiers};
use crate::oracle::{from_f64, to_f64};

/// Inputs of attention: those of its scores, and the rest.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    pub(super) case: Case,
    pub(super) value_size: usize,
    pub(super) values: Vec<f64>,
    pub(super) context_gradient: Vec<f64>,
    pub(super) modifiers: OwnedModifiers<f64>,
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
            modifiers: Modifiers::NONE.with_elements([0; 4], |_| Vec::new()),
            dropout: None,
            case,
        }
    }

    /// With elements of modifiers.
    pub(super) fn with_modifiers(mut self, modifiers: Modifiers) -> Self {
        let [batch, heads, queries, keys, _] = self.case.sizes;
        let mut seed = 6;
        let draw = |count| {
            seed += 1;
            elements(seed, count)
        };
        self.modifiers = modifiers.with_elements([batch, heads, queries, keys], draw);
        self
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
        let modifiers = self.modifiers.map(E::from_f64);
        let mut modifier_gradients = modifiers.zeros();
        for row in 0..lse.len() {
            let (head, query) = (row / num_queries, row % num_queries);
            let pair = |key| [head / heads, head % heads, query, key];
            let modified =
                |key: usize| modifiers.modify(scores[row * num_keys + key], num_queries, pair(key));
            let score = |key| modified(key)[0];
            let is_attended =
                |key: &usize| self.case.attends(head, query, *key) && score(*key) != -E::INFINITY;
            let keys: Vec<usize> = (0..num_keys).filter(is_attended).collect();
            let sink = modifiers.sinks.as_ref().map(|sinks| sinks[head % heads]);
            let sink = sink.filter(|sink| *sink != -E::INFINITY);
            if keys.is_empty() {
                lse[row] = sink.map_or(f64::NEG_INFINITY, E::to_f64);
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
            let logits = keys.iter().map(|key| score(*key)).chain(sink);
            let most = logits.fold(-E::INFINITY, |most, x| if x > most { x } else { most });
            let of_sink = sink.map_or(E::ZERO, |sink| (sink - most).exp());
            let of_keys = keys.iter().map(|key| (score(*key) - most).exp());
            let sum = of_keys.sum::<E>() + of_sink;
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
            if let Some(sinks) = &mut modifier_gradients.sinks {
                sinks[head % heads] += -(of_sink / sum * total);
            }
            for &key in &keys {
                let gradient_of_score = weight(key) * (weight_gradient(key) - total);
                modifier_gradients.add_gradient(gradient_of_score, num_queries, pair(key));
                score_gradients[row * num_keys + key] = gradient_of_score * modified(key)[1];
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
        let [bias, relative_bias, sinks] = modifier_gradients.parts();
        vec![
            ("context", to_f64(&context)),
            ("log-sum-exp", lse),
            ("gradient of queries", scored.queries),
            ("gradient of keys", scored.keys),
            ("gradient of values", to_f64(&to_values)),
            ("gradient of weight", scored.weight),
            ("gradient of bias", to_f64(bias)),
            ("gradient of relative bias", to_f64(relative_bias)),
            ("gradient of sinks", to_f64(sinks)),
        ]
    }
}
