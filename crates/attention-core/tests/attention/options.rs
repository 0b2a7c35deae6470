//! Soft-cap, biases, sinks and further keys of a call, against plain loops, fused and step by step.

use attention_core::functional::{
    AttentionOptions, AttentionSteps, additive_attention, additive_attention_steps,
    dot_product_attention, dot_product_attention_steps,
};
use attention_core::{
    AlibiConfig, Attention, Biased, DotProductScoreConfig, Mask, MultiHeadAttentionConfig,
    Normalizer, ScoringFunction,
};
use attention_tests::{Array, MaskSpec, assert_close, assert_zero, device, oracle, panic_message};
use burn::tensor::{Device, Tensor};

const BATCH: usize = 2;
const HEADS: usize = 6;
const KEY_HEADS: usize = 3;
const SIZE: usize = 11;
const VALUE_SIZE: usize = 13;
const SCALE: f64 = 0.4;

/// Options on the host.
#[derive(Clone, Debug, Default)]
struct Options {
    cap: Option<f64>,
    bias: Option<Array>,
    relative: Option<Array>,
    sinks: Option<Array>,
    zero_key: bool,
    /// Keys and values.
    extra: Option<[Array; 2]>,
}

/// A call on the host.
#[derive(Clone, Debug)]
struct Call {
    /// Queries, keys, values, and the weight of the additive score.
    inputs: [Array; 4],
    options: Options,
    mask: MaskSpec,
}

/// The steps of a call in plain loops.
struct Expected {
    scores: Array,
    capped: Array,
    masked: Array,
    weights: Array,
    context: Array,
}

impl Call {
    fn new([queries, keys]: [usize; 2], options: Options, mask: MaskSpec) -> Self {
        Self {
            inputs: [
                Array::draw(1, &[BATCH, HEADS, queries, SIZE]),
                Array::draw(2, &[BATCH, KEY_HEADS, keys, SIZE]),
                Array::draw(3, &[BATCH, KEY_HEADS, keys, VALUE_SIZE]),
                Array::draw(4, &[SIZE]),
            ],
            options,
            mask,
        }
    }

    fn pairs(&self) -> [usize; 4] {
        let [queries, keys, ..] = &self.inputs;
        [BATCH, HEADS, queries.shape[2], keys.shape[2]]
    }

    /// `raw` of query and key.
    fn expected(&self, raw: impl Fn(&[f64], &[f64]) -> f64) -> Expected {
        let shape @ [_, _, num_queries, num_keys] = self.pairs();
        let [queries, keys, values, _] = &self.inputs;
        let Options {
            cap,
            bias,
            relative,
            sinks,
            zero_key,
            extra,
        } = &self.options;
        let row = |from: &Array, [b, h, i]: [usize; 3]| -> Vec<f64> {
            let size = from.shape[3];
            let b = b.min(from.shape[0] - 1);
            (0..size).map(|x| from.at(&[b, h, i, x])).collect()
        };
        let group = HEADS / KEY_HEADS;
        let score = |from: &Array, at: &[usize]| {
            let query = row(queries, [at[0], at[1], at[2]]);
            raw(&query, &row(from, [at[0], at[1] / group, at[3]]))
        };
        let capped = |score: f64| cap.map_or(score, |cap| cap * (score / cap).tanh());
        let broadcast = |from: &Array, at: [usize; 4]| {
            let at: Vec<usize> = (0..4).map(|n| at[n].min(from.shape[n] - 1)).collect();
            from.at(&at)
        };
        let scores = Array::from_fn(&shape, |at| score(keys, at));
        let of_caps = scores.map(capped);
        let masked = Array::from_fn(&shape, |at| {
            let [b, h, i, j] = [at[0], at[1], at[2], at[3]];
            if !self.mask.attends(shape, [b, h, i, j]) {
                return f64::NEG_INFINITY;
            }
            let of_pair = bias
                .as_ref()
                .map_or(0.0, |bias| broadcast(bias, [b, h, i, j]));
            let of_distance = relative.as_ref();
            let of_distance = of_distance.map_or(0.0, |bias| {
                broadcast(bias, [b, h, 0, j + num_queries - 1 - i])
            });
            of_caps.at(at) + of_pair + of_distance
        });
        let mut weights = Array::full(&shape, 0.0);
        let mut context = Array::full(&[BATCH, HEADS, num_queries, VALUE_SIZE], 0.0);
        for at in 0..BATCH * HEADS * num_queries {
            let [b, h, i] = [
                at / num_queries / HEADS,
                at / num_queries % HEADS,
                at % num_queries,
            ];
            let mut sum = 0.0;
            sum += sinks.as_ref().map_or(0.0, |sinks| sinks.at(&[h]).exp());
            sum += f64::from(u8::from(*zero_key));
            let powers: Vec<f64> = (0..num_keys)
                .map(|j| masked.at(&[b, h, i, j]).exp())
                .collect();
            sum += powers.iter().sum::<f64>();
            let mut further = Vec::new();
            if let Some([keys, values]) = extra {
                for n in 0..keys.shape[2] {
                    let power = capped(score(keys, &[b, h, i, n])).exp();
                    sum += power;
                    further.push((power, row(values, [b, h / group, n])));
                }
            }
            let own = powers.iter().enumerate().map(|(j, &power)| {
                let value = row(values, [b, h / group, j]);
                (power, value)
            });
            for (power, value) in own.chain(further) {
                for (x, value) in value.iter().enumerate() {
                    if power > 0.0 {
                        *context.at_mut(&[b, h, i, x]) += power / sum * value;
                    }
                }
            }
            for (j, power) in powers.iter().enumerate() {
                *weights.at_mut(&[b, h, i, j]) = if sum > 0.0 { power / sum } else { 0.0 };
            }
        }
        Expected {
            scores,
            capped: of_caps,
            masked,
            weights,
            context,
        }
    }

