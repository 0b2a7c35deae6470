//! Queries whose keys are all masked.

use attention_core::stateful::{LocationAttentionConfig, StatefulAttention};
use attention_core::{Mask, MultiHeadAttentionConfig};
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, assert_finite, assert_outcomes_same, assert_same,
    assert_zero, device, parameters,
};
use burn::tensor::{DType, Tensor};

/// Masks under which query 2 of example 1 is fully masked, and others are not.
fn masks() -> Vec<(&'static str, MaskSpec)> {
    let [batch, heads, queries, keys] = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];
    let row = |at: &[usize]| f64::from(!(at[0] == 1 && at[2] == 2));
    let dense = Array::from_fn(&[batch, heads, queries, keys], row);
    let one_masked = Array::from_fn(&[1, keys], |at| f64::from(at[1] > 0));
    let some_queries = Array::from_fn(&[batch, queries], |at| f64::from(at[..] != [1, 2]));
    let per_query = |lens: [i64; 10]| MaskSpec::lens_per_query(2, &lens);
    let disjoint = per_query([2, 3, 2, 7, 5, 2, 7, 1, 4, 6]).and(MaskSpec::Keep(one_masked));
    vec![
        ("lens", MaskSpec::lens(&[3, 0])),
        ("lens per query", per_query([1, 3, 2, 7, 5, 2, 7, 0, 4, 6])),
        ("queries", MaskSpec::Queries(some_queries)),
        ("dense", MaskSpec::Keep(dense)),
        ("disjoint", disjoint),
    ]
}

