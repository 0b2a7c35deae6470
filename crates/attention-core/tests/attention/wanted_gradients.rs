//! A gradient has the same bits, whichever of the others are wanted: tensors that require none change nothing.

use attention_core::Mask;
use attention_core::functional::{
    AttentionOptions, additive_attention, additive_score, dot_product_attention,
};
use attention_tests::{Array, assert_same, device};
use burn::tensor::{Device, Tensor};

const BATCH: usize = 2;
const HEADS: usize = 6;
const KEY_HEADS: usize = 3;
const KEYS: usize = 37;
const SIZE: usize = 11;
const VALUE_SIZE: usize = 13;

/// Elements of keys, of values, and of a weight of each unit.
const KEYS_VALUES_WEIGHT: [usize; 3] = [
    BATCH * KEY_HEADS * KEYS * SIZE,
    BATCH * KEY_HEADS * KEYS * VALUE_SIZE,
    SIZE,
];
const BIAS: usize = BATCH * HEADS * KEYS;

const fn queries_len(num_queries: usize) -> usize {
    BATCH * HEADS * num_queries * SIZE
}

/// The gradients of leaves of these lengths, for every subset of them that requires one.
fn check<const N: usize>(
    what: &str,
    lens: [usize; N],
    device: &Device,
    operation: impl Fn([Tensor<1>; N]) -> Tensor<4>,
) {
    let is_wanted = |subset: usize, n: usize| subset >> n & 1 == 1;
    let run = |subset: usize| {
        let leaves: [_; N] = std::array::from_fn(|n| {
            let leaf = Array::draw(n as u64 + 1, &[lens[n]]).f32::<1>(device);
            leaf.set_require_grad(is_wanted(subset, n))
        });
        let result = operation(leaves.clone());
        let upstream = Array::draw(9, &result.dims()).f32(device);
        let gradients = (result * upstream).sum().backward();
        leaves.map(|leaf| leaf.grad(&gradients).map(Array::read))
    };
    let all = run((1 << N) - 1);
    for subset in 1..1 << N {
        for (n, gradient) in run(subset).iter().enumerate() {
            let what = format!("{what}: gradient {n} in the subset {subset:b}");
            assert_eq!(gradient.is_some(), is_wanted(subset, n), "{what}");
            if let Some(gradient) = gradient {
                assert_same(&what, gradient, all[n].as_ref().unwrap());
            }
        }
    }
}

fn of_queries(queries: Tensor<1>, num_queries: usize) -> Tensor<4> {
    queries.reshape([BATCH, HEADS, num_queries, SIZE])
}

fn of_keys(keys: Tensor<1>, size: usize) -> Tensor<4> {
    keys.reshape([BATCH, KEY_HEADS, KEYS, size])
}

fn mask(device: &Device) -> Mask {
    Mask::valid_lens(Tensor::from_ints([29, KEYS as i64], device))
}

/// Each query as a step of a decoder, whose gradients of keys and values are deferred, or all at once.
fn each_way(
    queries: Tensor<4>,
    is_stepwise: bool,
    attend: impl Fn(Tensor<4>) -> Tensor<4>,
) -> Tensor<4> {
    match is_stepwise {
        true => Tensor::cat(queries.iter_dim(2).map(attend).collect(), 2),
        false => attend(queries),
    }
}

#[test]
fn of_additive_attention() {
    device::each_training(|device| {
        for (num_queries, is_stepwise) in [(7, false), (1, false), (3, true)] {
            let [keys, values, weight] = KEYS_VALUES_WEIGHT;
            let lens = [queries_len(num_queries), keys, values, weight];
            let what = format!("{num_queries} queries, stepwise: {is_stepwise}");
            check(&what, lens, device, |[queries, keys, values, weight]| {
                let (keys, values) = (of_keys(keys, SIZE), of_keys(values, VALUE_SIZE));
                each_way(of_queries(queries, num_queries), is_stepwise, |queries| {
                    let (keys, values) = (keys.clone(), values.clone());
                    additive_attention(queries, keys, values, weight.clone(), mask(device))
                })
            });
        }
    });
}

#[test]
fn of_dot_product_attention() {
    device::each_training(|device| {
        for (num_queries, is_stepwise) in [(7, false), (1, false), (3, true)] {
            let [keys, values, _] = KEYS_VALUES_WEIGHT;
            let lens = [queries_len(num_queries), keys, values, BIAS];
            let what = format!("{num_queries} queries, stepwise: {is_stepwise}");
            check(&what, lens, device, |[queries, keys, values, bias]| {
                let (keys, values) = (of_keys(keys, SIZE), of_keys(values, VALUE_SIZE));
                let bias = bias.reshape([BATCH, HEADS, 1, KEYS]);
                each_way(of_queries(queries, num_queries), is_stepwise, |queries| {
                    let options = AttentionOptions {
                        mask: mask(device),
                        scale: Some(0.3),
                        bias: Some(bias.clone()),
                        ..Default::default()
                    };
                    dot_product_attention(queries, keys.clone(), values.clone(), &options)
                })
            });
        }
    });
}

#[test]
fn of_additive_scores() {
    device::each_training(|device| {
        let [keys, _, weight] = KEYS_VALUES_WEIGHT;
        let lens = [queries_len(7), keys, weight];
        check("scores", lens, device, |[queries, keys, weight]| {
            let (queries, keys) = (of_queries(queries, 7), of_keys(keys, SIZE));
            additive_score(queries, keys, weight, &mask(device))
        });
    });
}