    /// The tensors, each a leaf, and the options.
    fn on(&self, device: &Device) -> (Vec<Tensor<4>>, Vec<Tensor<1>>, AttentionOptions) {
        let leaf = |array: &Array| {
            let tensor = array.f32::<4>(device);
            if device.is_autodiff() {
                tensor.require_grad()
            } else {
                tensor
            }
        };
        let vector = |array: &Array| {
            let tensor = array.f32::<1>(device);
            if device.is_autodiff() {
                tensor.require_grad()
            } else {
                tensor
            }
        };
        let [queries, keys, values, weight] = &self.inputs;
        let Options {
            cap,
            bias,
            relative,
            sinks,
            zero_key,
            extra,
        } = &self.options;
        let options = AttentionOptions {
            mask: self.mask.mask(device),
            soft_cap: *cap,
            bias: bias.as_ref().map(leaf),
            relative_bias: relative.as_ref().map(leaf),
            sinks: sinks.as_ref().map(vector),
            zero_key: *zero_key,
            extra_keys: extra.as_ref().map(|extra| extra.each_ref().map(leaf)),
            ..Default::default()
        };
        let mut leaves: Vec<_> = [queries, keys, values].map(leaf).into();
        leaves.extend(options.bias.clone());
        leaves.extend(options.relative_bias.clone());
        leaves.extend(options.extra_keys.clone().into_iter().flatten());
        let mut vectors = vec![vector(weight)];
        vectors.extend(options.sinks.clone());
        (leaves, vectors, options)
    }
}

fn sizes() -> [[usize; 2]; 4] {
    // Decoding, about a tile, more queries than keys, and beyond tiles.
    [[1, 7], [5, 7], [9, 5], [53, 139]]
}

