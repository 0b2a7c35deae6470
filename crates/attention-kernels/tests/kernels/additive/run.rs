//! Additive scores by the kernels.

use attention_kernels::{AdditiveScoreGradients, AdditiveScoreInputs, AttentionReal, Rows};
use cpu_kernels::Level;

use super::case::{Case, from_f64, to_f64};
use super::oracle::Solution;

impl Case {
    pub(crate) fn run<E: AttentionReal>(&self, level: Level) -> Solution {
        let [batch, heads, num_queries, num_keys, units] = self.sizes;
        let (queries, keys) = (from_f64::<E>(&self.queries), from_f64::<E>(&self.keys));
        let (weight, gradient) = (from_f64::<E>(&self.weight), from_f64::<E>(&self.gradient));
        let score = AdditiveScoreInputs {
            queries: Rows::contiguous(&queries, [batch, heads, num_queries, units]),
            keys: Rows::contiguous(&keys, [batch, self.key_heads, num_keys, units]),
            weight: &weight,
            mask: self.mask.mask(),
        };
        // NaN shows what is not written.
        let mut scores = vec![E::from_f64(f64::NAN); gradient.len()];
        score.forward(level, &mut scores);
        let mut to_queries = vec![E::ZERO; queries.len()];
        let mut to_keys = vec![E::ZERO; keys.len()];
        let mut to_weight = vec![E::ZERO; units];
        let gradients = AdditiveScoreGradients {
            queries: Some(&mut to_queries),
            keys: Some(&mut to_keys),
            weight: Some(&mut to_weight),
        };
        let gradient = Rows::contiguous(&gradient, [batch, heads, num_queries, num_keys]);
        score.backward(level, gradient, gradients);
        let mut alone = vec![E::ZERO; keys.len()];
        score.backward_keys(level, gradient, &mut alone);
        let [of_alone, of_keys] =
            [&alone, &to_keys].map(|of| of.iter().map(|x| x.to_f64().to_bits()));
        assert!(of_alone.eq(of_keys), "the keys alone");
        Solution {
            scores: to_f64(&scores),
            queries: to_f64(&to_queries),
            keys: to_f64(&to_keys),
            weight: to_f64(&to_weight),
        }
    }
}
