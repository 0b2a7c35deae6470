//! Additive and dot-product attention against plain loops and PyTorch, on every path and device.

use attention_core::functional::{additive_score, dot_product_attention, dot_product_score};
use attention_core::{DotProductAttentionConfig, Mask};
use attention_tests::{
    Array, MaskSpec, Outcome, Path, Problem, SIZES, Sizes, assert_close, assert_outcomes_close,
    assert_same, device, masks, near_reference, oracle, reference,
};
use burn::tensor::{DType, Tensor};

/// Both attentions, and dot products of other scales.
fn problems(sizes: Sizes, mask: &MaskSpec) -> Vec<(String, Problem)> {
    let both = Problem::both(sizes, mask).map(|(kind, problem)| (kind.to_string(), problem));
    let scaled = [0.7, -0.3].map(|scale| {
        let mut problem = Problem::dot_product(sizes, mask.clone());
        problem.scale = Some(scale);
        (format!("dot-product, scale {scale}"), problem)
    });
    both.into_iter().chain(scaled).collect()
}

/// Without the weights where a path has none.
fn expected(path: Path, all: &Outcome) -> Outcome {
    let mut all = all.clone();
    if matches!(path, Path::Forward | Path::Attend) {
        all.remove("weights");
    }
    all
}

#[test]
fn every_path_is_the_formula_under_every_mask() {
    for (name, mask) in masks([SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys]) {
        for (kind, problem) in problems(SIZES, &mask) {
            let solution = problem.solve();
            if solution["context"].magnitude() == 0.0 {
                continue; // All keys masked: the subject of fully_masked_queries.rs.
            }
            for path in Path::ALL {
                let expected = expected(path, &solution);
                device::each_both_ways(device::in_each_type(|(device, dtype)| {
                    let what = format!("{kind}: {name}: {path:?}: {dtype:?}");
                    let outcome = problem.run(device, dtype, path);
                    let tolerance = 20.0 * device::epsilon(dtype);
                    assert_outcomes_close(&what, &outcome, &expected, tolerance);
                }));
            }
        }
    }
}

/// One size above tiles of 64 queries, 128 keys and 64 hidden units, and not a multiple of any vector.
#[test]
fn results_stay_right_above_every_tile() {
    let keep = MaskSpec::Keep(Array::from_fn(&[1, 131], |at| f64::from(at[1] >= 65)));
    let sizes = Sizes::new([1, 0, 67, 131], [3, 5, 71, 2]);
    let mut problems = vec![Problem::additive(sizes, MaskSpec::lens(&[129]))];
    let sizes = Sizes::new([1, 1, 67, 131], [37, 37, 0, 71]);
    let lens = MaskSpec::lens(&[64]);
    for mask in [MaskSpec::None, MaskSpec::Causal, lens, keep] {
        problems.push(Problem::dot_product(sizes, mask));
    }
    for problem in problems {
        let solution = problem.solve();
        device::each(device::in_each_type(|(device, dtype)| {
            for path in Path::DIRECT {
                let outcome = problem.run(device, dtype, path);
                let tolerance = 32.0 * device::epsilon(dtype);
                assert_outcomes_close("large", &outcome, &expected(path, &solution), tolerance);
            }
        }));
    }
}

/// Compares with every case of a file, with weights and without, forward and backward.
#[test]
fn results_and_gradients_are_those_of_pytorch() {
    let files = "additive additive_shapes dot_product dot_product_shapes".split(' ');
    let cases_of = |file| reference(file).into_iter().map(move |case| (file, case));
    let cases: Vec<_> = files.flat_map(cases_of).collect();
    device::each_training(|device| {
        for dtype in device::dtypes(device) {
            for (file, case) in &cases {
                let (problem, results) = case.problem();
                for path in Path::DIRECT {
                    if path == Path::Forward && problem.grad_weights.is_some() {
                        continue;
                    }
                    let what = format!("{file}: {}: {dtype:?}: {path:?}", case.name);
                    let outcome = problem.run(device, dtype, path);
                    let tolerance = near_reference(dtype, 2e-5);
                    assert_outcomes_close(&what, &outcome, &expected(path, &results), tolerance);
                }
            }
        }
    });
}

#[test]
fn masked_scores_are_zero() {
    let shape = [2, 3, 5, 7];
    let [queries, keys] = [(1, 5), (2, 7)].map(|(seed, rows)| Array::draw(seed, &[2, 3, rows, 11]));
    let weight = Array::draw(3, &[11]);
    let one = Array::from_fn(&[11, 11], |at| f64::from(at[0] == at[1]));
    let column = weight.reshape(&[11, 1]);
    let additive = oracle::additive_scores([&queries, &keys, &one, &one, &column]);
    let dot_product = oracle::dot_product_scores(&queries, &keys, 0.5);
    device::each(|device| {
        for (name, mask) in masks(shape) {
            let attended = mask.table(shape);
            let unmasked = |of: &Array| Array::from_fn(&shape, |at| of.at(at) * attended.at(at));
            let mask = mask.mask(device);
            let (q, k) = (queries.f32(device), keys.f32(device));
            let scores = dot_product_score(q.clone(), k.clone(), &mask, 0.5);
            assert_close(name, scores, &unmasked(&dot_product), 2e-6);
            let scores = additive_score(q, k, weight.f32(device), &mask);
            assert_close(name, scores, &unmasked(&additive), 2e-6);
        }
    });
}

#[test]
fn three_axes_are_four_with_one_head() {
    let mask = MaskSpec::lens(&[3, 6]);
    for (kind, three) in Problem::both(SIZES.with_heads(0), &mask) {
        let mut four = three.clone();
        for name in ["queries", "keys", "values"] {
            four.set(name, three.inputs[name].with_heads());
        }
        four.grad_context = three.grad_context.as_ref().map(Array::with_heads);
        device::each_training(|device| {
            for path in Path::ALL {
                let actual = three.run(device, DType::F32, path);
                for (name, expected) in &four.run(device, DType::F32, path) {
                    let what = format!("{kind}: {path:?}: {name}");
                    assert_same(&what, &actual[name].with_heads(), &expected.with_heads());
                }
            }
        });
    }
}

#[test]
fn a_scale_of_zero_weighs_all_unmasked_keys_alike() {
    device::each(|device| {
        let config = DotProductAttentionConfig::new().with_scale(Some(0.0));
        let attention = config.init();
        let rows = |seed, rows, size| Array::draw(seed, &[2, rows, size]).f32::<3>(device);
        let (q, k, v) = (rows(1, 5, 11), rows(2, 7, 11), rows(3, 7, 13));
        let output = attention.forward_with_weights(q, k, v, MaskSpec::lens(&[3, 6]).mask(device));
        let expected = Array::from_fn(&[2, 5, 7], |at| {
            let len = [3, 6][at[0]];
            f64::from(at[2] < len) / len as f64
        });
        assert_close("weights", output.weights, &expected, 1e-6);
    });
}

#[test]
fn queries_and_keys_without_components_weigh_all_unmasked_keys_alike() {
    device::each(|device| {
        let queries = Tensor::<4>::zeros([2, 3, 5, 0], device);
        let keys = Tensor::<4>::zeros([2, 3, 7, 0], device);
        let values = Array::draw(3, &[2, 3, 7, 13]);
        let context = dot_product_attention(queries, keys, values.f32(device), Mask::causal());
        let weights = oracle::masked_softmax(&Array::full(&[2, 3, 5, 7], 0.0), &MaskSpec::Causal);
        let expected = oracle::weighted_sum(&weights, &values);
        assert_close("context", context, &expected, 1e-6);
    });
}
