//! Dot-product attention against plain loops.

use attention_core::functional;
use attention_core::{DotProductAttentionConfig, Mask};
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, Sizes, assert_close, assert_outcomes_close, device,
    masks, oracle,
};
use burn::tensor::{DType, Tensor};

#[test]
fn is_the_formula_under_every_mask() {
    let shape = [SIZES.batch, SIZES.heads, SIZES.queries, SIZES.keys];
    for (name, mask) in masks(shape) {
        for scale in [None, Some(0.7), Some(-0.3)] {
            let mut problem = Problem::dot_product(SIZES, mask.clone());
            problem.scale = scale;
            let mut expected = problem.solve();
            if expected["context"].magnitude() == 0.0 {
                continue; // All keys masked: the subject of fully_masked_queries.rs.
            }
            for path in [Path::ForwardWithWeights, Path::Forward] {
                if path == Path::Forward {
                    expected.remove("weights");
                }
                device::each(|device| {
                    for dtype in device::dtypes(device) {
                        let outcome = problem.run(device, dtype, path);
                        let tolerance = 20.0 * device::epsilon(dtype);
                        assert_outcomes_close(name, &outcome, &expected, tolerance);
                    }
                });
            }
        }
    }
}

#[test]
fn a_scale_of_zero_weighs_all_unmasked_keys_alike() {
    device::each(|device| {
        let attention = DotProductAttentionConfig::new()
            .with_scale(Some(0.0))
            .init();
        let queries = Array::draw(1, &[2, 5, 11]).f32::<3>(device);
        let keys = Array::draw(2, &[2, 7, 11]).f32::<3>(device);
        let values = Array::draw(3, &[2, 7, 13]).f32::<3>(device);
        let lens = MaskSpec::lens(&[3, 6]).mask(device);
        let weights = attention
            .forward_with_weights(queries, keys, values, &lens)
            .weights;
        let expected = Array::from_fn(&[2, 5, 7], |at| {
            let len = [3, 6][at[0]];
            f64::from(at[2] < len) / len as f64
        });
        assert_close("weights", &Array::read(weights), &expected, 1e-6);
    });
}

#[test]
fn results_stay_right_above_every_tile() {
    let sizes = Sizes {
        batch: 1,
        heads: 1,
        queries: 67,
        keys: 131,
        query_size: 37,
        key_size: 37,
        hiddens: 0,
        value_size: 71,
    };
    let keep = MaskSpec::Keep(Array::from_fn(&[1, 131], |at| f64::from(at[1] >= 65)));
    for mask in [
        MaskSpec::None,
        MaskSpec::Causal,
        MaskSpec::lens(&[64]),
        keep,
    ] {
        let problem = Problem::dot_product(sizes, mask);
        let expected = problem.solve();
        device::each(|device| {
            let outcome = problem.run(device, DType::F32, Path::ForwardWithWeights);
            assert_outcomes_close("large", &outcome, &expected, 4e-6);
            let context = &problem.run(device, DType::F32, Path::Forward)["context"];
            assert_close("large: forward", context, &expected["context"], 4e-6);
        });
    }
}

#[test]
fn masked_scores_are_zero() {
    let shape = [2, 3, 5, 7];
    device::each(|device| {
        for (name, mask) in masks(shape) {
            let (queries, keys) = (
                Array::draw(1, &[2, 3, 5, 11]),
                Array::draw(2, &[2, 3, 7, 11]),
            );
            let mask_tensors = mask.mask(device);
            let scores = functional::dot_product_score(
                queries.f32(device),
                keys.f32(device),
                &mask_tensors,
                0.5,
            );
            let expected = oracle::dot_product_scores(&queries, &keys, 0.5);
            let attended = mask.table(shape);
            let expected = Array::from_fn(&shape, |at| expected.at(at) * attended.at(at));
            assert_close(name, &Array::read(scores), &expected, 2e-6);
        }
    });
}

#[test]
fn queries_and_keys_without_components_weigh_all_unmasked_keys_alike() {
    device::each(|device| {
        let queries = Tensor::<4>::zeros([2, 3, 5, 0], device);
        let keys = Tensor::<4>::zeros([2, 3, 7, 0], device);
        let values = Array::draw(3, &[2, 3, 7, 13]);
        let options = (&Mask::causal()).into();
        let context =
            functional::dot_product_attention(queries, keys, values.f32(device), &options);
        let weights = oracle::masked_softmax(&Array::full(&[2, 3, 5, 7], 0.0), &MaskSpec::Causal);
        let expected = oracle::weighted_sum(&weights, &values);
        assert_close("context", &Array::read(context), &expected, 1e-6);
    });
}
