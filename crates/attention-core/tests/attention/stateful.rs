//! Alignments: steps that know which keys the steps before attended to.

use attention_core::stateful::{
    AttentionState, CoverageAttentionConfig, LocationAttentionConfig, MonotonicAttentionConfig,
    StatefulAttention,
};
use attention_core::{Mask, Memory};
use attention_tests::{
    Array, MaskSpec, Steps, StepsCheck, assert_close, assert_outcomes_close, assert_outcomes_same,
    assert_same, assert_zero, device, near_reference, refuses,
};
use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor};

const LENS: [i64; 2] = [4, 6];

#[test]
fn steps_and_their_gradients_are_those_of_pytorch() {
    device::each_training(device::in_each_type(|(device, dtype)| {
        let references = Steps::references();
        let names: Vec<&str> = references.iter().map(|(steps, _)| &*steps.name).collect();
        assert_eq!(names, Steps::NAMES);
        for (steps, expected) in references {
            let tolerance = near_reference(dtype, 2e-5);
            let outcome = steps.run(device, dtype);
            assert_eq!(outcome.len(), expected.len(), "{}", steps.name);
            assert_outcomes_close(&steps.name, &outcome, &expected, tolerance);
        }
    }));
}

#[test]
fn padding_is_ignored_in_every_step() {
    device::each_both_ways(|device| {
        for steps in Steps::all(&MaskSpec::lens(&LENS)) {
            let clean = steps.run(device, DType::F32);
            let mut poisoned = steps.clone();
            for name in ["keys", "values"] {
                let array = &steps.inputs[name];
                let poison = array.masked_fill(f64::NAN, |at| at[1] as i64 >= LENS[at[0]]);
                poisoned.inputs.insert(name.into(), poison);
            }
            let outcome = poisoned.run(device, DType::F32);
            assert_outcomes_same(&steps.name, &outcome, &clean);
        }
    });
}

/// The gradient of a masked value is 0 whatever arrives at the context, with one memory for all steps and with examples
/// of it.
#[test]
fn gradients_that_are_no_numbers_reach_no_masked_value() {
    device::each_training(|device| {
        let attention = CoverageAttentionConfig::new(3, 4, 5).init(device);
        let draw = |seed, shape: [usize; 3]| Array::draw(seed, &shape).f32::<3>(device);
        for selects in [false, true] {
            let values = draw(2, [2, 6, 3]).require_grad();
            let mask = MaskSpec::lens(&LENS).mask(device);
            let memory = attention.prepare(draw(1, [2, 6, 4]), values.clone(), mask);
            let memory = match selects {
                true => memory.select(Tensor::from_ints([0, 1], device)),
                false => memory,
            };
            let state = attention.initial_state(&memory);
            let (context, _) = attention.step(draw(3, [2, 1, 3]), &memory, state);
            let gradients = (context * f64::NAN).sum().backward();
            let gradient = Array::read(values.grad(&gradients).unwrap());
            let masked = gradient.masked_fill(0.0, |at| (at[1] as i64) < LENS[at[0]]);
            assert_zero(format!("selected: {selects}"), &masked);
        }
    });
}

#[test]
fn masked_keys_may_lie_between_others() {
    device::each_training(|device| {
        // Keys 0 and 3 are masked in both examples.
        let keep = Array::from_fn(&[1, 1, 6], |at| f64::from(at[2] % 3 != 0));
        for steps in Steps::all(&MaskSpec::Keep(keep)) {
            let outcome = steps.run(device, DType::F32);
            let masked = |array: &Array, axis: usize| array.masked_fill(0.0, |at| at[axis] % 3 > 0);
            assert_zero(&steps.name, &masked(&outcome["weights"], 2));
            assert_zero(&steps.name, &masked(&outcome["grad keys"], 1));
            assert_zero(&steps.name, &masked(&outcome["grad values"], 1));
            assert!(outcome["context"].magnitude() > 0.0, "{}", steps.name);
        }
    });
}

#[test]
fn a_fully_masked_example_gives_zeros() {
    device::each_training(|device| {
        let whole = Steps::all(&MaskSpec::lens(&LENS));
        for (steps, whole) in Steps::all(&MaskSpec::lens(&[0, 6])).iter().zip(whole) {
            let (outcome, whole) = (steps.run(device, DType::F32), whole.run(device, DType::F32));
            let example = |array: &Array, b: usize| {
                Array::from_fn(&array.shape[1..], |at| array.at(&[b, at[0], at[1]]))
            };
            let names = "context,weights,grad queries,grad keys,grad values";
            for name in names.split(',') {
                let what = format!("{}: {name}", steps.name);
                assert_zero(&what, &example(&outcome[name], 0));
                let (one, all) = (example(&outcome[name], 1), example(&whole[name], 1));
                assert_close(&what, &one, &all, 1e-6);
            }
        }
    });
}

