//! Dot-product attention in plain loops, and cases to compare it with.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use attention_kernels::{
    DotProduct, DotProductGradients, DotProductStep, Dropout, Level, Mask, Real, Rows, add_pairs,
    dot_product_backward, dot_product_backward_step, dot_product_forward,
};

/// Sizes and what else matters.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub batch: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub size: usize,
    pub value_size: usize,
    /// Standard deviation of the scores.
    pub spread: f64,
    /// 0 for no bias, 1 for one of all heads, `heads` for one of each.
    pub bias_heads: usize,
    pub dropout: Option<Dropout>,
}

impl Case {
    /// Unequal and prime; smaller for Miri, which takes a thousand times as long.
    pub const SMALL: Self = Self {
        batch: if cfg!(miri) { 1 } else { 2 },
        heads: if cfg!(miri) { 1 } else { 3 },
        key_heads: if cfg!(miri) { 1 } else { 3 },
        queries: 5,
        keys: 7,
        size: if cfg!(miri) { 3 } else { 11 },
        value_size: if cfg!(miri) { 5 } else { 13 },
        spread: 1.0,
        bias_heads: 0,
        dropout: None,
    };

    /// Above every tile.
    pub const LARGE: Self = Self {
        batch: 1,
        heads: 2,
        key_heads: 1,
        queries: 211,
        keys: 307,
        ..Self::SMALL
    };

    pub fn scale(&self) -> f64 {
        self.spread / (self.size.max(1) as f64).sqrt()
    }

    pub fn inputs<E: Real>(&self, seed: u64) -> Inputs<E> {
        let &Self {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            size,
            value_size,
            ..
        } = self;
        let mut numbers = Numbers(seed);
        let mut draw = |count: usize| (0..count).map(|_| numbers.normal()).collect::<Vec<E>>();
        Inputs {
            queries: draw(batch * heads * queries * size),
            keys: draw(batch * key_heads * keys * size),
            values: draw(batch * key_heads * keys * value_size),
            bias: draw(batch * self.bias_heads * keys),
            context_gradient: draw(batch * heads * queries * value_size),
        }
    }
}

/// Repeatable numbers.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A sum of uniform numbers, rounded to `f32` so that all types compute with the same.
    pub fn normal<E: Real>(&mut self) -> E {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        E::from_f64(f64::from((sum - 6.0) as f32))
    }
}

