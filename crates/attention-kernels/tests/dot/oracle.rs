//! Dot-product attention in plain loops, and how near to it the kernels must come.

use attention_kernels::AttentionReal;
use attention_kernels::HeadIndex;

use crate::case::{Case, Inputs};
use crate::run::Results;

/// The composition: scores, softmax, dropout and products, each stored, in the arithmetic of `E`.
fn plain<E: AttentionReal>(
    case: &Case,
    inputs: &Inputs<E>,
    attends: &dyn Fn(usize, usize, usize, usize) -> bool,
) -> Results<E> {
    let &Case {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        size,
        value_size,
        ..
    } = case;
    let scale = E::from_f64(case.scale());
    let mut r = Results {
        context: vec![E::ZERO; batch * heads * queries * value_size],
        lse: vec![f64::NEG_INFINITY; batch * heads * queries],
        terms: Vec::new(),
        queries: vec![E::ZERO; inputs.queries.len()],
        keys: vec![E::ZERO; inputs.keys.len()],
        values: vec![E::ZERO; inputs.values.len()],
        modifiers: inputs.modifiers.zeros(),
    };
    for b in 0..batch {
        for h in 0..heads {
            let kh = b * key_heads + h * key_heads / heads;
            let sink = inputs.modifiers.sinks.as_ref().map(|sinks| sinks[h]);
            let sink = sink.filter(|sink| *sink != -E::INFINITY);
            for i in 0..queries {
                let row = (b * heads + h) * queries + i;
                let q = &inputs.queries[row * size..][..size];
                let key = |j: usize| (kh * keys + j) * size..(kh * keys + j + 1) * size;
                let value =
                    |j: usize| (kh * keys + j) * value_size..(kh * keys + j + 1) * value_size;
                let mut attended: Vec<usize> = (0..keys).filter(|&j| attends(b, h, i, j)).collect();
                let score = |j: usize| {
                    let dot: E = q
                        .iter()
                        .zip(&inputs.keys[key(j)])
                        .map(|(&q, &k)| q * k)
                        .sum();
                    inputs.modifiers.modify(dot * scale, queries, [b, h, i, j])
                };
                attended.retain(|&j| score(j)[0] != -E::INFINITY);
                if attended.is_empty() {
                    r.lse[row] = sink.map_or(f64::NEG_INFINITY, E::to_f64);
                    continue;
                }
                let scores: Vec<[E; 2]> = attended.iter().map(|&j| score(j)).collect();
                let logits = scores.iter().map(|[score, _]| *score).chain(sink);
                let most = logits.fold(-E::INFINITY, |m, s| if s > m { s } else { m });
                let powers: Vec<E> = scores.iter().map(|[s, _]| (*s - most).exp()).collect();
                let of_sink = sink.map_or(E::ZERO, |sink| (sink - most).exp());
                let sum = powers.iter().copied().sum::<E>() + of_sink;
                r.lse[row] = most.to_f64() + sum.to_f64().ln();
                let kept: Vec<E> = attended
                    .iter()
                    .map(|&j| {
                        let mut factor = [E::ONE];
                        if let Some(dropout) = case.dropout {
                            dropout.factors(HeadIndex { batch: b, head: h }, i, j, &mut factor);
                        }
                        factor[0]
                    })
                    .collect();
                let gradient = &inputs.context_gradient[row * value_size..][..value_size];
                let mut weight_gradients = Vec::new();
                for (n, &j) in attended.iter().enumerate() {
                    let weight = powers[n] / sum * kept[n];
                    let mut dot = E::ZERO;
                    for (x, at) in value(j).enumerate() {
                        r.context[row * value_size + x] += weight * inputs.values[at];
                        r.values[at] += weight * gradient[x];
                        dot += gradient[x] * inputs.values[at];
                    }
                    weight_gradients.push(dot * kept[n]);
                }
                let mean: E = (0..attended.len())
                    .map(|n| powers[n] / sum * weight_gradients[n])
                    .sum();
                if let Some(sinks) = &mut r.modifiers.sinks {
                    sinks[h] += -(of_sink / sum * mean);
                }
                for (n, &j) in attended.iter().enumerate() {
                    let ds = powers[n] / sum * (weight_gradients[n] - mean);
                    r.modifiers.add_gradient(ds, queries, [b, h, i, j]);
                    let ds = ds * scores[n][1];
                    for (x, at) in key(j).enumerate() {
                        r.queries[row * size + x] += scale * ds * inputs.keys[at];
                        r.keys[at] += scale * ds * q[x];
                    }
                }
            }
        }
    }
    r
}

/// The largest difference to the oracle, and the largest magnitude of the oracle.
fn error(got: &[f64], oracle: &[f64]) -> (f64, f64) {
    let mut most = (0.0_f64, 0.0_f64);
    for (got, &oracle) in got.iter().zip(oracle) {
        if oracle == f64::NEG_INFINITY && *got == oracle {
            continue;
        }
        assert!(oracle.is_finite(), "the oracle is {oracle}");
        assert!(got.is_finite(), "got {got} for {oracle}");
        most.0 = most.0.max((got - oracle).abs());
        most.1 = most.1.max(oracle.abs());
    }
    most
}

/// The precision policy: the error is at most twice (gradients: three times) that of the composition in the same
/// arithmetic, with a floor relative to the magnitude.
pub(crate) fn assert_precise<E: AttentionReal>(
    what: &str,
    case: &Case,
    got: &Results<E>,
    inputs: &Inputs<E>,
    attends: &dyn Fn(usize, usize, usize, usize) -> bool,
) {
    let widen = |elements: &[E]| elements.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let wide = Inputs {
        queries: widen(&inputs.queries),
        keys: widen(&inputs.keys),
        values: widen(&inputs.values),
        context_gradient: widen(&inputs.context_gradient),
        modifiers: inputs.modifiers.map(E::to_f64),
    };
    let mut exact = *case;
    // The kernels' scale, whatever it was rounded to.
    exact.spread = E::from_f64(case.scale()).to_f64() * (case.size.max(1) as f64).sqrt();
    let oracle = plain(&exact, &wide, attends);
    let composition = plain(case, inputs, attends);
    let fields = got
        .fields()
        .into_iter()
        .zip(oracle.fields())
        .zip(composition.fields());
    for (index, (((name, got), (_, oracle)), (_, composition))) in fields.enumerate() {
        let (error_got, magnitude) = error(&got, &oracle);
        let (error_plain, _) = error(&composition, &oracle);
        // A gradient of the score is the difference of two sums of `value_size` products, which may cancel.
        let difference = (case.value_size as f64).sqrt();
        let terms = match name {
            "query gradient" | "key gradient" => difference * case.scale() * 3.0,
            "bias gradient" | "relative bias gradient" | "sink gradient" => difference,
            _ => 0.0,
        };
        // In `f64` the composition is the oracle itself: what remains is the rounding of the scores.
        let unit = if size_of::<E>() == 4 {
            1e-6
        } else {
            1e-14 * case.spread.max(1.0)
        };
        let floor = magnitude.max(terms) * unit;
        let allowed = error_plain * if index < 2 { 2.0 } else { 3.0 };
        assert!(
            error_got <= allowed.max(floor),
            "{what}: {name}: error {error_got:e}, composition {error_plain:e}, magnitude {magnitude:e}"
        );
    }
}
