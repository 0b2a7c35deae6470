//! Changes of the user's own to scores.

use std::sync::Arc;

use attention_core::functional::{
    AttentionOptions, RowOfScores, ScoreMod, VectorMod, additive_attention, dot_product_attention,
};
use attention_core::score::Simd;
use attention_core::{
    DotProductAttentionConfig, KeyValueCache, Mask, MultiHeadAttentionConfig, NewRows,
};
use attention_tests::parameters::results;
use attention_tests::{Array, assert_all_close, assert_close, device, masks, refuses};
use burn::tensor::{DType, Device, Tensor};

/// `cap tanh(score / cap)`
#[derive(Debug)]
struct SoftCap(f32);

impl ScoreMod for SoftCap {
    fn modify(&self, scores: &mut [f32], _at: RowOfScores) {
        for score in scores {
            *score = self.0 * (*score / self.0).tanh();
        }
    }

    fn gradient(&self, scores: &[f32], gradients: &mut [f32], _at: RowOfScores) {
        for (gradient, score) in gradients.iter_mut().zip(scores) {
            let tanh = (score / self.0).tanh();
            *gradient *= 1.0 - tanh * tanh;
        }
    }
}

/// The same of vectors.
#[derive(Debug)]
struct VectorCap(f32);

impl VectorCap {
    #[inline(always)]
    fn tanh<S: Simd<f32>>(&self, simd: S, scores: S::V) -> S::V {
        let [one, two, most] = [simd.splat(1.0), simd.splat(2.0), simd.splat(40.0)];
        let double = simd.mul(scores, simd.splat(2.0 / self.0));
        let power = simd.exp(simd.min(most, double));
        simd.neg_mul_add(two, simd.reciprocal(simd.add(power, one)), one)
    }
}

impl VectorMod for VectorCap {
    #[inline(always)]
    fn value<S: Simd<f32>>(&self, simd: S, scores: S::V, at: RowOfScores) -> S::V {
        assert!(at.first_key < SHAPE[3]);
        simd.mul(simd.splat(self.0), self.tanh(simd, scores))
    }

    #[inline(always)]
    fn derivative<S: Simd<f32>>(&self, simd: S, scores: S::V, _at: RowOfScores) -> S::V {
        let tanh = self.tanh(simd, scores);
        simd.neg_mul_add(tanh, tanh, simd.splat(1.0))
    }
}

/// ALiBi: `- 2^-(head + 1) |query + keys - queries - key|`, and what tells the examples apart.
#[derive(Debug)]
struct Distance {
    offset: usize,
}

impl Distance {
    fn bias(&self, [batch, head, query, key]: [usize; 4]) -> f32 {
        let distance = (query + self.offset).abs_diff(key) as f32;
        -distance / f32::powi(2.0, head as i32 + 1) + batch as f32 * (key % 3) as f32
    }

    fn table(&self, shape: [usize; 4]) -> Array {
        Array::from_fn(&shape, |at| {
            f64::from(self.bias([at[0], at[1], at[2], at[3]]))
        })
    }
}

impl ScoreMod for Distance {
    fn modify(&self, scores: &mut [f32], at: RowOfScores) {
        for (index, score) in scores.iter_mut().enumerate() {
            *score += self.bias([at.batch, at.head, at.query, at.first_key + index]);
        }
    }

    fn gradient(&self, _scores: &[f32], _gradients: &mut [f32], _at: RowOfScores) {}
}

struct Rows {
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
}

const SHAPE: [usize; 4] = [2, 4, 9, 150];

impl Rows {
    fn new(device: &Device, dtype: DType) -> Self {
        let [batch, heads, queries, keys] = SHAPE;
        let draw = |seed, shape: [usize; 4]| Array::draw(seed, &shape).leaf(device, dtype);
        Self {
            queries: draw(1, [batch, heads, queries, 5]),
            keys: draw(2, [batch, heads / 2, keys, 5]),
            values: draw(3, [batch, heads / 2, keys, 3]),
        }
    }

