//! Heads around any scoring function: the same as one attention per head.

use attention_core::score::AdditiveScoreConfig;
use attention_core::{
    AdditiveScore, DotProductScore, Mask, MultiHeadAttention, MultiHeadAttentionConfig,
    ScoringFunction,
};
use attention_tests::heads::{HEADS, HIDDENS, Inputs, On, SHAPE, inputs, roundings, run, tensors};
use attention_tests::{
    Array, MaskSpec, Path, assert_close, assert_outcomes_close, assert_outcomes_same, assert_same,
    assert_says, device, masks, panic_message, parameters, refuses,
};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Int, Tensor};

/// A projection that changes nothing.
fn identity(size: usize, (device, dtype): On) -> Linear {
    let weight = Array::from_fn(&[size, size], |at| f64::from(at[0] == at[1]));
    Linear {
        weight: Param::from_tensor(weight.tensor(device, dtype)),
        bias: None,
    }
}

#[test]
fn one_head_with_identity_projections_is_plain_attention() {
    device::each(device::in_each_type(|on @ (device, _)| {
        let inputs = inputs([HIDDENS; 3], HIDDENS);
        let config = MultiHeadAttentionConfig::new(HIDDENS, 1).with_output(false);
        let mut module = config.init(device);
        for projection in [&mut module.query, &mut module.key, &mut module.value] {
            *projection = identity(HIDDENS, on);
        }
        let [batch, _, queries, keys] = SHAPE;
        for (name, mask) in masks([batch, 1, queries, keys]) {
            let mask = mask.mask(device);
            let [q, k, v] = tensors(&inputs, on);
            let attention = &module.attention;
            let expected = attention.forward(q.clone(), k.clone(), v.clone(), &mask);
            let actual = module.forward(q, k, v, &mask);
            assert_close(name, actual, expected, roundings(8.0, on));
        }
    }));
}

/// One attention for each head, on its part of the projections.
fn by_hand<S: ScoringFunction>(
    module: &MultiHeadAttention<S>,
    [queries, keys, values]: [Tensor<3>; 3],
    mask: impl Fn(usize) -> Mask,
) -> Tensor<3> {
    let (queries, keys) = (module.query.forward(queries), module.key.forward(keys));
    let values = module.value.forward(values);
    let part = |rows: &Tensor<3>, head: usize| {
        let size = rows.dims()[2] / HEADS;
        rows.clone().narrow(2, head * size, size)
    };
    let head = |head| {
        let [q, k, v] = [&queries, &keys, &values].map(|rows| part(rows, head));
        module.attention.forward(q, k, v, mask(head))
    };
    let heads = Tensor::cat((0..HEADS).map(head).collect(), 2);
    match &module.output {
        Some(output) => output.forward(heads),
        None => heads,
    }
}

fn equals_one_attention_per_head<S: ScoringFunction>(module: &MultiHeadAttention<S>, on: On) {
    let (device, _) = on;
    let inputs = inputs([4, 5, 6], 8);
    for (name, mask) in masks(SHAPE) {
        // A mask of one head; they differ where the mask is dense.
        let table = mask.table(SHAPE);
        let of_head = |head: usize| {
            let [batch, _, queries, keys] = SHAPE;
            let of_head = |at: &[usize]| table.at(&[at[0], head, at[1], at[2]]);
            let keep = Array::from_fn(&[batch, queries, keys], of_head);
            Mask::keep(keep.bool::<3>(device))
        };
        let expected = by_hand(module, tensors(&inputs, on), of_head);
        let [q, k, v] = tensors(&inputs, on);
        let actual = module.forward(q, k, v, mask.mask(device));
        assert_close(name, actual, expected, roundings(24.0, on));
    }
}

fn config() -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(HIDDENS, HEADS)
        .with_query_size(Some(4))
        .with_key_size(Some(5))
        .with_value_size(Some(6))
        .with_output_size(Some(8))
        .with_bias(true)
}

fn dot(on: On) -> MultiHeadAttention<DotProductScore> {
    parameters::cast(config().init(on.0), on.1)
}

fn additive(on: On) -> MultiHeadAttention<AdditiveScore> {
    let size = config().head_size();
    let score = AdditiveScoreConfig::new(size, size, 5).init(on.0);
    parameters::cast(config().init_with(score, on.0), on.1)
}