#[test]
fn are_zero_in_outputs_and_gradients() {
    device::each_training(|device| {
        for (name, mask) in masks() {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                for path in Path::ALL {
                    let problem = problem.clone().with_grad_weights(7);
                    let outcome = problem.run(device, DType::F32, path);
                    let what = format!("{kind}: {name}: {path:?}");
                    for (result, array) in &outcome {
                        assert_finite(format!("{what}: {result}"), array);
                        assert!(array.magnitude() > 0.0, "{what}: {result} is all zero");
                        if ["context", "weights", "grad queries"].contains(&result.as_str()) {
                            let rows = Array::from_fn(&[SIZES.heads, array.shape[3]], |at| {
                                array.at(&[1, at[0], 2, at[1]])
                            });
                            assert_zero(format!("{what}: {result}"), &rows);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn are_zero_where_every_query_is_fully_masked() {
    let masks = [
        MaskSpec::lens(&[0, 0]),
        MaskSpec::lens(&[-1, -7]),
        MaskSpec::lens_per_query(2, &[0; 10]),
        MaskSpec::Keep(Array::full(&[1, 1], 0.0)),
        MaskSpec::lens(&[0, 0]).and(MaskSpec::Causal),
    ];
    device::each_training(|device| {
        for mask in &masks {
            for (kind, problem) in Problem::both(SIZES, mask) {
                for path in Path::ALL {
                    let dirty = Array::full(&[SIZES.batch, SIZES.heads, SIZES.keys], 1.0);
                    let of_keys = problem.with_rows("keys", &dirty, f64::NAN);
                    let dirty = of_keys.with_rows("values", &dirty, f64::NAN);
                    for problem in [problem.clone(), dirty] {
                        let outcome = problem.with_grad_weights(7).run(device, DType::F32, path);
                        for (result, array) in &outcome {
                            assert_zero(format!("{kind}: {mask:?}: {path:?}: {result}"), array);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn other_queries_are_as_without_them() {
    device::each(|device| {
        for (kind, problem) in Problem::both(SIZES, &MaskSpec::lens(&[4, 6])) {
            for path in Path::ALL {
                let full = problem.run(device, DType::F32, path);
                let mut first_only = problem.clone();
                first_only.mask = MaskSpec::lens(&[4, 0]);
                let outcome = first_only.run(device, DType::F32, path);
                for (result, array) in &full {
                    let what = format!("{kind}: {path:?}: {result}");
                    assert_same(&what, &example(&outcome[result], 0), &example(array, 0));
                }
            }
        }
    });
}

/// Example `b` of an array of four axes.
fn example(array: &Array, b: usize) -> Array {
    Array::from_fn(&array.shape[1..], |at| array.at(&[&[b], at].concat()))
}

/// Sets the rows of query 2 of example 1 to NaN.
fn poisoned(array: &Array) -> Array {
    array.masked_fill(f64::NAN, |at| at[0] == 1 && at[2] == 2)
}

#[test]
fn pass_on_nothing_that_is_not_finite() {
    device::each_training(|device| {
        for (name, mask) in masks() {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                let clean = problem.with_grad_weights(7);
                let mut dirty = clean.clone();
                dirty.set("queries", poisoned(&clean.inputs["queries"]));
                dirty.grad_context = clean.grad_context.as_ref().map(poisoned);
                dirty.grad_weights = clean.grad_weights.as_ref().map(poisoned);
                for path in Path::ALL {
                    let what = format!("{kind}: {name}: {path:?}");
                    let run = |problem: &Problem| problem.run(device, DType::F32, path);
                    assert_outcomes_same(&what, &run(&dirty), &run(&clean));
                }
            }
        }
    });
}

#[test]
fn are_zero_with_a_weight_that_is_not_finite() {
    device::each_training(|device| {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        for (queries, weight) in [(1, nan), (2, infinity), (3, nan), (9, nan)] {
            let sizes = SIZES.with_queries(queries);
            let mut problem = Problem::additive(sizes, MaskSpec::lens(&[3, 0]));
            let mut weights = problem.inputs["w_v"].clone();
            weights.data[4] = weight;
            problem.set("w_v", weights);
            for path in Path::ALL {
                let outcome = problem.run(device, DType::F32, path);
                for result in ["context", "grad queries", "grad keys", "grad values"] {
                    let masked = example(&outcome[result], 1);
                    assert_zero(format!("{queries} queries: {path:?}: {result}"), &masked);
                }
            }
        }
    });
}

/// In grouped heads, where another query attends to no key in one head alone.
#[test]
fn in_heads_pass_on_nothing_that_is_not_finite() {
    device::each_training(|device| {
        let config = MultiHeadAttentionConfig::new(12, 6).with_num_key_value_heads(Some(2));
        let module = config.init(device);
        let flags = Array::from_fn(&[2, 6, 4, 7], |at| {
            let is_keyless = (at[0], at[2]) == (1, 2) || at[..3] == [0, 0, 1];
            f64::from(!is_keyless && (at[1] + at[3]) % 3 > 0)
        });
        let mask = Mask::keep(flags.bool::<4>(device));
        let clean = Array::draw(1, &[2, 4, 12]);
        let dirty = clean.masked_fill(f64::NAN, |at| at[..2] == [1, 2]);
        let keys = Array::draw(2, &[2, 7, 12]).f32::<3>(device);
        let run = |queries: &Array, by_memory: bool| {
            let queries = queries.leaf::<3>(device, DType::F32);
            let (q, k, v) = (queries.clone(), keys.clone(), keys.clone());
            let context = match by_memory {
                true => module.attend(q, &module.prepare(k, v, mask.clone()), Mask::none()),
                false => module.forward_with_weights(q, k, v, &mask).context,
            };
            let gradients = (context.clone() * context.clone()).sum().backward();
            let mut found = parameters::gradients(&module, Some(&gradients));
            let gradient = queries.grad(&gradients).unwrap();
            found.insert("queries".into(), Array::read(gradient));
            found.insert("context".into(), Array::read(context));
            found
        };
        for by_memory in [true, false] {
            assert_outcomes_same("heads", &run(&dirty, by_memory), &run(&clean, by_memory));
        }
    });
}

#[test]
fn in_steps_with_a_state_pass_on_nothing_that_is_not_finite() {
    device::each_training(|device| {
        let module = LocationAttentionConfig::new(4, 5, 3).init(device);
        let keys = Array::draw(1, &[2, 6, 5]).f32::<3>(device);
        let mask = Mask::valid_lens(Tensor::from_ints([6, 0], device));
        let clean = Array::draw(2, &[2, 1, 4]);
        let dirty = clean.masked_fill(f64::NAN, |at| at[0] == 1);
        let run = |query: &Array| {
            let memory = module.prepare(keys.clone(), keys.clone(), mask.clone());
            let state = module.initial_state(&memory);
            let (context, _) = module.step(query.f32::<3>(device), &memory, state);
            let gradients = context.powi_scalar(2).sum().backward();
            parameters::gradients(&module, Some(&gradients))
        };
        assert_outcomes_same("location", &run(&dirty), &run(&clean));
    });
}
