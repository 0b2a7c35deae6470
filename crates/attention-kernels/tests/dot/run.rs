//! The kernels, forward and backward.

use attention_kernels::{
    AttentionOutputs, DotProductAttentionGradients, DotProductAttentionInputs,
    DotProductDeferredGradients, Level, Mask, Real, Rows, accumulate_deferred,
};

use crate::case::{Case, Inputs};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results<E> {
    pub(crate) context: Vec<E>,
    pub(crate) lse: Vec<E>,
    pub(crate) queries: Vec<E>,
    pub(crate) keys: Vec<E>,
    pub(crate) values: Vec<E>,
    pub(crate) bias: Vec<E>,
}

impl<E: Real> Results<E> {
    pub(crate) fn fields(&self) -> [(&'static str, &[E]); 6] {
        [
            ("context", &self.context),
            ("lse", &self.lse),
            ("query gradient", &self.queries),
            ("key gradient", &self.keys),
            ("value gradient", &self.values),
            ("bias gradient", &self.bias),
        ]
    }

    /// Every bit of every number.
    pub(crate) fn bits(&self) -> Vec<u64> {
        let fields = self.fields();
        fields
            .iter()
            .flat_map(|(_, numbers)| numbers.iter().map(|x| x.to_f64().to_bits()))
            .collect()
    }

    pub(crate) fn assert_finite(&self, except_lse: bool) {
        for (name, numbers) in self.fields() {
            if !(except_lse && name == "lse") {
                assert!(
                    numbers.iter().all(|x| x.is_finite()),
                    "{name} is not finite"
                );
            }
        }
    }
}

/// The kernels, forward and backward.
pub(crate) fn kernels<E: Real>(
    level: Level,
    case: &Case,
    inputs: &Inputs<E>,
    mask: Mask,
) -> Results<E> {
    let &Case {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        size,
        value_size,
        bias_heads,
        ..
    } = case;
    let problem = DotProductAttentionInputs {
        queries: Rows::contiguous(&inputs.queries, [batch, heads, queries, size]),
        keys: Rows::contiguous(&inputs.keys, [batch, key_heads, keys, size]),
        values: Rows::contiguous(&inputs.values, [batch, key_heads, keys, value_size]),
        bias: (bias_heads > 0)
            .then(|| Rows::contiguous(&inputs.bias, [batch, bias_heads, 1, keys])),
        mask,
        scale: E::from_f64(case.scale()),
        dropout: case.dropout,
    };
    run(
        level,
        &problem,
        Rows::contiguous(
            &inputs.context_gradient,
            [batch, heads, queries, value_size],
        ),
    )
}

/// Forward, then backward into zeros.
pub(crate) fn run<E: Real>(
    level: Level,
    problem: &DotProductAttentionInputs<E>,
    context_gradient: Rows<E>,
) -> Results<E> {
    let [batch, heads, queries, size] = problem.queries.shape();
    let [_, key_heads, keys, value_size] = problem.values.shape();
    let poison = E::from_f64(f64::NAN);
    let mut results = Results {
        context: vec![poison; batch * heads * queries * value_size],
        lse: vec![poison; batch * heads * queries],
        queries: vec![E::ZERO; batch * heads * queries * size],
        keys: vec![E::ZERO; batch * key_heads * keys * size],
        values: vec![E::ZERO; batch * key_heads * keys * value_size],
        bias: vec![
            E::ZERO;
            problem
                .bias
                .map_or(0, |bias| batch * bias.shape()[1] * keys)
        ],
    };
    let Results { context, lse, .. } = &mut results;
    problem.forward(level, context, lse);
    let gradients = DotProductAttentionGradients {
        queries: &mut results.queries,
        keys: &mut results.keys,
        values: &mut results.values,
        bias: problem.bias.is_some().then_some(&mut results.bias[..]),
    };
    let outputs = AttentionOutputs {
        context: Rows::contiguous(&results.context, context_gradient.shape()),
        lse: &results.lse,
        context_gradient,
    };
    problem.backward(level, &outputs, gradients);
    if problem.is_decode() {
        assert_step_agrees(level, problem, context_gradient, &results);
    }
    results
}

/// A step's queries and bias get the same gradients, and those of keys and values can be made from what it leaves.
fn assert_step_agrees<E: Real>(
    level: Level,
    problem: &DotProductAttentionInputs<E>,
    context_gradient: Rows<E>,
    whole: &Results<E>,
) {
    let [batch, heads, queries, _] = problem.queries.shape();
    let [_, key_heads, keys, _] = problem.values.shape();
    let mut scores = vec![E::ZERO; batch * heads * queries * keys];
    let mut weights = scores.clone();
    let mut of_queries = vec![E::ZERO; whole.queries.len()];
    let mut of_bias = vec![E::ZERO; whole.bias.len()];
    let step = DotProductDeferredGradients {
        queries: &mut of_queries,
        scores: &mut scores,
        weights: &mut weights,
        bias: problem.bias.is_some().then_some(&mut of_bias[..]),
    };
    let Results { context, lse, .. } = whole;
    let outputs = AttentionOutputs {
        context: Rows::contiguous(context, context_gradient.shape()),
        lse,
        context_gradient,
    };
    problem.backward_deferred(level, &outputs, step);
    let mut of_keys = vec![E::ZERO; whole.keys.len()];
    let mut of_values = vec![E::ZERO; whole.values.len()];
    if key_heads == heads {
        accumulate_deferred(level, problem.scale, &scores, problem.queries, &mut of_keys);
        accumulate_deferred(level, E::ONE, &weights, context_gradient, &mut of_values);
    } else {
        of_keys.clone_from(&whole.keys);
        of_values.clone_from(&whole.values);
    }
    let pairs = [
        ("queries", &of_queries, &whole.queries),
        ("bias", &of_bias, &whole.bias),
        ("keys", &of_keys, &whole.keys),
        ("values", &of_values, &whole.values),
    ];
    for (name, step, whole) in pairs {
        let finite = whole.iter().map(|x| x.to_f64().abs());
        let magnitude = finite.filter(|x| x.is_finite()).fold(0.0, f64::max);
        let bound = if size_of::<E>() == 4 { 2e-6 } else { 4e-15 } * magnitude;
        for (step, whole) in step.iter().zip(whole) {
            let (step, whole) = (step.to_f64(), whole.to_f64());
            let agrees = (step - whole).abs() <= bound || step.to_bits() == whole.to_bits();
            assert!(
                agrees || step.is_nan() && whole.is_nan(),
                "a step's {name}: {step:e}, not {whole:e}"
            );
        }
    }
}
