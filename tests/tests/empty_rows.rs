//! Rows without a visible key, and sizes of 0 and 1 on every axis.

use attention_core::{DotProductAttentionConfig, Mask, masked_softmax, ops};
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, Sizes, assert_outcomes_close, assert_same, assert_zero, device,
};
use burn::tensor::{Bool, DType, Int, Tensor};

/// Masks under which query 2 of example 1 sees nothing, and other queries see something.
fn masks() -> Vec<(&'static str, MaskSpec)> {
    let [batch, heads, queries, keys] = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];
    let row = |at: &[usize]| f64::from(!(at[0] == 1 && at[2] == 2));
    let dense = Array::from_fn(&[batch, heads, queries, keys], row);
    let one_hidden = Array::from_fn(&[1, keys], |at| f64::from(at[1] > 0));
    vec![
        ("lens", MaskSpec::lens(&[3, 0])),
        ("lens per query", MaskSpec::lens_per_query(2, &[1, 3, 2, 7, 5, 2, 7, 0, 4, 6])),
        ("dense", MaskSpec::Keep(dense)),
        (
            "disjoint",
            MaskSpec::lens_per_query(2, &[2, 3, 2, 7, 5, 2, 7, 1, 4, 6]).and(MaskSpec::Keep(one_hidden)),
        ),
    ]
}

