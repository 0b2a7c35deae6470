//! Additive attention by the kernels.

use attention_kernels::{AdditiveScoreInputs, AttentionInputs, AttentionReal, Rows, Score};
use cpu_kernels::Level;

use super::case::Attention;
use crate::additive::case::from_f64;
use crate::oracle::Outcome;
use crate::run::{assert_deferred_agrees, assert_saved_agrees, run};

impl Attention {
    /// With keys packed before or not.
    pub(super) fn run<E: AttentionReal>(&self, level: Level, packed: bool) -> Outcome {
        let case = &self.case;
        let [batch, heads, num_queries, num_keys, units] = case.sizes;
        let (queries, keys) = (from_f64::<E>(&case.queries), from_f64::<E>(&case.keys));
        let (weight, values) = (from_f64::<E>(&case.weight), from_f64::<E>(&self.values));
        let gradient = from_f64::<E>(&self.context_gradient);
        let modifiers = self.modifiers.map(E::from_f64);
        let mask = case.mask.mask();
        let of_queries = |size| [batch, heads, num_queries, size];
        let of_keys = |size| [batch, case.key_heads, num_keys, size];
        let key_rows = Rows::contiguous(&keys, of_keys(units));
        let packed_keys = || AdditiveScoreInputs::packed_keys(key_rows, mask, num_queries, level);
        let packed = packed.then(packed_keys);
        let attention = AttentionInputs {
            queries: Rows::contiguous(&queries, of_queries(units)),
            keys: key_rows,
            values: Rows::contiguous(&values, of_keys(self.value_size)),
            score: Score::Additive {
                weight: &weight,
                packed_keys: packed.as_deref(),
            },
            mask,
            modifiers: modifiers.view(),
            dropout: self.dropout,
        };
        let gradient_rows = Rows::contiguous(&gradient, of_queries(self.value_size));
        let results = run(level, &attention, gradient_rows, modifiers.zeros());
        if attention.is_decode() {
            results.assert_finite(true);
            let weights = assert_saved_agrees(level, &attention, gradient_rows, &results);
            for weights in [None, Some(&weights[..])] {
                let elements = [&queries[..], &gradient];
                assert_deferred_agrees(level, &attention, weights, elements, &results);
            }
        }
        results.outcome()
    }
}