/// Every option by itself in all its shapes, and all together.
fn options([queries, keys]: [usize; 2]) -> Vec<(&'static str, Options)> {
    let none = Options::default();
    let bias = |shape: [usize; 4]| Some(Array::draw(5, &shape));
    let relative = |batch, heads| Some(Array::draw(6, &[batch, heads, 1, queries + keys - 1]));
    let sinks = Some(Array::draw(7, &[HEADS]));
    let extra = |batch| {
        Some([
            Array::draw(8, &[batch, KEY_HEADS, 2, SIZE]),
            Array::draw(9, &[batch, KEY_HEADS, 2, VALUE_SIZE]),
        ])
    };
    vec![
        (
            "a soft-cap",
            Options {
                cap: Some(1.7),
                ..none.clone()
            },
        ),
        (
            "a bias of all",
            Options {
                bias: bias([BATCH, HEADS, queries, keys]),
                ..none.clone()
            },
        ),
        (
            "a bias of pairs",
            Options {
                bias: bias([1, 1, queries, keys]),
                ..none.clone()
            },
        ),
        (
            "a bias of heads",
            Options {
                bias: bias([1, HEADS, queries, keys]),
                ..none.clone()
            },
        ),
        (
            "a bias of keys",
            Options {
                bias: bias([BATCH, 1, 1, keys]),
                ..none.clone()
            },
        ),
        (
            "distances",
            Options {
                relative: relative(1, HEADS),
                ..none.clone()
            },
        ),
        (
            "distances of examples",
            Options {
                relative: relative(BATCH, 1),
                ..none.clone()
            },
        ),
        (
            "sinks",
            Options {
                sinks: sinks.clone(),
                ..none.clone()
            },
        ),
        (
            "a zero key",
            Options {
                zero_key: true,
                ..none.clone()
            },
        ),
        (
            "further keys",
            Options {
                extra: extra(1),
                ..none.clone()
            },
        ),
        (
            "all",
            Options {
                cap: Some(2.3),
                bias: bias([BATCH, 1, queries, keys]),
                relative: relative(1, HEADS),
                sinks,
                zero_key: true,
                extra: extra(BATCH),
            },
        ),
    ]
}

fn masks([queries, keys]: [usize; 2]) -> Vec<MaskSpec> {
    vec![
        MaskSpec::None,
        MaskSpec::Causal.and(MaskSpec::lens(&[keys as i64 - 2, 1])),
        MaskSpec::drawn(3, &[BATCH, HEADS, queries, keys], 0.6),
    ]
}

/// Gradients of all leaves, of the sum of results with drawn factors.
fn gradients(context: Tensor<4>, leaves: &[Tensor<4>], vectors: &[Tensor<1>]) -> Vec<Array> {
    let factors = Array::draw(11, &context.dims()).f32::<4>(&context.device());
    let mut gradients = (context * factors).sum().backward();
    let mut all = Vec::new();
    for leaf in leaves {
        let gradient = leaf.grad_remove(&mut gradients);
        all.push(gradient.map_or_else(|| Array::full(&leaf.dims(), 0.0), Array::read));
    }
    for leaf in vectors {
        let gradient = leaf.grad_remove(&mut gradients);
        all.push(gradient.map_or_else(|| Array::full(&leaf.dims(), 0.0), Array::read));
    }
    all
}

fn check_steps(what: &str, steps: AttentionSteps<4>, expected: &Expected) {
    let finite = |array: Array| array.map(|x| if x == f64::NEG_INFINITY { -1e3 } else { x });
    let AttentionSteps {
        scores,
        capped,
        masked,
        weights,
        context,
    } = steps;
    let pairs = [
        ("scores", Array::read(scores), expected.scores.clone()),
        ("capped", Array::read(capped), expected.capped.clone()),
        (
            "masked",
            finite(Array::read(masked)),
            finite(expected.masked.clone()),
        ),
        ("weights", Array::read(weights), expected.weights.clone()),
        ("context", Array::read(context), expected.context.clone()),
    ];
    for (step, got, expected) in pairs {
        let expected = match step {
            // Those of further keys stand behind.
            "scores" | "capped" | "masked" | "weights" => {
                let got = Array::from_fn(&expected.shape, |at| got.at(at));
                assert_close(&format!("{what}: {step}"), &got, &expected, 1e-5);
                continue;
            }
            _ => expected,
        };
        assert_close(&format!("{what}: {step}"), &got, &expected, 1e-5);
    }
}

