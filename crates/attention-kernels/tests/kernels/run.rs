//! Attention by the kernels, forward and backward.

use attention_kernels::{
    AdditiveScoreInputs, AttentionGradients, AttentionInputs, AttentionOutputs, AttentionReal,
    KeyValueGradients, LogSumExp, Mask, Rows, Score, accumulate_deferred,
};
use cpu_kernels::Level;

use crate::modifiers::OwnedModifiers;
use crate::oracle::Outcome;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results<E> {
    pub(crate) context: Vec<E>,
    pub(crate) lse: Vec<f64>,
    /// Its terms, as the kernel keeps them.
    terms: Vec<LogSumExp>,
    pub(crate) queries: Vec<E>,
    pub(crate) keys: Vec<E>,
    pub(crate) values: Vec<E>,
    /// The weight of additive scores.
    weight: Option<Vec<E>>,
    pub(crate) modifiers: OwnedModifiers<E>,
}

impl<E: AttentionReal> Results<E> {
    /// NaN for the outputs, zeros for the gradients, for modifiers the given ones.
    fn new(attention: &AttentionInputs<E>, modifiers: OwnedModifiers<E>) -> Self {
        let [batch, heads, queries, _] = attention.queries.shape();
        let [.., value_size] = attention.values.shape();
        let rows = batch * heads * queries;
        let zeros = |rows: Rows<E>| vec![E::ZERO; rows.shape().iter().product()];
        Self {
            context: vec![E::from_f64(f64::NAN); rows * value_size],
            lse: Vec::new(),
            terms: vec![[f64::NAN; 2]; rows],
            queries: zeros(attention.queries),
            keys: zeros(attention.keys),
            values: zeros(attention.values),
            weight: match attention.score {
                Score::Additive { weight, .. } => Some(vec![E::ZERO; weight.len()]),
                _ => None,
            },
            modifiers,
        }
    }

    fn add_log_sum_exp(&mut self, attention: &AttentionInputs<E>) {
        let terms = self.terms.iter();
        self.lse = terms.map(|of| attention.log_sum_exp(*of)).collect();
    }

    /// Adds the gradients, which come from the saved weights if there are any.
    pub(crate) fn backward(
        &mut self,
        level: Level,
        attention: &AttentionInputs<E>,
        weights: Option<&[E]>,
        context_gradient: Rows<E>,
    ) {
        let gradients = AttentionGradients {
            queries: Some(&mut self.queries),
            keys_and_values: KeyValueGradients::Added {
                keys: Some(&mut self.keys),
                values: Some(&mut self.values),
            },
            modifiers: self.modifiers.wanted(),
            weight: self.weight.as_deref_mut(),
        };
        let outputs = AttentionOutputs {
            context: Rows::contiguous(&self.context, context_gradient.shape()),
            lse: &self.terms,
            weights,
            context_gradient,
        };
        attention.backward(level, &outputs, gradients);
    }

    /// The results by name, in the order of the plain loops' ones.
    pub(crate) fn outcome(&self) -> Outcome {
        let wide = |elements: &[E]| elements.iter().map(|x| x.to_f64()).collect();
        let [bias, relative_bias, sinks] = self.modifiers.parts();
        let weight = self.weight.as_deref();
        let mut outcome = vec![
            ("context", wide(&self.context)),
            ("log-sum-exp", self.lse.clone()),
            ("gradient of queries", wide(&self.queries)),
            ("gradient of keys", wide(&self.keys)),
            ("gradient of values", wide(&self.values)),
        ];
        outcome.extend(weight.map(|weight| ("gradient of weight", wide(weight))));
        outcome.extend([
            ("gradient of bias", wide(bias)),
            ("gradient of relative bias", wide(relative_bias)),
            ("gradient of sinks", wide(sinks)),
        ]);
        outcome
    }

    /// Every bit of every element.
    pub(crate) fn bits(&self) -> Vec<u64> {
        let outcome = self.outcome().into_iter();
        let elements = outcome.flat_map(|(_, elements)| elements);
        elements.map(f64::to_bits).collect()
    }

    pub(crate) fn assert_finite(&self, except_lse: bool) {
        for (name, elements) in self.outcome() {
            let is_finite = elements.iter().all(|x| x.is_finite());
            let is_excepted = except_lse && name == "log-sum-exp";
            assert!(is_finite || is_excepted, "{name} is not finite");
        }
    }
}

/// Forward, then backward into zeros, for modifiers into the given ones.
pub(crate) fn run<E: AttentionReal>(
    level: Level,
    attention: &AttentionInputs<E>,
    context_gradient: Rows<E>,
    modifiers: OwnedModifiers<E>,
) -> Results<E> {
    let mut results = Results::new(attention, modifiers);
    attention.forward(level, &mut results.context, &mut results.terms);
    results.add_log_sum_exp(attention);
    results.backward(level, attention, None, context_gradient);
    results
}

