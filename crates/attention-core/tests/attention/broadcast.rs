//! Queries, keys or values of one example beside others of more: the same as with that example repeated.

use attention_core::functional::{
    AttentionOptions, additive_attention, additive_attention_steps, dot_product_attention,
    dot_product_attention_steps,
};
use attention_tests::heads::{On, roundings};
use attention_tests::parameters::results;
use attention_tests::{Array, MaskSpec, assert_all_close, device, panic_message};
use burn::tensor::Tensor;

const BATCH: usize = 3;
const HEADS: usize = 4;
const SIZE: usize = 5;

/// Attention without dropout. An additive score reads `weight`.
type Call<const D: usize> = fn([Tensor<D>; 3], Tensor<1>, &AttentionOptions) -> Tensor<D>;

fn calls<const D: usize>() -> [(&'static str, Call<D>); 4] {
    [
        ("dot product", |[q, k, v], _, options| {
            dot_product_attention(q, k, v, options)
        }),
        ("steps of dot products", |[q, k, v], _, options| {
            dot_product_attention_steps(q, k, v, options).context
        }),
        ("additive", |[q, k, v], weight, options| {
            additive_attention(q, k, v, weight, options)
        }),
        ("additive steps", |[q, k, v], weight, options| {
            additive_attention_steps(q, k, v, weight, options).context
        }),
    ]
}

/// The shapes of queries, keys and values, some of one example; with three axes there are no heads.
fn shapes<const D: usize>(batches: [usize; 3]) -> [[usize; D]; 3] {
    let [queries, keys, values] = batches;
    let of_four_axes = [
        [queries, HEADS, 6, SIZE],
        [keys, HEADS / 2, 7, SIZE],
        [values, HEADS / 2, 7, 11],
    ];
    of_four_axes.map(|[batch, heads, rows, size]| match D {
        3 => [batch, rows, size][..].try_into().unwrap(),
        _ => [batch, heads, rows, size][..].try_into().unwrap(),
    })
}

/// Context and gradients, where `is_repeated` of each example repeated.
fn run<const D: usize>(
    call: Call<D>,
    batches: [usize; 3],
    is_repeated: bool,
    (device, dtype): On,
) -> Vec<Array> {
    let mut seed = 0;
    let leaves = shapes::<D>(batches).map(|shape| {
        seed += 1;
        Array::draw(seed, &shape).leaf::<D>(device, dtype)
    });
    let inputs = leaves.clone().map(|leaf| match leaf.dims()[0] {
        1 if is_repeated => leaf.repeat_dim(0, BATCH),
        _ => leaf,
    });
    let heads = if D == 3 { 1 } else { HEADS };
    let bias = Array::draw(5, &[BATCH, heads, 6, 7]);
    let options = AttentionOptions {
        mask: MaskSpec::lens(&[3, 7, 5]).mask(device),
        bias: Some(bias.tensor(device, dtype)),
        ..AttentionOptions::default()
    };
    let weight = Array::draw(6, &[SIZE]).tensor(device, dtype);
    results(call(inputs, weight, &options), leaves, 7)
}

fn one_example_is_that_of_all<const D: usize>(on: On) {
    for (name, call) in calls::<D>() {
        for batches in [[1, 3, 3], [3, 1, 1], [3, 1, 3], [1, 1, 3]] {
            let actual = run(call, batches, false, on);
            let expected = run(call, batches, true, on);
            assert_eq!(actual[0].shape[0], BATCH);
            let what = format!("{name} of {batches:?}, {D} axes");
            assert_all_close(what, &actual, &expected, roundings(16.0, on));
        }
    }
}

#[test]
fn one_example_beside_more_is_repeated() {
    device::each_training(device::in_each_type(|on| {
        one_example_is_that_of_all::<3>(on);
        one_example_is_that_of_all::<4>(on);
    }));
}

#[test]
fn other_batches_are_refused() {
    device::each(|device| {
        for (name, call) in calls::<4>() {
            for batches in [[2, 3, 3], [3, 2, 1], [3, 3, 2]] {
                let inputs = shapes::<4>(batches).map(|shape| Tensor::<4>::ones(shape, device));
                let weight = Tensor::ones([SIZE], device);
                let message = panic_message(|| call(inputs, weight, &AttentionOptions::default()));
                let says = message.contains('2') && message.contains('3');
                assert!(says, "{name} of {batches:?}: {message}");
            }
        }
    });
}

#[test]
fn one_example_beside_none_is_none() {
    device::each_both_ways(|device| {
        for (name, call) in calls::<4>() {
            for batches in [[0, 1, 1], [1, 0, 0]] {
                let inputs = shapes::<4>(batches).map(|shape| Tensor::<4>::ones(shape, device));
                let weight = Tensor::ones([SIZE], device);
                let context = call(inputs, weight, &AttentionOptions::default());
                assert_eq!(context.dims(), [0, HEADS, 6, 11], "{name} of {batches:?}");
            }
        }
    });
}