#[test]
fn dot_products_are_those_of_plain_loops() {
    device::each_training(|device| {
        for sizes in sizes() {
            for (name, options) in options(sizes) {
                for mask in masks(sizes) {
                    let what = format!("{name}, {sizes:?}, {mask:?}");
                    let call = Call::new(sizes, options.clone(), mask);
                    let expected = call.expected(|query, key| {
                        SCALE * query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>()
                    });
                    let run = |is_fused: bool| {
                        let (leaves, vectors, mut options) = call.on(device);
                        options.scale = Some(SCALE);
                        let [queries, keys, values] = [0, 1, 2].map(|n: usize| leaves[n].clone());
                        let context = if is_fused {
                            dot_product_attention(queries, keys, values, &options)
                        } else {
                            let steps =
                                dot_product_attention_steps(queries, keys, values, &options);
                            check_steps(&what, steps.clone(), &expected);
                            steps.context
                        };
                        let result = Array::read(context.clone());
                        assert_close(&what, &result, &expected.context, 1e-5);
                        gradients(context, &leaves, &vectors[1..])
                    };
                    for (n, (fused, steps)) in run(true).iter().zip(run(false)).enumerate() {
                        assert_close(&format!("{what}: gradient {n}"), fused, &steps, 3e-5);
                    }
                }
            }
        }
    });
}

#[test]
fn additive_scores_are_those_of_plain_loops() {
    device::each_training(|device| {
        for sizes in sizes() {
            for (name, options) in options(sizes) {
                for mask in masks(sizes) {
                    let what = format!("{name}, {sizes:?}, {mask:?}");
                    let call = Call::new(sizes, options.clone(), mask);
                    let weight = &call.inputs[3];
                    let expected = call.expected(|query, key| {
                        let units = query.iter().zip(key).enumerate();
                        units
                            .map(|(u, (q, k))| weight.at(&[u]) * (q + k).tanh())
                            .sum()
                    });
                    let run = |is_fused: bool| {
                        let (leaves, vectors, options) = call.on(device);
                        let [queries, keys, values] = [0, 1, 2].map(|n: usize| leaves[n].clone());
                        let weight = vectors[0].clone();
                        let context = if is_fused {
                            additive_attention(queries, keys, values, weight, &options)
                        } else {
                            let steps =
                                additive_attention_steps(queries, keys, values, weight, &options);
                            check_steps(&what, steps.clone(), &expected);
                            steps.context
                        };
                        let result = Array::read(context.clone());
                        assert_close(&what, &result, &expected.context, 1e-5);
                        gradients(context, &leaves, &vectors)
                    };
                    for (n, (fused, steps)) in run(true).iter().zip(run(false)).enumerate() {
                        assert_close(&format!("{what}: gradient {n}"), fused, &steps, 3e-5);
                    }
                }
            }
        }
    });
}

/// Modules take the options of a call; with weights and without, each normalizer that knows them.
#[test]
fn modules_take_the_options_of_a_call() {
    device::each(|device| {
        let sizes = [5, 7];
        let with_positions = |score| Biased::new(score, AlibiConfig::new(HEADS).init());
        for (name, options) in options(sizes) {
            let call = Call::new(sizes, options, MaskSpec::Causal);
            let (leaves, _, options) = call.on(device);
            let [queries, keys, values] = [0, 1, 2].map(|n: usize| leaves[n].clone());
            let expected =
                dot_product_attention(queries.clone(), keys.clone(), values.clone(), &options);
            let dot = || DotProductScoreConfig::new().init();
            let same = |what: &str, attention: &dyn Fn(bool) -> Tensor<4>, expected: &Tensor<4>| {
                let expected = Array::read(expected.clone());
                for with_weights in [false, true] {
                    let got = Array::read(attention(with_weights));
                    let what = format!("{name}, {what}, with weights: {with_weights}");
                    assert_close(&what, &got, &expected, 1e-5);
                }
            };
            let run = |attention: &dyn Fn(bool) -> Tensor<4>| attention(false);
            let own = Attention::new(dot(), 0.0);
            same(
                "a dot product",
                &|w| pooled(&own, &leaves, &options, w),
                &expected,
            );
            // Positions go to the fused kernel, or to the score that stores all pairs.
            let biased = Attention::new(with_positions(dot()), 0.0);
            let fused = run(&|w| pooled(&biased, &leaves, &options, w));
            same("ALiBi", &|w| pooled(&biased, &leaves, &options, w), &fused);
            // Heads of keys are shared there, too.
            let attention = MultiHeadAttentionConfig::new(6 * HEADS, HEADS)
                .with_num_key_value_heads(Some(KEY_HEADS))
                .init(device);
            let rows = |seed, rows| Array::draw(seed, &[BATCH, rows, 6 * HEADS]).f32::<3>(device);
            let mut of_heads = options.clone();
            of_heads.extra_keys = of_heads.extra_keys.map(|extra| {
                extra.map(|rows| {
                    let batch = rows.dims()[0];
                    rows.slice([0..batch, 0..KEY_HEADS, 0..2, 0..6])
                })
            });
            let [q, k, v] = [rows(1, 5), rows(2, 7), rows(3, 7)];
            let context = attention.forward(q.clone(), k.clone(), v.clone(), &of_heads);
            let output = attention.forward_with_weights(q, k, v, of_heads);
            let [context, of_weights] = [context, output.context].map(Array::read);
            assert_close(name, &context, &of_weights, 1e-5);
        }
    });
}