    /// The context and the gradients.
    fn run(&self, attend: impl Fn([Tensor<4>; 3]) -> Tensor<4>) -> Vec<Array> {
        let inputs = [&self.queries, &self.keys, &self.values].map(Tensor::clone);
        results(attend(inputs.clone()), inputs, 9)
    }
}

#[test]
fn a_cap_of_ones_own_is_the_soft_cap() {
    device::each_training(|device| {
        for (name, mask) in masks(SHAPE) {
            let rows = Rows::new(device, DType::F32);
            let mask = mask.mask(device);
            let weight = Array::draw(4, &[5]).f32::<1>(device);
            let by_option = AttentionOptions {
                mask: mask.clone(),
                soft_cap: Some(0.7),
                ..Default::default()
            };
            let own = AttentionOptions::from(mask.clone()).with_score_mod(SoftCap(0.7));
            let of_vectors = AttentionOptions::from(mask).with_score_mod(VectorCap(0.7));
            let [expected, actual, by_vectors] = [&by_option, &own, &of_vectors]
                .map(|options| rows.run(|[q, k, v]| dot_product_attention(q, k, v, options)));
            assert_all_close(name, &actual, &expected, 1e-5);
            assert_all_close(name, &by_vectors, &expected, 1e-5);
            let [expected, actual, by_vectors] = [&by_option, &own, &of_vectors].map(|options| {
                rows.run(|[q, k, v]| additive_attention(q, k, v, weight.clone(), options))
            });
            assert_all_close(name, &actual, &expected, 1e-5);
            assert_all_close(name, &by_vectors, &expected, 1e-5);
        }
    });
}

/// A change by place is a bias, with biases, sinks and a soft-cap beside it, in calls that store no score, calls that
/// return weights and steps of a decoder.
#[test]
fn a_change_by_place_is_a_bias() {
    device::each_training(|device| {
        let [batch, heads, queries, keys] = SHAPE;
        let offset = keys - queries;
        let change = Arc::new(Distance { offset });
        let of_place = change.table(SHAPE).f32::<4>(device);
        let rows = Rows::new(device, DType::F32);
        let bias = Array::from_fn(&[1, 1, queries, keys], |at| match (at[2] * 7 + at[3]) % 5 {
            0 => f64::NEG_INFINITY,
            place => place as f64 / 5.0,
        });
        let bias = bias.f32::<4>(device);
        let options = AttentionOptions {
            mask: Mask::causal(),
            soft_cap: Some(2.0),
            sinks: Some(Array::draw(5, &[heads]).f32(device)),
            ..Default::default()
        };
        let expected = AttentionOptions {
            bias: Some(bias.clone() + of_place.clone()),
            ..options.clone()
        };
        let own = AttentionOptions {
            bias: Some(bias),
            score_mod: Some(change.clone()),
            ..options
        };
        let attention = DotProductAttentionConfig::new().init();
        let forward = |of: &AttentionOptions| rows.run(|[q, k, v]| attention.forward(q, k, v, of));
        assert_all_close("forward", &forward(&own), &forward(&expected), 1e-5);
        let weighed = |options: &AttentionOptions| {
            rows.run(|[q, k, v]| attention.forward_with_weights(q, k, v, options).context)
        };
        assert_all_close("with weights", &weighed(&own), &weighed(&expected), 1e-5);
        let memory = attention.prepare(rows.keys.clone(), rows.values.clone(), Mask::none());
        let last = rows.queries.clone().narrow(2, queries - 1, 1);
        let step = AttentionOptions::default().with_score_mod(Distance { offset: keys - 1 });
        let expected = AttentionOptions {
            bias: Some(of_place.narrow(2, queries - 1, 1)),
            ..Default::default()
        };
        let [step, expected] =
            [&step, &expected].map(|options| attention.attend(last.clone(), &memory, options));
        assert_eq!(step.dims(), [batch, heads, 1, 3]);
        assert_close("a step", step, &Array::read(expected), 1e-5);
    });
}

