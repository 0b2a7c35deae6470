//! Padding is ignored: a masked key, value or score changes no bit of an output or gradient, whatever it holds.

use attention_core::{Attention, Mask, ScoringFunction, functional};
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, assert_finite, assert_outcomes_same, assert_same,
    device, masks,
};
use burn::module::Module;
use burn::tensor::{DType, Tensor};

const POISONS: [f64; 4] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3e38];

const SHAPE: [usize; 4] = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];

/// Masks with padding: keys that no query attends to.
fn padded() -> Vec<(&'static str, MaskSpec)> {
    let short = MaskSpec::lens_per_query(2, &[1, 3, 0, 5, 2, 2, 4, 4, 0, 6]);
    let mut masks = masks(SHAPE);
    masks.push(("short lens per query", short.clone()));
    let causal = short.clone().and(MaskSpec::Causal);
    masks.push(("short lens per query and causal", causal));
    let dense = short.and(MaskSpec::drawn(3, &SHAPE, 0.7));
    masks.push(("short lens per query and dense", dense));
    masks.retain(|(_, mask)| mask.padding(SHAPE).magnitude() > 0.0);
    assert!(masks.len() > 12, "too few masks have padding");
    masks
}

fn check(paths: &[Path], masks: &[(&str, MaskSpec)]) {
    device::each_training(|device| {
        for (name, mask) in masks {
            let padding = mask.padding(SHAPE);
            for (kind, problem) in Problem::both(SIZES, mask) {
                for &path in paths {
                    let problem = match path {
                        Path::ForwardWithWeights => problem.clone().with_grad_weights(6),
                        _ => problem.clone(),
                    };
                    let clean = problem.run(device, DType::F32, path);
                    for poison in POISONS {
                        for inputs in [&["keys"][..], &["values"], &["keys", "values"]] {
                            let mut dirty = problem.clone();
                            for input in inputs {
                                dirty = dirty.with_rows(input, &padding, poison);
                            }
                            let dirty = dirty.run(device, DType::F32, path);
                            let what = format!("{kind}: {name}: {path:?}: {poison} in {inputs:?}");
                            assert_outcomes_same(&what, &dirty, &clean);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn reaches_no_output_and_no_gradient_without_weights() {
    check(&[Path::Forward], &padded());
}

#[test]
fn reaches_no_output_and_no_gradient_with_weights() {
    check(&[Path::ForwardWithWeights], &padded());
}

#[test]
fn reaches_no_output_and_no_gradient_of_prepared_keys() {
    // Windows, and what segments mask together with others, become known at `attend`, after keys are projected.
    let late = ["window", "segments and", "top-left", "diagonals"];
    let mut known = padded();
    known.retain(|(name, _)| !late.iter().any(|part| name.contains(part)));
    check(&[Path::Attend, Path::AttendWithWeights], &known);
}

/// `output`, `[batch, heads, queries, _]`, with zeros for the queries that attend to key `key` of example `b`, head
/// `h`.
fn without_witnesses(output: &Array, mask: &MaskSpec, [b, h, key]: [usize; 3]) -> Array {
    output.masked_fill(0.0, |at| {
        at[0] == b && at[1] == h && mask.attends(SHAPE, [b, h, at[2], key])
    })
}

#[test]
fn a_key_reaches_only_the_queries_that_attend_to_it() {
    device::each(|device| {
        for (name, mask) in masks(SHAPE) {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                for path in Path::ALL {
                    let clean = problem.run(device, DType::F32, path);
                    for (at, poison) in POISONS[..3].iter().enumerate() {
                        let place = [1, 2, (3 * at + 1) % SIZES.keys];
                        let chosen = Array::from_fn(&SHAPE_OF_ROWS, |at| f64::from(at == place));
                        for input in ["keys", "values"] {
                            let dirty = problem.with_rows(input, &chosen, *poison);
                            let dirty = dirty.run(device, DType::F32, path);
                            let what = format!("{kind}: {name}: {path:?}: {poison} in {input}");
                            for (output, clean) in &clean {
                                let others = |of| without_witnesses(of, &mask, place);
                                let (dirty, clean) = (others(&dirty[output]), others(clean));
                                assert_same(format!("{what}: {output}"), &dirty, &clean);
                            }
                        }
                    }
                }
            }
        }
    });
}

const SHAPE_OF_ROWS: [usize; 3] = [SIZES.batch, SIZES.heads, SIZES.keys];

#[test]
fn a_nan_reaches_every_query_that_attends_to_it() {
    device::each(|device| {
        for (name, mask) in masks(SHAPE) {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                for path in Path::ALL {
                    let place = [1, 2, 2];
                    let chosen = Array::from_fn(&SHAPE_OF_ROWS, |at| f64::from(at == place));
                    for input in ["keys", "values"] {
                        let dirty = problem.with_rows(input, &chosen, f64::NAN);
                        let dirty = dirty.run(device, DType::F32, path);
                        let context = &dirty["context"];
                        let what = format!("{kind}: {name}: {path:?}: {input}");
                        for query in 0..SIZES.queries {
                            let attends = mask.attends(SHAPE, [1, 2, query, 2]);
                            for component in 0..SIZES.value_size {
                                let number = context.at(&[1, 2, query, component]);
                                assert_eq!(number.is_nan(), attends, "{what}: query {query}");
                            }
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn filling_zeroes_padding_and_nothing_else() {
    device::each(|device| {
        for (name, mask) in masks(SHAPE) {
            let rows = Array::draw(1, &[2, 3, 7, 13]);
            let padding = mask.padding(SHAPE);
            let shape = [SIZES.heads, SIZES.queries];
            let filled = functional::fill_padding(rows.f32(device), &mask.mask(device), shape);
            let expected = rows.masked_fill(0.0, |at| padding.at(&at[..3]) != 0.0);
            assert_same(name, filled, &expected);
        }
    });
}

/// A score that is NaN wherever the query's first component is smaller than the key's.
#[derive(Module, Debug)]
struct HalfNan {}

impl ScoringFunction for HalfNan {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let queries = queries.narrow(3, 0, 1);
        let keys = keys.narrow(3, 0, 1).swap_dims(2, 3);
        let difference = queries - keys;
        let negative = difference.clone().lower_elem(0.0);
        difference.mask_fill(negative, f64::NAN)
    }
}

#[test]
fn nan_scores_of_masked_pairs_reach_nothing() {
    // Query i holds i + 2.5 and key j holds j: NaN is where j > i + 2, which is masked.
    let line = |len, offset| Array::from_fn(&[2, len, 3], |at| at[1] as f64 + offset);
    device::each_training(|device| {
        let attention = Attention::new(HalfNan {}, 0.0);
        let queries = line(5, 2.5).leaf::<3>(device, DType::F32);
        let keys = line(7, 0.0).leaf::<3>(device, DType::F32);
        let values = Array::draw(1, &[2, 7, 11]).leaf::<3>(device, DType::F32);
        let [q, k, v] = [&queries, &keys, &values].map(Tensor::clone);
        let output = attention.forward_with_weights(q, k, v, Mask::causal());
        for weights in Array::read(output.weights).data.chunks(7) {
            let sum: f64 = weights.iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{weights:?}");
        }
        let gradients = output.context.sum().backward();
        for tensor in [queries, keys, values] {
            assert_finite("gradient", tensor.grad(&gradients).unwrap());
        }
        // Without the mask they reach the context.
        let [queries, keys] = [(5, 2.5), (7, 0.0)].map(|(len, of)| line(len, of).f32(device));
        let values = Array::draw(1, &[2, 7, 11]).f32::<3>(device);
        let context = Array::read(attention.forward(queries, keys, values, Mask::none()));
        assert!(context.data.iter().any(|number| number.is_nan()));
    });
}
