//! Sizes of 1 and 0 on every axis.

use attention_core::{DotProductAttentionConfig, Mask, functional, masked_softmax};
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, Sizes, assert_close, assert_finite,
    assert_outcomes_close, assert_zero, device,
};
use burn::tensor::{Bool, DType, Int, Tensor};

#[test]
fn every_axis_may_have_size_one() {
    let ones: [(&str, Sizes); 9] = [
        ("batch", SIZES.with_batch(1)),
        ("heads", SIZES.with_heads(1)),
        ("queries", SIZES.with_queries(1)),
        ("keys", SIZES.with_keys(1)),
        ("query_size", SIZES.with_query_size(1)),
        ("key_size", SIZES.with_key_size(1)),
        ("hiddens", SIZES.with_hiddens(1)),
        ("value_size", SIZES.with_value_size(1)),
        ("all", Sizes::new([1, 1, 1, 1], [1, 1, 1, 1])),
    ];
    device::each_training(|device| {
        for (name, sizes) in ones {
            let shape = [sizes.batch, sizes.heads, sizes.queries, sizes.keys];
            let dense = MaskSpec::drawn(1, &shape, 1.0);
            let lens = MaskSpec::lens(&vec![4; sizes.batch]);
            for mask in [MaskSpec::None, lens, MaskSpec::Causal, dense] {
                for (kind, problem) in Problem::both(sizes, &mask) {
                    for path in Path::ALL {
                        let mut expected = problem.solve();
                        let outcome = problem.run(device, DType::F32, path);
                        if !outcome.contains_key("weights") {
                            expected.remove("weights");
                        }
                        let what = format!("{kind}: {name} of 1: {path:?}");
                        assert_outcomes_close(what, &outcome, &expected, 4e-6);
                        for (name, result) in outcome {
                            assert_finite(name, &result);
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn every_axis_may_be_empty() {
    #[rustfmt::skip]
    let empty: [(&str, Sizes); 8] = [
        ("batch", SIZES.with_batch(0)),
        ("queries", SIZES.with_queries(0)),
        ("keys", SIZES.with_keys(0)),
        ("value_size", SIZES.with_value_size(0)),
        ("queries and keys", SIZES.with_queries(0).with_keys(0)),
        ("queries, without heads", SIZES.with_heads(0).with_queries(0)),
        ("keys, without heads", SIZES.with_heads(0).with_keys(0)),
        (
            "everything, without heads",
            SIZES.with_batch(0).with_heads(0).with_queries(0).with_keys(0).with_value_size(0),
        ),
    ];
    device::each_both_ways(|device| {
        for (name, sizes) in empty {
            let dense = MaskSpec::drawn(1, &[sizes.batch, 1, sizes.queries, sizes.keys], 0.5);
            let lens = MaskSpec::lens(&vec![4; sizes.batch]);
            let per_query = MaskSpec::lens_per_query(1, &vec![2; sizes.queries]);
            let both = lens.clone().and(MaskSpec::Causal).and(dense.clone());
            let (none, causal) = (MaskSpec::None, MaskSpec::Causal);
            for mask in [none, lens, causal, per_query, dense, both] {
                for (kind, problem) in Problem::both(sizes, &mask) {
                    for path in Path::ALL {
                        eprintln!("{kind}: {name} of 0: {mask:?}: {path:?}");
                        let outcome = problem.run(device, DType::F32, path);
                        let context = &outcome["context"];
                        let received = problem.grad_context.as_ref().unwrap();
                        assert_eq!(context.shape, received.shape);
                        assert_zero("context", context);
                        if let Some(weights) = outcome.get("weights") {
                            assert_eq!(weights.with_heads().shape, problem.scores_shape());
                            if name != "value_size" {
                                assert_zero("weights", weights);
                            }
                        }
                        let mut gradients = outcome;
                        gradients.retain(|name, _| name.starts_with("grad"));
                        for (name, gradient) in &gradients {
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
    let sizes = SIZES.with_value_size(0);
    device::each(|device| {
        for (kind, problem) in Problem::both(sizes, &MaskSpec::lens(&[3, 6])) {
            let weights = &problem.run(device, DType::F32, Path::ForwardWithWeights)["weights"];
            assert_close(kind, weights, &problem.solve()["weights"], 4e-6);
        }
    });
}

#[test]
fn heads_may_be_empty() {
    device::each_both_ways(|device| {
        let attention = DotProductAttentionConfig::new().init();
        let input = |rows: usize| Tensor::<4>::zeros([2, 0, rows, 11], device);
        let output = attention.forward_with_weights(input(5), input(7), input(7), Mask::causal());
        assert_eq!(output.context.dims(), [2, 0, 5, 11]);
        assert_eq!(output.weights.dims(), [2, 0, 5, 7]);
        let context = attention.forward(input(5), input(7), input(7), Mask::none());
        assert_eq!(context.dims(), [2, 0, 5, 11]);
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
            let [q, k] = [queries, keys].map(|len| empty([batch, heads, len, 11]));
            let weight = Tensor::zeros([11], device);
            let scores = functional::additive_score(q.clone(), k.clone(), weight, &none);
            assert_eq!(scores.dims(), shape);
            let found = functional::dot_product_score(q, k.clone(), &none, 1.0).dims();
            assert_eq!(found, shape);
            let context = functional::weighted_sum(empty(shape), k.clone(), &none);
            assert_zero("context", context);
            let found = functional::fill_padding(k, &Mask::causal(), [heads, queries]).dims();
            assert_eq!(found, [batch, heads, keys, 11]);
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
            let queries = Tensor::<3>::zeros([2, 0, 11], device);
            let context = attention.attend(queries, &memory, Mask::none());
            assert_eq!(context.dims(), [2, 0, 11]);
        }
    });
}