/// Decoding whose weights are saved gives the same bits, forward and backward from the weights, which are returned.
pub(crate) fn assert_saved_agrees<E: AttentionReal>(
    level: Level,
    attention: &AttentionInputs<E>,
    context_gradient: Rows<E>,
    whole: &Results<E>,
) -> Vec<E> {
    let mut saved = Results::new(attention, whole.modifiers.zeros());
    let [_, _, keys, _] = attention.keys.shape();
    let mut weights = vec![E::from_f64(f64::NAN); saved.terms.len() * keys];
    attention.forward_saving(level, &mut saved.context, &mut saved.terms, &mut weights);
    saved.add_log_sum_exp(attention);
    saved.backward(level, attention, Some(&weights), context_gradient);
    let bits = |terms: &[LogSumExp]| terms.as_flattened().iter().map(|x| x.to_bits()).collect();
    let [of_saved, of_whole]: [Vec<u64>; 2] = [&saved.terms, &whole.terms].map(|of| bits(of));
    assert_eq!(of_saved, of_whole, "terms of log-sum-exp");
    for ((name, saved), (_, whole)) in saved.outcome().iter().zip(&whole.outcome()) {
        let mut pairs = saved.iter().zip(whole);
        let differs = pairs.position(|(a, b)| a.to_bits() != b.to_bits());
        assert_eq!(differs, None, "{name}, first element that differs");
    }
    weights
}

/// Deferred gradients agree with the whole: of queries, weight and modifiers, and of keys and values accumulated with
/// the queries of each group of heads concatenated.
pub(crate) fn assert_deferred_agrees<E: AttentionReal>(
    level: Level,
    attention: &AttentionInputs<E>,
    weights: Option<&[E]>,
    [queries, context_gradient]: [&[E]; 2],
    whole: &Results<E>,
) {
    let [batch, heads, num_queries, size] = attention.queries.shape();
    let [_, key_heads, num_keys, value_size] = attention.values.shape();
    let mut deferred = Results::new(attention, whole.modifiers.zeros());
    let mut of_scores = vec![E::ZERO; whole.terms.len() * num_keys];
    let mut of_weights = of_scores.clone();
    let gradients = AttentionGradients {
        queries: Some(&mut deferred.queries),
        keys_and_values: KeyValueGradients::Deferred {
            scores: Some(&mut of_scores),
            weights: Some(&mut of_weights),
        },
        modifiers: deferred.modifiers.wanted(),
        weight: deferred.weight.as_deref_mut(),
    };
    let shape = [batch, heads, num_queries, value_size];
    let outputs = AttentionOutputs {
        context: Rows::contiguous(&whole.context, shape),
        lse: &whole.terms,
        weights,
        context_gradient: Rows::contiguous(context_gradient, shape),
    };
    attention.backward(level, &outputs, gradients);
    let grouped = |size| [batch, key_heads, heads / key_heads * num_queries, size];
    let rows = Rows::contiguous(context_gradient, grouped(value_size));
    accumulate_deferred(level, E::ONE, &of_weights, rows, &mut deferred.values);
    let rows = Rows::contiguous(queries, grouped(size));
    match attention.score {
        Score::DotProduct { scale } => {
            accumulate_deferred(level, scale, &of_scores, rows, &mut deferred.keys);
        }
        Score::Additive { weight, .. } => {
            // Masked pairs are 0 there, so that no mask is needed.
            let score = AdditiveScoreInputs {
                queries: rows,
                keys: attention.keys,
                weight,
                mask: Mask::none(),
            };
            let of_scores = Rows::contiguous(&of_scores, grouped(num_keys));
            score.backward_keys(level, of_scores, &mut deferred.keys);
        }
        _ => panic!("expected dot products or additive scores"),
    }
    let pairs = deferred.outcome().into_iter().zip(whole.outcome());
    for ((name, deferred), (_, whole)) in pairs.skip(2) {
        let finite = whole.iter().map(|x| x.abs()).filter(|x| x.is_finite());
        let bound = if size_of::<E>() == 4 { 2e-6 } else { 4e-15 } * finite.fold(0.0, f64::max);
        for (deferred, whole) in deferred.iter().zip(&whole) {
            let is_same =
                deferred.to_bits() == whole.to_bits() || deferred.is_nan() && whole.is_nan();
            let is_close = is_same || (deferred - whole).abs() <= bound;
            assert!(is_close, "deferred {name}: {deferred:e}, not {whole:e}");
        }
    }
}
