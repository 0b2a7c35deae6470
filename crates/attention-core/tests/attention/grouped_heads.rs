//! Heads of queries that share heads of keys and values: the same as with these repeated.

use attention_core::position::{AlibiConfig, RelativePositionBiasConfig};
use attention_core::score::{
    AdditiveScoreConfig, Biased, DotProductScoreConfig, GaussianScoreConfig,
};
use attention_core::{Mask, Memory, MultiHeadAttentionConfig, ScoringFunction};
use attention_tests::heads::{HIDDENS, On, SHAPE, inputs, roundings, run};
use attention_tests::{
    Array, MaskSpec, Path, assert_close, assert_outcomes_close, device, parameters, refuses,
};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

/// The columns of `parameter`, `[.., kv_heads * size]`, with each head `group` times.
fn repeated<const D: usize>(
    parameter: &Param<Tensor<D>>,
    kv_heads: usize,
    group: usize,
    device: &Device,
) -> Param<Tensor<D>> {
    let from = Array::read(parameter.val());
    let mut shape = from.shape.clone();
    let size = shape[D - 1] / kv_heads;
    shape[D - 1] *= group;
    let repeated = Array::from_fn(&shape, |at| {
        let mut source = at.to_vec();
        let column = at[D - 1];
        source[D - 1] = column / size / group * size + column % size;
        from.at(&source)
    });
    Param::from_tensor(repeated.tensor(device, parameter.dtype()))
}

/// Compares grouped heads with ungrouped ones, the heads of keys and values repeated for each query of a group.
fn equals_repeated_heads<S: ScoringFunction>(name: &str, score: impl Fn(usize) -> S, on: On) {
    let (device, dtype) = on;
    for (heads, kv_heads, value_head_size) in [(4, 2, None), (3, 1, Some(5)), (6, 2, None)] {
        let config = || {
            let config = MultiHeadAttentionConfig::new(HIDDENS, heads).with_bias(true);
            config.with_value_head_size(value_head_size)
        };
        let grouped = config().with_num_key_value_heads(Some(kv_heads));
        let grouped = grouped.init_with(score(heads), device);
        let grouped = parameters::cast(grouped, dtype);
        let group = heads / kv_heads;
        let mut full = config().init_with(grouped.attention.score.clone(), device);
        full.query = grouped.query.clone();
        full.output = grouped.output.clone();
        let (key, value) = (&grouped.key, &grouped.value);
        for (to, from) in [(&mut full.key, key), (&mut full.value, value)] {
            to.weight = repeated(&from.weight, kv_heads, group, device);
            let bias = from.bias.as_ref().unwrap();
            to.bias = Some(repeated(bias, kv_heads, group, device));
        }
        let inputs = inputs([HIDDENS; 3], HIDDENS);
        let [batch, _, queries, keys] = SHAPE;
        let of_pairs = MaskSpec::drawn(8, &[batch, heads, queries, keys], 0.7);
        let of_keys = MaskSpec::drawn(9, &[batch, heads, 1, keys], 0.7);
        for mask in [MaskSpec::lens(&[3, 6]), MaskSpec::Causal, of_pairs, of_keys] {
            let has_rows_alike = matches!(&mask, MaskSpec::ValidLens(_))
                || matches!(&mask, MaskSpec::Keep(keep) if keep.shape[2] == 1);
            for path in [Path::Forward, Path::AttendWithWeights, Path::Steps] {
                if matches!(path, Path::Steps) && !has_rows_alike {
                    continue;
                }
                let mut expected = run(&full, &inputs, &mask, path, on);
                // Gradients of the repeated heads add up.
                expected.retain(|name, _| {
                    !name.starts_with("grad key.") && !name.starts_with("grad value.")
                });
                let actual = run(&grouped, &inputs, &mask, path, on);
                let what = format!("{name}: {kv_heads} of {heads} heads, {path:?}");
                assert_outcomes_close(&what, &actual, &expected, roundings(24.0, on));
            }
        }
    }
}

/// A score whose author has not thought of shared heads.
#[derive(Module, Debug)]
struct DistanceScore {}

impl ScoringFunction for DistanceScore {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let difference = queries.unsqueeze_dim::<5>(3) - keys.unsqueeze_dim::<5>(2);
        -difference.powi_scalar(2).sum_dim(4).squeeze_dim::<4>(4)
    }
}

#[test]
fn grouped_heads_are_repeated_heads() {
    device::each_training(device::in_each_type(|on @ (device, _)| {
        let dot = || DotProductScoreConfig::new().init();
        equals_repeated_heads("dot product", |_| dot(), on);
        let size = |heads| HIDDENS / heads;
        let additive = |heads| AdditiveScoreConfig::new(size(heads), size(heads), 5).init(device);
        equals_repeated_heads("additive", additive, on);
        let gaussian = || GaussianScoreConfig::new().with_learned(true).init(device);
        equals_repeated_heads("Gaussian", |_| gaussian(), on);
        equals_repeated_heads("distance", |_| DistanceScore {}, on);
        let alibi = |heads| Biased::new(gaussian(), AlibiConfig::new(heads).init());
        equals_repeated_heads("ALiBi", alibi, on);
        let relative = |heads| RelativePositionBiasConfig::new(heads).init(device);
        equals_repeated_heads("T5", |heads| Biased::new(dot(), relative(heads)), on);
    }));
}

/// A memory of keys that others have projected, which more heads of queries read: its mask may tell these heads apart.
#[test]
fn a_memory_of_projected_keys_has_a_mask_of_the_heads_of_queries() {
    device::each_both_ways(|device| {
        let (heads, kv_heads) = (4, 2);
        let [batch, _, queries, keys] = SHAPE;
        let config = MultiHeadAttentionConfig::new(HIDDENS, heads);
        let module = config.with_num_key_value_heads(Some(kv_heads)).init(device);
        let inputs = inputs([HIDDENS; 3], HIDDENS);
        let [q, k, v] = ["queries", "keys", "values"].map(|name| inputs[name].f32::<3>(device));
        let of_heads = |rows: Tensor<3>| {
            let rows = rows.reshape([batch, keys, kv_heads, HIDDENS / heads]);
            rows.swap_dims(1, 2)
        };
        let project = |layer: &burn::nn::Linear, rows| of_heads(layer.forward(rows));
        for rows in [1, queries] {
            let mask = MaskSpec::drawn(8, &[batch, heads, rows, keys], 0.7);
            let projected = project(&module.key, k.clone());
            let values = project(&module.value, v.clone());
            let memory = Memory::of_projected(projected, values, mask.mask(device));
            let expected = module.forward(q.clone(), k.clone(), v.clone(), mask.mask(device));
            let context = module.attend(q.clone(), &memory, Mask::none());
            assert_close("context", context, expected, 2e-6);
            let chosen = memory.select(Array::full(&[1], 1.0).int(device)).expand(2);
            assert_eq!(chosen.batch_size(), 2);
        }
        let rows = |heads| Tensor::<4>::ones([batch, heads, keys, 3], device);
        let mask = |heads| MaskSpec::drawn(8, &[batch, heads, 1, keys], 0.7).mask(device);
        refuses("expected to divide those of queries, 3, got 2", || {
            Memory::of_projected(rows(2), rows(2), mask(3))
        });
    });
}