fn pooled<S: ScoringFunction>(
    attention: &Attention<S>,
    leaves: &[Tensor<4>],
    options: &AttentionOptions,
    with_weights: bool,
) -> Tensor<4> {
    let [queries, keys, values] = [0, 1, 2].map(|n: usize| leaves[n].clone());
    if with_weights {
        attention
            .forward_with_weights(queries, keys, values, options)
            .context
    } else {
        attention.forward(queries, keys, values, options)
    }
}

/// Whatever masked pairs hold, and a query without a key: exactly 0, with sinks too.
#[test]
fn padding_and_keyless_queries_stay_harmless() {
    device::each_training(|device| {
        let sizes = [5, 7];
        let mask = MaskSpec::lens_per_query(BATCH, &[5, 3, 0, 5, 5, 1, 0, 2, 2, 2]);
        for (name, options) in options(sizes) {
            let keyless = options.extra.is_none();
            let mut clean = Call::new(sizes, options, mask.clone());
            let run = |call: &Call, poison: bool| {
                let (leaves, vectors, options) = call.on(device);
                let [queries, keys, values] = [0, 1, 2].map(|n: usize| leaves[n].clone());
                let context = dot_product_attention(queries, keys, values, &options);
                let factors = Array::from_fn(&context.dims(), |at| {
                    let is_keyless = (at[0], at[2]) == (0, 2) || (at[0], at[2]) == (1, 1);
                    if is_keyless && poison {
                        f64::NAN
                    } else {
                        0.5 + at[3] as f64
                    }
                });
                let result = Array::read(context.clone());
                let mut gradients = (context * factors.f32(device)).sum().backward();
                let mut all = vec![result];
                for leaf in &leaves {
                    all.push(Array::read(
                        leaf.grad_remove(&mut gradients).expect("a leaf"),
                    ));
                }
                for leaf in &vectors[1..] {
                    all.push(Array::read(
                        leaf.grad_remove(&mut gradients).expect("a leaf"),
                    ));
                }
                all
            };
            let expected = run(&clean, false);
            if keyless {
                let context = &expected[0];
                let row =
                    Array::from_fn(&[HEADS, VALUE_SIZE], |at| context.at(&[0, at[0], 2, at[1]]));
                assert_zero(name, &row);
            }
            // Keys 5 and 6 are nobody's.
            for (input, rows) in [(1, SIZE), (2, VALUE_SIZE)] {
                for at in 0..BATCH * KEY_HEADS * rows {
                    let at = [at / rows / KEY_HEADS, at / rows % KEY_HEADS, 6, at % rows];
                    *clean.inputs[input].at_mut(&at) = f64::NAN;
                }
            }
            let got = run(&clean, keyless);
            for (n, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert_close(&format!("{name}: {n}"), got, expected, 1e-6);
            }
        }
    });
}

/// The weights and those of sinks sum to 1, by the oracle's softmax without them.
#[test]
fn a_sink_takes_its_share() {
    device::each(|device| {
        let call = Call::new([5, 7], Options::default(), MaskSpec::None);
        let (leaves, _, mut options) = call.on(device);
        options.sinks = Some(Tensor::full([HEADS], f64::NEG_INFINITY, device));
        let [queries, keys, values] = [0, 1, 2].map(|n: usize| leaves[n].clone());
        let steps = dot_product_attention_steps(queries, keys, values, &options);
        let scores = Array::read(steps.scores);
        let expected = oracle::masked_softmax(&scores, &MaskSpec::None);
        assert_close(
            "a sink of minus infinity",
            &Array::read(steps.weights),
            &expected,
            1e-6,
        );
    });
}