#[test]
fn other_types_are_changed_in_f32() {
    device::each_training(|device| {
        let types = [DType::F16, DType::BF16, DType::F64].into_iter();
        for dtype in types.filter(|&dtype| device::computes(device, dtype)) {
            let rows = Rows::new(device, dtype);
            let by_option = AttentionOptions {
                soft_cap: Some(0.7),
                ..Default::default()
            };
            let own = AttentionOptions::default().with_score_mod(SoftCap(0.7));
            let [expected, actual] = [&by_option, &own]
                .map(|options| rows.run(|[q, k, v]| dot_product_attention(q, k, v, options)));
            let tolerance = device::epsilon(dtype).max(1e-5);
            assert_all_close(format!("{dtype:?}"), &actual, &expected, tolerance);
        }
    });
}

#[test]
fn heads_take_a_change() {
    device::each(|device| {
        let heads = MultiHeadAttentionConfig::new(8, 2).init(device);
        let x = Array::draw(1, &[2, 6, 8]).f32::<3>(device);
        let change = Distance { offset: 0 };
        let bias = AttentionOptions {
            bias: Some(change.table([2, 2, 6, 6]).f32(device)),
            ..Default::default()
        };
        let own = AttentionOptions::default().with_score_mod(change);
        let [actual, expected] =
            [&own, &bias].map(|options| heads.forward(x.clone(), x.clone(), x.clone(), options));
        assert_close("heads", actual, &Array::read(expected), 1e-5);
    });
}

#[test]
fn extra_keys_have_no_place() {
    let device = Device::flex();
    let rows = |number| Tensor::<4>::ones([1, 1, number, 2], &device);
    let options = AttentionOptions {
        extra_keys: Some([rows(1), rows(1)]),
        ..Default::default()
    };
    let options = options.with_score_mod(SoftCap(1.0));
    refuses("score_mod expected without extra keys", || {
        dot_product_attention(rows(2), rows(3), rows(3), &options)
    });
}

/// A window moves its keys, and examples of different lengths may be attended to one at a time.
#[test]
fn caches_that_move_keys_take_no_change_by_place() {
    let device = Device::flex();
    let attention = DotProductAttentionConfig::new().init();
    let rows = || Tensor::<3>::ones([2, 1, 4], &device);
    let own = || AttentionOptions::default().with_score_mod(SoftCap(1.0));
    let mut cache = KeyValueCache::new().with_window(3);
    let step = |cache: &mut KeyValueCache, options| {
        attention.forward_cached(rows(), rows(), rows(), NewRows::All, cache, options)
    };
    step(&mut cache, Mask::none().into());
    let message = "no mask, relative bias, bias of more than one key or score_mod expected";
    refuses(message, || step(&mut cache.clone(), own()));
    // Keys that stay where they are.
    let mut cache = KeyValueCache::new();
    step(&mut cache, Mask::none().into());
    assert_eq!(step(&mut cache, own()).dims(), [2, 1, 4]);
}

/// Elements of f64, weights asked for and composed scores go through the host, on a CPU too.
#[test]
fn too_many_scores_for_the_host_are_refused() {
    let device = Device::flex();
    let attend = |dtype| {
        let rows = |number| Tensor::<4>::ones([1, 1, number, 1], (&device, dtype));
        let options = AttentionOptions::default().with_score_mod(SoftCap(1.0));
        dot_product_attention(rows(4097), rows(4097), rows(4097), options)
    };
    let messages = [
        "at most 16777216 scores expected for a score_mod on the host, got 16785409",
        "of f32 or half precision, of dot products, additive or pairwise scores",
    ];
    refuses(messages, || attend(DType::F64));
    assert_eq!(attend(DType::F32).dims(), [1, 1, 4097, 1]);
}