#[test]
fn heads_are_one_attention_each() {
    device::each(device::in_each_type(|on| {
        equals_one_attention_per_head(&dot(on), on);
        equals_one_attention_per_head(&additive(on), on);
        // Values of more and of fewer elements than queries and keys.
        for size in [7, 1] {
            let config = || config().with_value_head_size(Some(size));
            let module = config().init(on.0);
            assert_eq!(module.value.weight.dims(), [6, HEADS * size]);
            equals_one_attention_per_head(&parameters::cast(module, on.1), on);
            // Concatenated.
            let config = config().with_output_size(None).with_output(false);
            let module = parameters::cast(config.init(on.0), on.1);
            let [q, k, v] = tensors(&inputs([4, 5, 6], 8), on);
            let context = module.forward(q, k, v, Mask::none());
            assert_eq!(context.dims(), [2, 5, HEADS * size]);
            equals_one_attention_per_head(&module, on);
        }
    }));
}

#[test]
fn prepared_keys_are_forward() {
    device::each_training(device::in_each_type(|on @ (device, _)| {
        let module = additive(on);
        let inputs = inputs([4, 5, 6], 8);
        let lens = MaskSpec::lens(&[3, 6]);
        for mask in [lens.clone(), lens.clone().and(MaskSpec::Causal)] {
            let expected = run(&module, &inputs, &mask, Path::ForwardWithWeights, on);
            let actual = run(&module, &inputs, &mask, Path::AttendWithWeights, on);
            assert_outcomes_close("attend", &actual, &expected, roundings(16.0, on));
        }
        let expected = run(&module, &inputs, &lens, Path::Forward, on);
        let actual = run(&module, &inputs, &lens, Path::Steps, on);
        assert_outcomes_close("steps", &actual, &expected, roundings(16.0, on));

        let [q, k, v] = tensors(&inputs, on);
        let swapped = Tensor::<1, Int>::from_ints([1, 0], device);
        let memory = module
            .prepare(k, v, lens.mask(device))
            .select(swapped.clone());
        let actual = module.attend(q.select(0, swapped), &memory, Mask::none());
        let context = &expected["context"];
        let swapped = |at: &[usize]| context.at(&[1 - at[0], at[1], at[2]]);
        let examples = Array::from_fn(&context.shape, swapped);
        assert_close("select", actual, &examples, roundings(16.0, on));
    }));
}

#[test]
fn packed_projections_give_the_same_bits() {
    device::each(device::in_each_type(|on| {
        let inputs = inputs([4, 5, 6], 8);
        for has_output in [true, false] {
            let config = config().with_output(has_output);
            let config = config.with_output_size(has_output.then_some(8));
            let mut module = parameters::cast(config.init(on.0), on.1);
            let forward = |module: &MultiHeadAttention<DotProductScore>| {
                let [q, k, v] = tensors(&inputs, on);
                Array::read(module.forward(q, k, v, Mask::causal()))
            };
            let expected = forward(&module);
            module.pack();
            for call in 0..2 {
                assert_same(format!("call {call}"), &forward(&module), &expected);
            }
            // The weights are those from when they were packed.
            module.query.weight = module.query.weight.clone().map(|weight| weight * 2.0);
            assert_same("other weights", &forward(&module), &expected);
            module.pack();
            assert_ne!(forward(&module), expected);
        }
    }));
}

#[test]
fn every_parameter_is_trained() {
    device::each_training(device::in_each_type(|on| {
        let module = additive(on);
        let inputs = inputs([4, 5, 6], 8);
        let outcome = run(&module, &inputs, &MaskSpec::None, Path::Forward, on);
        assert_eq!(outcome.len(), 1 + 3 + 8);
        for (name, gradient) in &outcome {
            assert!(gradient.magnitude() > 1e-6, "{name} is not trained");
        }
        let [q, k, v] = tensors(&inputs, on);
        let gradients = module.forward(q, k, v, Mask::none()).sum().backward();
        let score = &module.attention.score;
        for projection in [&score.query, &score.key, &score.value] {
            let gradient = Array::read(projection.weight.val().grad(&gradients).unwrap());
            assert!(gradient.magnitude() > 1e-6, "the score is not trained");
        }
    }));
}

/// `inputs` with `number` in keys and values 3.. of the first example and 6 of the second.
fn padded(inputs: &Inputs, lens: [usize; 2], number: f64) -> Inputs {
    let mut padded = inputs.clone();
    for name in ["keys", "values"] {
        let filled = inputs[name].masked_fill(number, |at| at[1] >= lens[at[0]]);
        padded.insert(name.into(), filled);
    }
    padded
}