/// A beam search's choice after two steps: the third continues the chosen examples.
struct Selecting;

impl StepsCheck for Selecting {
    fn check<A: StatefulAttention>(&self, attention: A, steps: &Steps, device: &Device) {
        let input = |name| steps.input(name, device, DType::F32);
        let query = |step| input("queries").narrow(1, step, 1);
        let memory = attention.prepare(input("keys"), input("values"), steps.mask.mask(device));
        let (_, state) = attention.step(query(0), &memory, attention.initial_state(&memory));
        let (_, state) = attention.step(query(1), &memory, state);

        let indices = Tensor::<1, Int>::from_ints([1, 0, 1], device);
        let chosen = state.select(indices.clone());
        let penalty = attention.penalty(&chosen);
        let (expected, _) = attention.step_with_weights(query(2), &memory, state.clone());
        let memory = memory.select(indices.clone());
        let query = query(2).select(0, indices.clone());
        let (actual, _) = attention.step_with_weights(query, &memory, chosen);
        let what = &steps.name;
        let [context, weights] =
            [expected.context, expected.weights].map(|of| of.select(0, indices.clone()));
        assert_close(what, actual.context, context, 1e-6);
        assert_close(what, actual.weights, weights, 1e-6);
        if let Some(penalty) = penalty {
            let expected = attention.penalty(&state).unwrap().select(0, indices);
            assert_same(what, penalty, expected);
        }
    }
}

#[test]
fn a_beam_search_selects_states() {
    device::each_both_ways(|device| {
        for steps in Steps::all(&MaskSpec::lens(&LENS)) {
            steps.with_attention(device, DType::F32, &Selecting);
        }
    });
}

struct Misfits;

impl StepsCheck for Misfits {
    fn check<A: StatefulAttention>(&self, attention: A, steps: &Steps, device: &Device) {
        let input = |name| steps.input(name, device, DType::F32);
        let prepare = |batch: usize, keys: usize| {
            let rows = |name| input(name).narrow(0, 0, batch).narrow(1, 0, keys);
            attention.prepare(rows("keys"), rows("values"), MaskSpec::None.mask(device))
        };
        let memory = prepare(2, 6);
        let query = || input("queries").narrow(1, 0, 1);
        for (batch, keys) in [(1, 6), (2, 5)] {
            let state = attention.initial_state(&prepare(batch, keys));
            let expected = format!("[2, 6], got [{batch}, {keys}]");
            let parts = ["state expected", &expected];
            refuses(parts, || attention.step(query(), &memory, state));
        }
        let start = || attention.initial_state(&memory);
        let (narrow, few) = (query().narrow(2, 0, 2), query().narrow(0, 0, 1));
        for query in [input("queries"), narrow, few] {
            // By the name of one or of many.
            refuses("quer", || attention.step(query, &memory, start()));
        }
        let [keys, values] = [1, 4].map(|size| Tensor::zeros([2, 1, 6, size], device));
        let other = Memory::of_projected(keys, values, Mask::none());
        refuses("memory expected", || {
            attention.step(query(), &other, start())
        });
        let (keys, none) = (input("keys").narrow(2, 0, 2), Mask::none());
        refuses("keys", || attention.prepare(keys, input("values"), none));
    }
}

#[test]
fn what_does_not_fit_is_named() {
    device::each(|device| {
        for steps in Steps::all(&MaskSpec::None) {
            steps.with_attention(device, DType::F32, &Misfits);
        }
    });
}

struct Empty;

impl StepsCheck for Empty {
    fn check<A: StatefulAttention>(&self, attention: A, steps: &Steps, device: &Device) {
        let input = |name| steps.input(name, device, DType::F32);
        for (batch, keys) in [(2, 0), (0, 6)] {
            let zeros = |rows, size| Tensor::<3>::zeros([batch, rows, size], device);
            let size = |name: &'static str| input(name).dims()[2];
            let (of_keys, of_values) = (zeros(keys, size("keys")), zeros(keys, size("values")));
            let memory = attention.prepare(of_keys, of_values, Mask::none());
            let state = attention.initial_state(&memory);
            let query = zeros(1, size("queries"));
            let (output, state) = attention.step_with_weights(query.clone(), &memory, state);
            assert_eq!(output.weights.dims(), [batch, 1, keys], "{}", steps.name);
            assert_eq!(output.context.dims(), [batch, 1, size("values")]);
            assert_zero(&steps.name, output.context);
            attention.step(query, &memory, state);
        }
    }
}

