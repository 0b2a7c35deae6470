//! Additive attention by the kernels.

use attention_kernels::AttentionReal;
use attention_kernels::{
    AdditiveScoreInputs, AttentionGradients, AttentionInputs, AttentionOutputs, KeyValueGradients,
    Mask, ModifierGradients, Rows, Score, accumulate_deferred,
};
use cpu_kernels::Level;

use super::case::Attention;
use crate::additive::case::{from_f64, to_f64};
use crate::modifiers::{Modifiers, OwnedModifiers};
use crate::oracle::{Outcome, error};

/// The gradients of [`AttentionInputs`].
struct Gradients<E> {
    queries: Vec<E>,
    keys: Vec<E>,
    values: Vec<E>,
    weight: Vec<E>,
    modifiers: OwnedModifiers<E>,
}

impl<E: AttentionReal> Gradients<E> {
    fn zeros(attention: &AttentionInputs<E>, modifiers: &OwnedModifiers<E>) -> Self {
        let Score::Additive { weight, .. } = attention.score else {
            panic!("expected additive scores");
        };
        let zeros = |rows: Rows<E>| vec![E::ZERO; rows.shape().iter().product()];
        Self {
            queries: zeros(attention.queries),
            keys: zeros(attention.keys),
            values: zeros(attention.values),
            weight: vec![E::ZERO; weight.len()],
            modifiers: modifiers.zeros(),
        }
    }

    fn parts(&self) -> [(&'static str, &[E]); 7] {
        let [bias, relative_bias, sinks] = self.modifiers.parts();
        [
            ("gradient of queries", &self.queries),
            ("gradient of keys", &self.keys),
            ("gradient of values", &self.values),
            ("gradient of weight", &self.weight),
            ("gradient of bias", bias),
            ("gradient of relative bias", relative_bias),
            ("gradient of sinks", sinks),
        ]
    }
}

/// All gradients at once.
fn whole<E: AttentionReal>(
    attention: &AttentionInputs<E>,
    level: Level,
    outputs: &AttentionOutputs<E>,
    modifiers: &OwnedModifiers<E>,
) -> Gradients<E> {
    let mut gradients = Gradients::zeros(attention, modifiers);
    let to = AttentionGradients {
        queries: Some(&mut gradients.queries),
        keys_and_values: KeyValueGradients::Added {
            keys: Some(&mut gradients.keys),
            values: Some(&mut gradients.values),
        },
        modifiers: gradients.modifiers.wanted(),
        weight: Some(&mut gradients.weight),
    };
    attention.backward(level, outputs, to);
    gradients
}

/// NaN is NaN, whatever its bits.
fn assert_same_bits<E: AttentionReal>(name: &str, saved: &[E], computed: &[E]) {
    let bits = |x: f64| if x.is_nan() { f64::NAN } else { x }.to_bits();
    let is_same = |(a, b): (&f64, &f64)| bits(*a) == bits(*b);
    let (saved, computed) = (to_f64(saved), to_f64(computed));
    let differs = saved.iter().zip(&computed).position(|pair| !is_same(pair));
    assert_eq!(differs, None, "{name}, first element that differs");
}

/// The deferred gradients; for keys and values, the queries of each group are concatenated.
fn deferred<E: AttentionReal>(
    attention: &AttentionInputs<E>,
    level: Level,
    outputs: &AttentionOutputs<E>,
    queries: &[E],
    context_gradient: &[E],
) -> Gradients<E> {
    let [batch, heads, num_queries, units] = attention.queries.shape();
    let [_, key_heads, num_keys, size] = attention.values.shape();
    let none = Modifiers::NONE.with_elements([0; 4], |_| Vec::new());
    let mut gradients = Gradients::zeros(attention, &none);
    let mut scores = vec![E::ZERO; batch * heads * num_queries * num_keys];
    let mut weights = scores.clone();
    let to = AttentionGradients {
        queries: Some(&mut gradients.queries),
        keys_and_values: KeyValueGradients::Deferred {
            scores: Some(&mut scores),
            weights: Some(&mut weights),
        },
        modifiers: ModifierGradients::NONE,
        weight: Some(&mut gradients.weight),
    };
    attention.backward(level, outputs, to);
    let grouped = [batch, key_heads, heads / key_heads * num_queries];
    let shape = |size| [grouped[0], grouped[1], grouped[2], size];
    let rows = Rows::contiguous(context_gradient, shape(size));
    accumulate_deferred(level, E::ONE, &weights, rows, &mut gradients.values);
    // Masked pairs are 0 there, so that no mask is needed.
    let Score::Additive { weight, .. } = attention.score else {
        panic!("expected additive scores");
    };
    let score = AdditiveScoreInputs {
        queries: Rows::contiguous(queries, shape(units)),
        keys: attention.keys,
        weight,
        mask: Mask::none(),
    };
    let scores = Rows::contiguous(&scores, shape(num_keys));
    score.backward_keys(level, scores, &mut gradients.keys);
    gradients
}

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
        let of_keys = |size| [batch, case.key_heads, num_keys, size];
        let key_rows = Rows::contiguous(&keys, of_keys(units));
        let packed =
            packed.then(|| AdditiveScoreInputs::packed_keys(key_rows, mask, num_queries, level));
        let attention = AttentionInputs {
            queries: Rows::contiguous(&queries, [batch, heads, num_queries, units]),
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
        let nan = E::from_f64(f64::NAN);
        let mut context = vec![nan; gradient.len()];
        let mut lse = vec![[f64::NAN; 2]; batch * heads * num_queries];
        attention.forward(level, &mut context, &mut lse);
        let shape = [batch, heads, num_queries, self.value_size];
        let outputs = AttentionOutputs {
            context: Rows::contiguous(&context, shape),
            lse: &lse,
            weights: None,
            context_gradient: Rows::contiguous(&gradient, shape),
        };
        let gradients = whole(&attention, level, &outputs, &modifiers);
        if attention.is_decode() {
            let (mut saving, mut saving_lse) =
                (vec![nan; context.len()], vec![[f64::NAN; 2]; lse.len()]);
            let mut weights = vec![nan; lse.len() * num_keys];
            attention.forward_saving(level, &mut saving, &mut saving_lse, &mut weights);
            assert_same_bits("context", &saving, &context);
            assert_same_bits("log-sum-exp", saving_lse.as_flattened(), lse.as_flattened());
            let saved = AttentionOutputs {
                weights: Some(&weights),
                ..outputs
            };
            let from_saved = whole(&attention, level, &saved, &modifiers);
            for ((name, saved), (_, computed)) in from_saved.parts().iter().zip(gradients.parts()) {
                assert_same_bits(name, saved, computed);
            }
            for outputs in [outputs, saved] {
                let deferred = deferred(&attention, level, &outputs, &queries, &gradient);
                for ((name, deferred), (_, whole)) in deferred.parts().iter().zip(gradients.parts())
                {
                    let (found, magnitude) = error(&to_f64(deferred), &to_f64(whole));
                    let bound = if size_of::<E>() == 4 { 2e-6 } else { 4e-15 } * magnitude;
                    assert!(found <= bound, "deferred {name}: {found:e} above {bound:e}");
                }
            }
        }
        let gradients = gradients.parts();
        let lse = lse
            .iter()
            .map(|terms| attention.log_sum_exp(*terms))
            .collect();
        let mut outcome = vec![("context", to_f64(&context)), ("log-sum-exp", lse)];
        outcome.extend(gradients.map(|(name, elements)| (name, to_f64(elements))));
        outcome
    }
}