#[test]
fn a_bias_of_minus_infinity_masks_a_pair() {
    device::each_training(|device| {
        for sizes @ [queries, keys] in sizes() {
            let attends = |i: usize, j: usize| !(i + 2 * j).is_multiple_of(3);
            let bias = Array::from_fn(&[1, 1, queries, keys], |at| match attends(at[2], at[3]) {
                true => 0.0,
                false => f64::NEG_INFINITY,
            });
            let keep = Array::from_fn(&[1, queries, keys], |at| f64::from(attends(at[1], at[2])));
            let run = |options, mask| {
                let (leaves, _, options) = Call::new(sizes, options, mask).on(device);
                let [q, k, v] = [0, 1, 2].map(|n: usize| leaves[n].clone());
                let context = dot_product_attention(q, k, v, &options);
                let result = Array::read(context.clone());
                (result, gradients(context, &leaves[..3], &[]))
            };
            let by_bias = Options {
                bias: Some(bias),
                ..Options::default()
            };
            let (result, of_bias) = run(by_bias, MaskSpec::None);
            let (expected, of_mask) = run(Options::default(), MaskSpec::Keep(keep));
            assert_close("context", &result, &expected, 1e-6);
            for (n, (got, expected)) in of_bias.iter().zip(&of_mask).enumerate() {
                assert_close(&format!("gradient {n}"), got, expected, 1e-5);
            }
        }
    });
}

#[test]
fn options_that_do_not_fit_are_refused() {
    device::each(|device| {
        let zeros = |shape: [usize; 4]| Tensor::<4>::zeros(shape, device);
        let refuses = |expected: &str, options: AttentionOptions| {
            let message = panic_message(|| {
                let [queries, keys] = [zeros([2, 6, 5, 11]), zeros([2, 3, 7, 11])];
                dot_product_attention(queries, keys.clone(), keys, &options)
            });
            assert!(
                message.contains(expected),
                "{expected:?} not in {message:?}"
            );
        };
        let none = AttentionOptions::default;
        refuses(
            "bias expected [2 or 1, 6 or 1, 5 or 1, 7], got [2, 3, 5, 7]",
            AttentionOptions {
                bias: Some(zeros([2, 3, 5, 7])),
                ..none()
            },
        );
        refuses(
            "relative_bias expected [2 or 1, 6 or 1, 1 or 1, 11], got [1, 6, 1, 12]",
            AttentionOptions {
                relative_bias: Some(zeros([1, 6, 1, 12])),
                ..none()
            },
        );
        refuses(
            "sinks expected [6], got [3]",
            AttentionOptions {
                sinks: Some(Tensor::zeros([3], device)),
                ..none()
            },
        );
        refuses(
            "soft_cap expected a finite number above 0, got 0",
            AttentionOptions {
                soft_cap: Some(0.0),
                ..none()
            },
        );
        refuses(
            "extra_keys: 2 examples or 1 expected, got 3",
            AttentionOptions {
                extra_keys: Some([(); 2].map(|()| zeros([3, 3, 1, 11]))),
                ..none()
            },
        );
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0)
            .with_normalizer(Normalizer::Sparsemax);
        let message = panic_message(|| {
            let options = AttentionOptions {
                zero_key: true,
                ..none()
            };
            let rows = zeros([2, 3, 7, 11]);
            attention.forward(rows.clone(), rows.clone(), rows, options)
        });
        assert!(
            message.contains("sinks expected with Normalizer::Softmax"),
            "{message}"
        );
    });
}

/// Sizes of 0 with every option.
#[test]
fn sizes_of_zero_are_answered() {
    device::each(|device| {
        for [queries, keys] in [[0, 7], [5, 0]] {
            let rows = |rows| Tensor::<4>::zeros([2, 3, rows, 4], device);
            let options = AttentionOptions {
                mask: Mask::causal(),
                soft_cap: Some(3.0),
                bias: Some(Tensor::zeros([1, 1, queries, keys], device)),
                sinks: Some(Tensor::zeros([3], device)),
                ..Default::default()
            };
            let context = dot_product_attention(rows(queries), rows(keys), rows(keys), &options);
            assert_eq!(context.dims(), [2, 3, queries, 4]);
            assert_zero("context", &Array::read(context));
        }
    });
}
