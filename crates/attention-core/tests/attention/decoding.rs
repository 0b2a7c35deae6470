//! A decoder's steps through one memory: their results, and how their gradients add up.

use attention_core::{AdditiveAttentionConfig, DotProductAttentionConfig, Mask, Memory};
use attention_tests::{
    Array, MaskSpec, Path, Problem, SIZES, assert_all_close, assert_close, assert_outcomes_close,
    assert_outcomes_same, device,
};
use burn::tensor::{DType, Int, Tensor};

/// Masks that are the same for all queries.
fn masks() -> Vec<MaskSpec> {
    let keep = |at: &[usize]| f64::from((at[0] + at[3]) % 3 != 1);
    vec![
        MaskSpec::None,
        MaskSpec::lens(&[3, SIZES.keys as i64]),
        MaskSpec::lens(&[0, 6]),
        MaskSpec::Keep(Array::from_fn(&[2, 1, 1, SIZES.keys], keep)),
    ]
}

#[test]
fn steps_add_up_to_one_call_gradients_too() {
    device::each_training(|device| {
        for mask in masks() {
            for (kind, problem) in Problem::both(SIZES, &mask) {
                for dtype in device::dtypes(device) {
                    let expected = problem.run(device, dtype, Path::Forward);
                    let steps = problem.run(device, dtype, Path::Steps);
                    let what = format!("{kind}: {mask:?}");
                    assert_outcomes_close(&what, &steps, &expected, 20.0 * device::epsilon(dtype));
                }
            }
        }
    });
}

/// More keys and units than any tile, and steps that all take the path of decoding.
#[test]
fn many_steps_through_many_keys() {
    let sizes = SIZES
        .with_queries(11)
        .with_keys(150)
        .with_hiddens(70)
        .with_value_size(37);
    device::each_training(|device| {
        for (kind, problem) in Problem::both(sizes, &MaskSpec::lens(&[131, 150])) {
            let expected = problem.run(device, DType::F32, Path::Forward);
            let steps = problem.run(device, DType::F32, Path::Steps);
            assert_outcomes_close(kind, &steps, &expected, 40.0 * device::epsilon(DType::F32));
        }
    });
}

#[test]
fn padding_is_ignored_in_every_step() {
    device::each_training(|device| {
        for (kind, problem) in Problem::both(SIZES, &MaskSpec::lens(&[3, 5])) {
            let clean = problem.run(device, DType::F32, Path::Steps);
            let mut poisoned = problem.clone();
            for name in ["keys", "values"] {
                let array = &problem.inputs[name];
                let poison = array.masked_fill(f64::NAN, |at| at[2] >= [3, 5][at[0]]);
                poisoned.set(name, poison);
            }
            let outcome = poisoned.run(device, DType::F32, Path::Steps);
            assert_outcomes_same(kind, &outcome, &clean);
        }
    });
}

/// The gradient of the keys, by one memory of them or by two that share the graph.
#[test]
fn two_memories_of_the_same_keys_add_up() {
    device::each_training(|device| {
        let attention = AdditiveAttentionConfig::new(3, 5, 7).init(device);
        let keys = Array::draw(1, &[2, 6, 5]).leaf::<3>(device, DType::F32);
        let values = Array::draw(2, &[2, 6, 4]).leaf::<3>(device, DType::F32);
        let query = |seed| Array::draw(seed, &[2, 1, 3]).f32::<3>(device);
        let prepare = || attention.prepare(keys.clone(), values.clone(), Mask::none());
        let gradients = |memories: [&Memory; 3]| {
            let attend = |(seed, memory)| attention.attend(query(seed), memory, Mask::none());
            let contexts = Tensor::cat((3..6).zip(memories).map(attend).collect(), 1);
            let gradients = contexts.powi_scalar(2).sum().backward();
            [&keys, &values].map(|input| Array::read(input.grad(&gradients).unwrap()))
        };
        let memory = prepare();
        let expected = gradients([&memory, &memory, &memory]);
        let (first, second) = (prepare(), prepare());
        let actual = gradients([&first, &second, &first]);
        assert_all_close("two memories", &actual, &expected, 2e-6);
        // And once more: nothing of one pass is left for the next.
        let memory = prepare();
        let actual = gradients([&memory, &memory, &memory]);
        assert_all_close("a second pass", &actual, &expected, 2e-6);
    });
}