#[test]
fn nothing_to_attend_to_gives_zeros() {
    device::each(|device| {
        for steps in Steps::all(&MaskSpec::None) {
            steps.with_attention(device, DType::F32, &Empty);
        }
    });
}

#[test]
fn descent_lowers_the_loss() {
    device::each_training(|device| {
        for mut steps in Steps::all(&MaskSpec::lens(&LENS)) {
            let first = steps.run(device, DType::F32);
            let mut outcome = first.clone();
            for _ in 0..4 {
                for (name, parameter) in &mut steps.parameters {
                    let gradient = &outcome[&format!("grad {name}")];
                    for (number, derivative) in parameter.data.iter_mut().zip(&gradient.data) {
                        *number -= 0.01 * derivative;
                    }
                }
                outcome = steps.run(device, DType::F32);
            }
            let (before, after) = (steps.loss(&first), steps.loss(&outcome));
            assert!(after < before - 0.01, "{}: {before}, {after}", steps.name);
        }
    });
}

/// Saves, loads into new parameters and compares a step.
fn check_record<A: StatefulAttention>(new: impl Fn() -> A, device: &Device) {
    let step = |attention: &A| {
        let keys = Array::draw(2, &[2, 6, 5]).f32::<3>(device);
        let query = Array::draw(1, &[2, 1, 3]).f32::<3>(device);
        let memory = attention.prepare(keys.clone(), keys, MaskSpec::lens(&LENS).mask(device));
        let (_, state) = attention.step(query.clone(), &memory, attention.initial_state(&memory));
        Array::read(attention.step(query, &memory, state).0)
    };
    let (saved, other) = (new(), new());
    let expected = step(&saved);
    assert_ne!(step(&other), expected, "new parameters are the saved ones");
    let loaded = other.load_record(saved.into_record());
    assert_same("loaded", &step(&loaded), &expected);
}

#[test]
fn a_record_restores_every_parameter() {
    device::each_training(|device| {
        let location = LocationAttentionConfig::new(3, 5, 8);
        check_record(|| location.init(device), device);
        let coverage = CoverageAttentionConfig::new(3, 5, 8);
        check_record(|| coverage.init(device), device);
        let monotonic = MonotonicAttentionConfig::new().with_noise(0.0);
        check_record(|| monotonic.init_additive(3, 5, 8, device), device);
    });
}

#[test]
fn dropout_keeps_the_weights_whole() {
    let device = &device::plain()[0].clone().autodiff();
    let config = LocationAttentionConfig::new(3, 5, 8).with_dropout(0.5);
    let attention = config.init(device);
    let keys = Array::full(&[8, 32, 5], 1.0).f32::<3>(device);
    let memory = attention.prepare(keys.clone(), keys, MaskSpec::None.mask(device));
    let query = Tensor::<3>::ones([8, 1, 3], device);
    let start = attention.initial_state(&memory);
    let (output, _) = attention.step_with_weights(query.clone(), &memory, start);
    let sums = Array::read(output.weights.sum_dim(2));
    assert_close("weights", &sums, &Array::full(&[8, 1, 1], 1.0), 1e-5);
    // Values of one: without dropout the context would be one.
    let context = Array::read(output.context);
    assert!(context.data.iter().any(|one| (one - 1.0).abs() > 1e-3));

    let frozen = attention.freeze();
    let (context, _) = frozen.step(query, &memory, frozen.initial_state(&memory));
    assert_close("frozen", context, &Array::full(&[8, 1, 5], 1.0), 1e-5);
}

#[test]
fn bad_configurations_are_named() {
    let device = &device::plain()[0];
    let location = || LocationAttentionConfig::new(3, 5, 8);
    let coverage = || CoverageAttentionConfig::new(3, 5, 8);
    let monotonic = |expected: &str, config: MonotonicAttentionConfig, hiddens| {
        refuses(expected, || config.init_additive(3, 5, hiddens, device));
    };
    let config = LocationAttentionConfig::new(0, 5, 8);
    refuses("query_size", || config.init(device));
    let config = CoverageAttentionConfig::new(3, 0, 8);
    refuses("key_size", || config.init(device));
    let new = MonotonicAttentionConfig::new;
    monotonic("num_hiddens", new(), 0);
    refuses("filters", || location().with_filters(0).init(device));
    for size in [4, 0] {
        let expected = format!("kernel_size expected odd, got {size}");
        refuses(&expected, || location().with_kernel_size(size).init(device));
    }
    refuses("[0, 1)", || location().with_dropout(1.0).init(device));
    refuses("[0, 1)", || coverage().with_dropout(-0.1).init(device));
    monotonic("offset", new().with_offset(f64::NAN), 8);
    monotonic("noise", new().with_noise(-1.0), 8);
    monotonic("noise", new().with_noise(f64::INFINITY), 8);
}