#[test]
fn padding_is_ignored_whatever_it_holds() {
    device::each_training(device::in_each_type(|on @ (device, _)| {
        let grouped = config().with_num_key_value_heads(Some(1));
        let grouped = parameters::cast(grouped.init(device), on.1);
        let inputs = inputs([4, 5, 6], 8);
        let [batch, heads, _, keys] = SHAPE;
        // Masked in every head, though each head has a mask of its own.
        let dense = Array::from_fn(&[batch, heads, 1, keys], |at| {
            f64::from(at[3] < [3, 6][at[0]] && at[3] != at[1])
        });
        for mask in [MaskSpec::lens(&[3, 6]), MaskSpec::Keep(dense)] {
            for path in [Path::Forward, Path::AttendWithWeights] {
                let zeros = padded(&inputs, [3, 6], 0.0);
                let nans = padded(&inputs, [3, 6], f64::NAN);
                let expected = run(&grouped, &zeros, &mask, path, on);
                let actual = run(&grouped, &nans, &mask, path, on);
                assert_outcomes_same("dot", &actual, &expected);
                let module = additive(on);
                let expected = run(&module, &zeros, &mask, path, on);
                let actual = run(&module, &nans, &mask, path, on);
                assert_outcomes_same("additive", &actual, &expected);
            }
        }
    }));
}

#[test]
fn a_fully_masked_query_gets_the_bias_of_the_output() {
    device::each(device::in_each_type(|on @ (device, _)| {
        let module = dot(on);
        let inputs = inputs([4, 5, 6], 8);
        let [q, k, v] = tensors(&inputs, on);
        let bias = Array::read(module.output.as_ref().unwrap().bias.as_ref().unwrap().val());
        let all = |context: Tensor<3>| {
            let context = Array::read(context);
            let expected = Array::from_fn(&context.shape, |at| bias.at(&at[2..]));
            assert_same("context", &context, &expected);
        };
        let none = MaskSpec::lens(&[0, 0]).mask(device);
        all(module.forward(q.clone(), k.clone(), v.clone(), &none));
        // The same where there are no keys at all.
        let [batch, ..] = SHAPE;
        let empty = |size| Tensor::<3>::empty([batch, 0, size], on);
        all(module.forward(q, empty(5), empty(6), Mask::none()));
        let q = Tensor::<3>::empty([batch, 0, 4], on);
        let output = module.forward_with_weights(q, k, v, Mask::none());
        assert_eq!(output.context.dims(), [batch, 0, 8]);
        assert_eq!(output.weights.dims(), [batch, HEADS, 0, 7]);
    }));
}

#[test]
fn a_record_restores_every_parameter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heads");
    device::each(device::in_each_type(|on| {
        let inputs = inputs([4, 5, 6], 8);
        let context = |module: &MultiHeadAttention<_>| {
            let [q, k, v] = tensors(&inputs, on);
            Array::read(module.forward(q, k, v, Mask::none()))
        };
        let saved = additive(on);
        saved.clone().save_file(&path).unwrap();
        let other = additive(on);
        assert_ne!(context(&other), context(&saved));
        let loaded = other.try_load_file(&path).unwrap();
        assert_same("loaded", &context(&loaded), &context(&saved));
    }));
}

#[test]
fn bad_input_is_named() {
    let device = &device::plain()[0];
    let config = || MultiHeadAttentionConfig::new(HIDDENS, HEADS);
    let init = |config: MultiHeadAttentionConfig| panic_message(|| config.init(device));
    #[rustfmt::skip]
    let cases = [
        (init(MultiHeadAttentionConfig::new(12, 5)), ["num_hiddens 12", "got 5"]),
        (init(MultiHeadAttentionConfig::new(12, 0)), ["num_heads", "got 0"]),
        (init(MultiHeadAttentionConfig::new(0, 3)), ["num_hiddens", "got 0"]),
        (init(config().with_num_key_value_heads(Some(2))), ["num_heads 3", "got 2"]),
        (init(config().with_value_size(Some(0))), ["value_size", "got 0"]),
        (init(config().with_value_head_size(Some(0))), ["value_head_size", "got 0"]),
        (init(config().with_output(false).with_output_size(Some(3))), ["output_size", "Some(3)"]),
        (init(config().with_dropout(1.5)), ["robability", "1.5"]),
    ];
    for (message, parts) in cases {
        assert_says(message, parts);
    }
    let module = config().init(device);
    let rows = |keys, size| Tensor::<3>::ones([2, keys, size], device);
    refuses("expected 12, got 11", || {
        module.forward(rows(5, 11), rows(7, 12), rows(7, 12), Mask::none())
    });
    refuses("[batch, heads, keys] = [2, 1, 7], got [2, 1, 6]", || {
        module.forward(rows(5, 12), rows(7, 12), rows(6, 12), Mask::none())
    });
    let keep = Mask::keep(Tensor::<4>::ones([2, 2, 5, 7], device).bool());
    let [q, k, v] = [5, 7, 7].map(|len| rows(len, 12));
    refuses("heads", || module.forward(q, k, v, keep));
}