/// Steps, which leave their part for later, beside readers that have their gradients at once.
#[test]
fn steps_and_other_readers_of_a_memory_add_up() {
    device::each_training(|device| {
        let dot = DotProductAttentionConfig::new().init();
        let additive = AdditiveAttentionConfig::new(5, 5, 7).init(device);
        let keys = Array::draw(1, &[2, 6, 5]).leaf::<3>(device, DType::F32);
        let values = Array::draw(2, &[2, 6, 4]).leaf::<3>(device, DType::F32);
        let mask = || Mask::valid_lens(Tensor::<1, Int>::from_data([3, 6], device));
        let query = |seed, len| Array::draw(seed, &[2, len, 5]).f32::<3>(device);
        macro_rules! gradients {
            ($attention:expr, $memory:expr) => {{
                let attention = &$attention;
                let attend = |query| attention.attend(query, &$memory(), Mask::none());
                let output = attention.attend_with_weights(query(5, 2), &$memory(), Mask::none());
                let [first, many, last] = [query(3, 1), query(4, 9), query(6, 1)].map(attend);
                let contexts = vec![first, many, output.context, last];
                let loss = Tensor::cat(contexts, 1).powi_scalar(2).sum().backward();
                [&keys, &values].map(|input| Array::read(input.grad(&loss).unwrap()))
            }};
        }
        macro_rules! check {
            ($attention:expr) => {
                let prepare = || $attention.prepare(keys.clone(), values.clone(), mask());
                let memory = prepare();
                let one = gradients!($attention, || memory.clone());
                let many = gradients!($attention, prepare);
                assert_all_close("one memory or many", &one, &many, 4e-6);
            };
        }
        check!(dot);
        check!(additive);
        // Only one of the two is tracked.
        for (tracked, keys, values) in [
            (&keys, keys.clone(), values.clone().detach()),
            (&values, keys.clone().detach(), values.clone()),
        ] {
            let memory = dot.prepare(keys.clone(), values.clone(), mask());
            let contexts = (3..6).map(|seed| dot.attend(query(seed, 1), &memory, Mask::none()));
            let steps = Tensor::cat(contexts.collect(), 1);
            let queries = Tensor::cat((3..6).map(|seed| query(seed, 1)).collect(), 1);
            let whole = dot.forward(queries, keys, values, mask());
            let [steps, whole] = [steps, whole].map(|contexts| {
                let gradients = contexts.powi_scalar(2).sum().backward();
                Array::read(tracked.grad(&gradients).unwrap())
            });
            assert_close("one side tracked", &steps, &whole, 4e-6);
        }
    });
}

/// A beam search that trains: gradients go through what was selected and expanded.
#[test]
fn gradients_pass_through_selected_and_expanded_memories() {
    device::each_training(|device| {
        let attention = DotProductAttentionConfig::new().init();
        let additive = AdditiveAttentionConfig::new(5, 5, 7).init(device);
        let keys = Array::draw(1, &[2, 6, 5]).leaf::<3>(device, DType::F32);
        let values = Array::draw(2, &[2, 6, 4]).leaf::<3>(device, DType::F32);
        let lens = Array::from_fn(&[2], |at| [4.0, 6.0][at[0]]).int::<1>(device);
        let indices = || Tensor::<1, Int>::from_data([1, 0, 1], device);
        let query = |batch, seed| Array::draw(seed, &[batch, 1, 5]).f32::<3>(device);
        let gradients = |contexts: Vec<Tensor<3>>| {
            let loss = Tensor::cat(contexts, 0).powi_scalar(2).sum().backward();
            [&keys, &values].map(|input| Array::read(input.grad(&loss).unwrap()))
        };
        let mask = || Mask::valid_lens(lens.clone());
        macro_rules! check {
            ($attention:expr) => {
                let memory = $attention.prepare(keys.clone(), values.clone(), mask());
                let (selected, expanded) = (memory.select(indices()), memory.expand(2));
                let through_memory = gradients(vec![
                    $attention.attend(query(2, 3), &memory, Mask::none()),
                    $attention.attend(query(3, 4), &selected, Mask::none()),
                    $attention.attend(query(4, 5), &expanded, Mask::none()),
                    $attention.attend(query(2, 6), &memory, Mask::none()),
                    $attention.attend(query(3, 7), &selected, Mask::none()),
                ]);
                let forward = |rows: &[i64], seed| {
                    let queries = query(rows.len(), seed);
                    let rows = Tensor::<1, Int>::from_data(rows, device);
                    let mask = Mask::valid_lens(lens.clone().select(0, rows.clone()));
                    let [k, v] = [&keys, &values].map(|of| of.clone().select(0, rows.clone()));
                    $attention.forward(queries, k, v, &mask)
                };
                let expected = gradients(vec![
                    forward(&[0, 1], 3),
                    forward(&[1, 0, 1], 4),
                    forward(&[0, 0, 1, 1], 5),
                    forward(&[0, 1], 6),
                    forward(&[1, 0, 1], 7),
                ]);
                assert_all_close("beams", &through_memory, &expected, 4e-6);
            };
        }
        check!(attention);
        check!(additive);
    });
}