#[test]
fn are_zero_in_outputs_and_gradients() {
    device::each_training(|device| {
        for (name, mask) in masks() {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                for path in Path::ALL {
                    let outcome = problem.clone().with_grad_weights(7).run(device, DType::F32, path);
                    let what = format!("{kind}: {name}: {path:?}");
                    for (result, array) in &outcome {
                        assert!(array.data.iter().all(|number| number.is_finite()), "{what}: {result}");
                        assert!(array.magnitude() > 0.0, "{what}: {result} is all zero");
                        if ["context", "weights", "grad queries"].contains(&result.as_str()) {
                            let rows = Array::from_fn(&[SIZES.heads, array.shape[3]], |at| {
                                array.at(&[1, at[0], 2, at[1]])
                            });
                            assert_zero(&format!("{what}: {result}"), &rows);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn are_zero_where_no_query_sees_anything() {
    let nothing = [
        MaskSpec::lens(&[0, 0]),
        MaskSpec::lens(&[-1, -7]),
        MaskSpec::lens_per_query(2, &[0; 10]),
        MaskSpec::Keep(Array::full(&[1, 1], 0.0)),
        MaskSpec::lens(&[0, 0]).and(MaskSpec::Causal),
    ];
    device::each_training(|device| {
        for mask in &nothing {
            for (kind, problem) in Problem::both(SIZES, mask) {
                for path in Path::ALL {
                    let dirty = Array::full(&[SIZES.batch, SIZES.heads, SIZES.keys], 1.0);
                    let dirty = problem.with_rows("keys", &dirty, f64::NAN).with_rows("values", &dirty, f64::NAN);
                    for problem in [problem.clone(), dirty] {
                        let outcome = problem.with_grad_weights(7).run(device, DType::F32, path);
                        for (result, array) in &outcome {
                            assert_zero(&format!("{kind}: {mask:?}: {path:?}: {result}"), array);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn other_rows_are_as_without_them() {
    device::each(|device| {
        for (kind, problem) in Problem::both(SIZES, &MaskSpec::lens(&[4, 6])) {
            for path in Path::ALL {
                let full = problem.run(device, DType::F32, path);
                let mut first_only = problem.clone();
                first_only.mask = MaskSpec::lens(&[4, 0]);
                let outcome = first_only.run(device, DType::F32, path);
                for (result, array) in &full {
                    let example = |array: &Array| {
                        Array::from_fn(&array.shape[1..], |at| array.at(&[0, at[0], at[1], at[2]]))
                    };
                    let what = format!("{kind}: {path:?}: {result}");
                    assert_same(&what, &example(&outcome[result]), &example(array));
                }
            }
        }
    });
}

#[test]
fn every_axis_may_have_size_one() {
    let ones: [(&str, Sizes); 9] = [
        ("batch", Sizes { batch: 1, ..SIZES }),
        ("heads", Sizes { heads: 1, ..SIZES }),
        ("queries", Sizes { queries: 1, ..SIZES }),
        ("keys", Sizes { keys: 1, ..SIZES }),
        ("query_size", Sizes { query_size: 1, ..SIZES }),
        ("key_size", Sizes { key_size: 1, ..SIZES }),
        ("hiddens", Sizes { hiddens: 1, ..SIZES }),
        ("value_size", Sizes { value_size: 1, ..SIZES }),
        (
            "all",
            Sizes { batch: 1, heads: 1, queries: 1, keys: 1, query_size: 1, key_size: 1, hiddens: 1, value_size: 1 },
        ),
    ];
    device::each_training(|device| {
        for (name, sizes) in ones {
            let dense = MaskSpec::drawn(1, &[sizes.batch, sizes.heads, sizes.queries, sizes.keys], 1.0);
            for mask in [MaskSpec::None, MaskSpec::lens(&vec![4; sizes.batch]), MaskSpec::Causal, dense] {
                for (kind, problem) in Problem::both(sizes, &mask) {
                    for path in Path::ALL {
                        let mut expected = problem.solve();
                        let outcome = problem.run(device, DType::F32, path);
                        if !outcome.contains_key("weights") {
                            expected.remove("weights");
                        }
                        assert_outcomes_close(&format!("{kind}: {name} of 1: {path:?}"), &outcome, &expected, 4e-6);
                        let inputs = outcome.iter().filter(|(name, _)| name.starts_with("grad"));
                        for (name, gradient) in inputs {
                            assert!(gradient.data.iter().all(|number| number.is_finite()), "{name}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn every_axis_may_be_empty() {
    let empty: [(&str, Sizes); 5] = [
        ("batch", Sizes { batch: 0, ..SIZES }),
        ("queries", Sizes { queries: 0, ..SIZES }),
        ("keys", Sizes { keys: 0, ..SIZES }),
        ("value_size", Sizes { value_size: 0, ..SIZES }),
        ("queries and keys", Sizes { queries: 0, keys: 0, ..SIZES }),
    ];
    device::each_both_ways(|device| {
        for (name, sizes) in empty {
            let dense = MaskSpec::drawn(1, &[sizes.batch, 1, sizes.queries, sizes.keys], 0.5);
            let lens = MaskSpec::lens(&vec![4; sizes.batch]);
            let per_query = MaskSpec::lens_per_query(1, &vec![2; sizes.queries]);
            for mask in [MaskSpec::None, lens, MaskSpec::Causal, per_query, dense] {
                for (kind, problem) in Problem::both(sizes, &mask) {
                    for path in Path::ALL {
                        eprintln!("{kind}: {name} of 0: {mask:?}: {path:?}");
                        let outcome = problem.run(device, DType::F32, path);
                        let context = &outcome["context"];
                        let shape = [sizes.batch, sizes.heads, sizes.queries, sizes.value_size];
                        assert_eq!(context.shape, shape);
                        assert_zero("context", context);
                        if let Some(weights) = outcome.get("weights") {
                            assert_eq!(weights.shape, problem.scores_shape());
                            if name != "value_size" {
                                assert_zero("weights", weights);
                            }
                        }
                        for (name, gradient) in outcome.iter().filter(|(name, _)| name.starts_with("grad")) {
                            assert_zero(name, gradient);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn weights_remain_where_values_are_empty() {
    let sizes = Sizes { value_size: 0, ..SIZES };
    device::each(|device| {
        for (kind, problem) in Problem::both(sizes, &MaskSpec::lens(&[3, 6])) {
            let weights = &problem.run(device, DType::F32, Path::ForwardWithWeights)["weights"];
            attention_tests::assert_close(kind, weights, &problem.solve()["weights"], 4e-6);
        }
    });
}

#[test]
fn heads_may_be_empty() {
    device::each_both_ways(|device| {
        let attention = DotProductAttentionConfig::new().init();
        let input = |rows: usize| Tensor::<4>::zeros([2, 0, rows, 11], device);
        let output = attention.forward_with_weights(input(5), input(7), input(7), &Mask::causal());
        assert_eq!(output.context.dims(), [2, 0, 5, 11]);
        assert_eq!(output.weights.dims(), [2, 0, 5, 7]);
        assert_eq!(attention.forward(input(5), input(7), input(7), &Mask::none()).dims(), [2, 0, 5, 11]);
    });
}

#[test]
fn operations_take_empty_tensors() {
    device::each_both_ways(|device| {
        let empty = |shape: [usize; 4]| Tensor::<4>::zeros(shape, device);
        let none = Mask::none();
        for shape in [[0, 3, 5, 7], [2, 0, 5, 7], [2, 3, 0, 7], [2, 3, 5, 0]] {
            let [batch, heads, queries, keys] = shape;
            assert_eq!(masked_softmax(empty(shape), &none).dims(), shape);
            assert_eq!(masked_softmax(empty(shape), &Mask::causal()).dims(), shape);
            let (q, k) = (empty([batch, heads, queries, 11]), empty([batch, heads, keys, 11]));
            let scores = ops::additive_score(q.clone(), k.clone(), Tensor::zeros([11], device), &none);
            assert_eq!(scores.dims(), shape);
            assert_eq!(ops::dot_product_score(q, k.clone(), &none, 1.0).dims(), shape);
            let context = ops::weighted_sum(empty(shape), k.clone(), &none);
            assert_zero("context", &Array::read(context));
            assert_eq!(ops::fill_padding(k, &Mask::causal(), queries).dims(), [batch, heads, keys, 11]);
        }
    });
}

#[test]
fn preparation_takes_a_mask_of_no_queries() {
    device::each(|device| {
        let attention = DotProductAttentionConfig::new().init();
        let keys = Array::draw(1, &[2, 7, 11]).f32::<3>(device);
        let masks = [
            Mask::valid_lens_per_query(Tensor::<2, Int>::zeros([2, 0], device)),
            Mask::keep(Tensor::<3, Bool>::empty([2, 0, 7], device)),
        ];
        for mask in masks {
            let memory = attention.prepare(keys.clone(), keys.clone(), mask);
            let context = attention.attend(Tensor::<3>::zeros([2, 0, 11], device), &memory);
            assert_eq!(context.dims(), [2, 0, 11]);
        }
    });
}
