//! The kernels, forward and backward.

use attention_kernels::{
    AttentionGradients, AttentionInputs, AttentionOutputs, AttentionReal, KeyValueGradients,
    LogSumExp, Mask, Rows, Score, accumulate_deferred,
};
use cpu_kernels::Level;

use super::case::{Case, Inputs};
use crate::modifiers::OwnedModifiers;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results<E> {
    pub(crate) context: Vec<E>,
    pub(crate) lse: Vec<f64>,
    /// Its terms, as the kernel keeps them; none of the plain loops.
    pub(crate) terms: Vec<LogSumExp>,
    pub(crate) queries: Vec<E>,
    pub(crate) keys: Vec<E>,
    pub(crate) values: Vec<E>,
    pub(crate) modifiers: OwnedModifiers<E>,
}

impl<E: AttentionReal> Results<E> {
    pub(crate) fn fields(&self) -> [(&'static str, Vec<f64>); 8] {
        let wide = |elements: &[E]| elements.iter().map(|x| x.to_f64()).collect();
        let [bias, relative_bias, sinks] = self.modifiers.parts();
        [
            ("context", wide(&self.context)),
            ("lse", self.lse.clone()),
            ("query gradient", wide(&self.queries)),
            ("key gradient", wide(&self.keys)),
            ("value gradient", wide(&self.values)),
            ("bias gradient", wide(bias)),
            ("relative bias gradient", wide(relative_bias)),
            ("sink gradient", wide(sinks)),
        ]
    }

    /// Every bit of every element.
    pub(crate) fn bits(&self) -> Vec<u64> {
        let fields = self.fields();
        fields
            .iter()
            .flat_map(|(_, elements)| elements.iter().map(|x| x.to_bits()))
            .collect()
    }

    pub(crate) fn assert_finite(&self, except_lse: bool) {
        for (name, elements) in self.fields() {
            if !(except_lse && name == "lse") {
                assert!(
                    elements.iter().all(|x| x.is_finite()),
                    "{name} is not finite"
                );
            }
        }
    }
}

/// The kernels, forward and backward.
pub(crate) fn kernels<E: AttentionReal>(
    level: Level,
    case: &Case,
    inputs: &Inputs<E>,
    mask: Mask,
) -> Results<E> {
    let attention = inputs.attention(case, mask);
    let gradient = case.of_queries(&inputs.context_gradient, case.value_size);
    let results = run(level, &attention, gradient, inputs.modifiers.zeros());
    if attention.is_decode() {
        assert_deferred_agrees(level, &attention, inputs, &results);
    }
    results
}

/// Forward, then backward into zeros, for modifiers into the given ones.
pub(crate) fn run<E: AttentionReal>(
    level: Level,
    attention: &AttentionInputs<E>,
    context_gradient: Rows<E>,
    modifiers: OwnedModifiers<E>,
) -> Results<E> {
    let [batch, heads, queries, size] = attention.queries.shape();
    let [_, key_heads, keys, value_size] = attention.values.shape();
    let poison = E::from_f64(f64::NAN);
    let mut results = Results {
        context: vec![poison; batch * heads * queries * value_size],
        lse: Vec::new(),
        terms: vec![[f64::NAN; 2]; batch * heads * queries],
        queries: vec![E::ZERO; batch * heads * queries * size],
        keys: vec![E::ZERO; batch * key_heads * keys * size],
        values: vec![E::ZERO; batch * key_heads * keys * value_size],
        modifiers,
    };
    let Results { context, terms, .. } = &mut results;
    attention.forward(level, context, terms);
    results.lse = terms
        .iter()
        .map(|terms| attention.log_sum_exp(*terms))
        .collect();
    let gradients = AttentionGradients {
        queries: Some(&mut results.queries),
        keys_and_values: KeyValueGradients::Added {
            keys: Some(&mut results.keys),
            values: Some(&mut results.values),
        },
        modifiers: results.modifiers.wanted(),
        weight: None,
    };
    let outputs = AttentionOutputs {
        context: Rows::contiguous(&results.context, context_gradient.shape()),
        lse: &results.terms,
        weights: None,
        context_gradient,
    };
    attention.backward(level, &outputs, gradients);
    results
}

pub(crate) fn same_bits(a: &[f32], b: &[f32]) -> bool {
    let bits = |elements: &[f32]| elements.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    bits(a) == bits(b)
}

/// Deferred gradients agree: of queries and modifiers, and of keys and values accumulated with the queries of each
/// group of heads concatenated.
fn assert_deferred_agrees<E: AttentionReal>(
    level: Level,
    attention: &AttentionInputs<E>,
    inputs: &Inputs<E>,
    whole: &Results<E>,
) {
    let [batch, heads, queries, size] = attention.queries.shape();
    let [_, key_heads, keys, value_size] = attention.values.shape();
    let mut scores = vec![E::ZERO; batch * heads * queries * keys];
    let mut weights = scores.clone();
    let mut of_queries = vec![E::ZERO; whole.queries.len()];
    let mut of_modifiers = whole.modifiers.zeros();
    let gradients = AttentionGradients {
        queries: Some(&mut of_queries),
        keys_and_values: KeyValueGradients::Deferred {
            scores: Some(&mut scores),
            weights: Some(&mut weights),
        },
        modifiers: of_modifiers.wanted(),
        weight: None,
    };
    let shape = [batch, heads, queries, value_size];
    let outputs = AttentionOutputs {
        context: Rows::contiguous(&whole.context, shape),
        lse: &whole.terms,
        weights: None,
        context_gradient: Rows::contiguous(&inputs.context_gradient, shape),
    };
    attention.backward(level, &outputs, gradients);
    let mut of_keys = vec![E::ZERO; whole.keys.len()];
    let mut of_values = vec![E::ZERO; whole.values.len()];
    let grouped = |size| [batch, key_heads, heads / key_heads * queries, size];
    let rows = Rows::contiguous(&inputs.queries, grouped(size));
    let Score::DotProduct { scale } = attention.score else {
        panic!("expected dot products");
    };
    accumulate_deferred(level, scale, &scores, rows, &mut of_keys);
    let rows = Rows::contiguous(&inputs.context_gradient, grouped(value_size));
    accumulate_deferred(level, E::ONE, &weights, rows, &mut of_values);
    let [bias, relative_bias, sinks] = of_modifiers.parts();
    let [whole_bias, whole_relative_bias, whole_sinks] = whole.modifiers.parts();
    let pairs: [(&str, &[E], &[E]); 6] = [
        ("queries", &of_queries, &whole.queries),
        ("bias", bias, whole_bias),
        ("relative bias", relative_bias, whole_relative_bias),
        ("sinks", sinks, whole_sinks),
        ("keys", &of_keys, &whole.keys),
        ("values", &of_values, &whole.values),
    ];
    for (name, deferred, whole) in pairs {
        let finite = whole.iter().map(|x| x.to_f64().abs());
        let magnitude = finite.filter(|x| x.is_finite()).fold(0.0, f64::max);
        let bound = if size_of::<E>() == 4 { 2e-6 } else { 4e-15 } * magnitude;
        for (deferred, whole) in deferred.iter().zip(whole) {
            let (deferred, whole) = (deferred.to_f64(), whole.to_f64());
            let is_near = (deferred - whole).abs() <= bound;
            assert!(
                is_near
                    || deferred.to_bits() == whole.to_bits()
                    || deferred.is_nan() && whole.is_nan(),
                "deferred {name}: {deferred:e}, not {whole:e}"
            );
        }
    }
}
