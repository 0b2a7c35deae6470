//! Scores of queries and keys.

use crate::{Pairs, Real};

/// How a score is computed.
#[derive(Clone, Copy, Debug)]
pub enum Score<'a, E> {
    /// `scale (sum_s query[s] key[s])`: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine
    /// Translation"; with `1 / sqrt(size)`, Vaswani et al. 2017, "Attention Is All You Need".
    Dot {
        /// The factor.
        scale: E,
    },
    /// `sum_u weight[u] tanh(query[u] + key[u])`: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning
    /// to Align and Translate".
    Additive {
        /// The weight of each hidden unit.
        weight: &'a [E],
    },
    /// `sum_u weight[u] f(query[u], key[u])`
    Pairwise {
        /// The weight of each hidden unit.
        weight: &'a [E],
        /// `f`, `df/dquery` and `df/dkey`.
        term: fn(E, E) -> [E; 3],
    },
}

impl<E: Real> Score<'_, E> {
    /// The scores of the pairs, and 0 where masked.
    pub fn forward(&self, pairs: &Pairs, [queries, keys]: [&[E]; 2]) -> Vec<E> {
        let size = queries.len() / pairs.query_rows().max(1);
        let mut scores = vec![E::ZERO; pairs.count()];
        for pair in &pairs.attended {
            let (query, key) = (&queries[pair.query * size..], &keys[pair.key * size..]);
            scores[pair.at] = match self {
                Self::Dot { scale } => (0..size).map(|s| query[s] * key[s]).sum::<E>() * *scale,
                Self::Additive { weight } | Self::Pairwise { weight, .. } => (0..size)
                    .map(|u| weight[u] * self.term(query[u], key[u])[0])
                    .sum(),
            };
        }
        scores
    }

    /// A unit's term for a pair, and its derivatives.
    fn term(&self, query: E, key: E) -> [E; 3] {
        if let Self::Pairwise { term, .. } = self {
            return term(query, key);
        }
        let unit = (query + key).tanh();
        let slope = E::ONE - unit * unit;
        [unit, slope, slope]
    }

    /// The gradients of queries, keys and the weight, which is empty for dot products.
    pub fn backward(
        &self,
        pairs: &Pairs,
        [queries, keys]: [&[E]; 2],
        grad_scores: &[E],
    ) -> [Vec<E>; 3] {
        let size = queries.len() / pairs.query_rows().max(1);
        let [mut grad_queries, mut grad_keys] =
            [queries, keys].map(|input| vec![E::ZERO; input.len()]);
        let mut grad_weight = match self {
            Self::Dot { .. } => Vec::new(),
            Self::Additive { weight } | Self::Pairwise { weight, .. } => {
                vec![E::ZERO; weight.len()]
            }
        };
        for pair in &pairs.attended {
            let grad = grad_scores[pair.at];
            for s in 0..size {
                let (query, key) = (pair.query * size + s, pair.key * size + s);
                match self {
                    Self::Dot { scale } => {
                        grad_queries[query] += *scale * grad * keys[key];
                        grad_keys[key] += *scale * grad * queries[query];
                    }
                    Self::Additive { weight } | Self::Pairwise { weight, .. } => {
                        let [unit, by_query, by_key] = self.term(queries[query], keys[key]);
                        grad_queries[query] += grad * weight[s] * by_query;
                        grad_keys[key] += grad * weight[s] * by_key;
                        grad_weight[s] += grad * unit;
                    }
                }
            }
        }
        [grad_queries, grad_keys, grad_weight]
    }
}