#[derive(Clone, Debug)]
pub struct Inputs<E> {
    pub queries: Vec<E>,
    pub keys: Vec<E>,
    pub values: Vec<E>,
    pub bias: Vec<E>,
    pub context_gradient: Vec<E>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Results<E> {
    pub context: Vec<E>,
    pub lse: Vec<E>,
    pub queries: Vec<E>,
    pub keys: Vec<E>,
    pub values: Vec<E>,
    pub bias: Vec<E>,
}

impl<E: Real> Results<E> {
    pub fn fields(&self) -> [(&'static str, &[E]); 6] {
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
    pub fn bits(&self) -> Vec<u64> {
        let fields = self.fields();
        fields
            .iter()
            .flat_map(|(_, numbers)| numbers.iter().map(|x| x.to_f64().to_bits()))
            .collect()
    }

    pub fn assert_finite(&self, except_lse: bool) {
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
pub fn kernels<E: Real>(level: Level, case: &Case, inputs: &Inputs<E>, mask: Mask) -> Results<E> {
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
    let problem = DotProduct {
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
pub fn run<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
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
    dot_product_forward(level, problem, context, lse);
    let gradients = DotProductGradients {
        queries: &mut results.queries,
        keys: &mut results.keys,
        values: &mut results.values,
        bias: problem.bias.is_some().then_some(&mut results.bias[..]),
    };
    dot_product_backward(
        level,
        problem,
        Rows::contiguous(&results.context, context_gradient.shape()),
        &results.lse,
        context_gradient,
        gradients,
    );
    if problem.is_step() {
        assert_step_agrees(level, problem, context_gradient, &results);
    }
    results
}

/// A step's queries and bias get the same gradients, and those of keys and values can be made from what it leaves.
fn assert_step_agrees<E: Real>(
    level: Level,
    problem: &DotProduct<E>,
    context_gradient: Rows<E>,
    whole: &Results<E>,
) {
    let [batch, heads, queries, _] = problem.queries.shape();
    let [_, key_heads, keys, _] = problem.values.shape();
    let mut scores = vec![E::ZERO; batch * heads * queries * keys];
    let mut weights = scores.clone();
    let mut of_queries = vec![E::ZERO; whole.queries.len()];
    let mut of_bias = vec![E::ZERO; whole.bias.len()];
    let step = DotProductStep {
        queries: &mut of_queries,
        scores: &mut scores,
        weights: &mut weights,
        bias: problem.bias.is_some().then_some(&mut of_bias[..]),
    };
    let Results { context, lse, .. } = whole;
    let context = Rows::contiguous(context, context_gradient.shape());
    dot_product_backward_step(level, problem, context, lse, context_gradient, step);
    let mut of_keys = vec![E::ZERO; whole.keys.len()];
    let mut of_values = vec![E::ZERO; whole.values.len()];
    if key_heads == heads {
        add_pairs(level, problem.scale, &scores, problem.queries, &mut of_keys);
        add_pairs(level, E::ONE, &weights, context_gradient, &mut of_values);
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

/// The composition: scores, softmax, dropout and products, each stored, in the arithmetic of `E`.
pub fn plain<E: Real>(
    case: &Case,
    inputs: &Inputs<E>,
    sees: &dyn Fn(usize, usize, usize, usize) -> bool,
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
    let scale = E::from_f64(case.scale());
    let mut r = Results {
        context: vec![E::ZERO; batch * heads * queries * value_size],
        lse: vec![-E::INFINITY; batch * heads * queries],
        queries: vec![E::ZERO; inputs.queries.len()],
        keys: vec![E::ZERO; inputs.keys.len()],
        values: vec![E::ZERO; inputs.values.len()],
        bias: vec![E::ZERO; inputs.bias.len()],
    };
    for b in 0..batch {
        for h in 0..heads {
            let kh = b * key_heads + h * key_heads / heads;
            let bias_row = if bias_heads > 0 {
                (b * bias_heads + h % bias_heads) * keys
            } else {
                0
            };
            for i in 0..queries {
                let row = (b * heads + h) * queries + i;
                let q = &inputs.queries[row * size..][..size];
                let key = |j: usize| (kh * keys + j) * size..(kh * keys + j + 1) * size;
                let value =
                    |j: usize| (kh * keys + j) * value_size..(kh * keys + j + 1) * value_size;
                let mut seen: Vec<usize> = (0..keys).filter(|&j| sees(b, h, i, j)).collect();
                let score = |j: usize| {
                    let dot: E = q
                        .iter()
                        .zip(&inputs.keys[key(j)])
                        .map(|(&q, &k)| q * k)
                        .sum();
                    dot * scale
                        + if bias_heads > 0 {
                            inputs.bias[bias_row + j]
                        } else {
                            E::ZERO
                        }
                };
                seen.retain(|&j| score(j) != -E::INFINITY);
                if seen.is_empty() {
                    continue;
                }
                let scores: Vec<E> = seen.iter().map(|&j| score(j)).collect();
                let most = scores
                    .iter()
                    .fold(-E::INFINITY, |m, &s| if s > m { s } else { m });
                let powers: Vec<E> = scores.iter().map(|&s| (s - most).exp()).collect();
                let sum: E = powers.iter().copied().sum();
                r.lse[row] = most + sum.ln();
                let kept: Vec<E> = seen
                    .iter()
                    .map(|&j| {
                        let mut factor = [E::ONE];
                        if let Some(dropout) = case.dropout {
                            dropout.factors([b, h, i], j, &mut factor);
                        }
                        factor[0]
                    })
                    .collect();
                let gradient = &inputs.context_gradient[row * value_size..][..value_size];
                let mut weight_gradients = Vec::new();
                for (n, &j) in seen.iter().enumerate() {
                    let weight = powers[n] / sum * kept[n];
                    let mut dot = E::ZERO;
                    for (x, at) in value(j).enumerate() {
                        r.context[row * value_size + x] += weight * inputs.values[at];
                        r.values[at] += weight * gradient[x];
                        dot += gradient[x] * inputs.values[at];
                    }
                    weight_gradients.push(dot * kept[n]);
                }
                let mean: E = (0..seen.len())
                    .map(|n| powers[n] / sum * weight_gradients[n])
                    .sum();
                for (n, &j) in seen.iter().enumerate() {
                    let ds = powers[n] / sum * (weight_gradients[n] - mean);
                    if bias_heads > 0 {
                        r.bias[bias_row + j] += ds;
                    }
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
fn error<E: Real>(got: &[E], oracle: &[f64]) -> (f64, f64) {
    let mut most = (0.0_f64, 0.0_f64);
    for (got, &oracle) in got.iter().zip(oracle) {
        if oracle == f64::NEG_INFINITY && got.to_f64() == oracle {
            continue;
        }
        assert!(oracle.is_finite(), "the oracle is {oracle}");
        assert!(got.is_finite(), "got {got} for {oracle}");
        most.0 = most.0.max((got.to_f64() - oracle).abs());
        most.1 = most.1.max(oracle.abs());
    }
    most
}

/// The precision policy: the error is at most twice (gradients: three times) that of the composition in the same
/// arithmetic, with a floor relative to the magnitude.
pub fn assert_precise<E: Real>(
    what: &str,
    case: &Case,
    got: &Results<E>,
    inputs: &Inputs<E>,
    sees: &dyn Fn(usize, usize, usize, usize) -> bool,
) {
    let widen = |numbers: &[E]| numbers.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let wide = Inputs {
        queries: widen(&inputs.queries),
        keys: widen(&inputs.keys),
        values: widen(&inputs.values),
        bias: widen(&inputs.bias),
        context_gradient: widen(&inputs.context_gradient),
    };
    let mut exact = *case;
    // The kernels' scale, whatever it was rounded to.
    exact.spread = E::from_f64(case.scale()).to_f64() * (case.size.max(1) as f64).sqrt();
    let oracle = plain(&exact, &wide, sees);
    let composition = plain(case, inputs, sees);
    let oracle_lse = &oracle.lse;
    let fields = got
        .fields()
        .into_iter()
        .zip(oracle.fields())
        .zip(composition.fields());
    for (index, (((name, got), (_, oracle)), (_, composition))) in fields.enumerate() {
        let (error_got, magnitude) = error(got, oracle);
        let (error_plain, _) = error(composition, oracle);
        // A gradient of the score is the difference of two sums of `value_size` products, which may cancel.
        let difference = (case.value_size as f64).sqrt();
        let terms = match name {
            "query gradient" | "key gradient" => difference * case.scale() * 3.0,
            "bias gradient" => difference,
            _ => 0.0,
        };
        // In `f64` the composition is the oracle itself: what remains is the rounding of the scores.
        let unit = if size_of::<E>() == 4 {
            1e-6
        } else {
            1e-14 * case.spread.max(1.0)
        };
        // The backward pass knows the weights as well as the log-sum-exp is rounded.
        let lse = oracle_lse.iter().filter(|lse| lse.is_finite());
        let lse = lse.fold(0.0_f64, |most, lse| most.max(lse.abs()));
        let epsilon = if size_of::<E>() == 4 {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        };
        let rounding = if index < 2 { 0.0 } else { lse * epsilon };
        let floor = magnitude.max(terms) * unit.max(rounding);
        let allowed = error_plain * if index < 2 { 2.0 } else { 3.0 };
        assert!(
            error_got <= allowed.max(floor),
            "{what}: {name}: error {error_got:e}, composition {error_plain:e}, magnitude {magnitude:e}"
        );
    }
}
