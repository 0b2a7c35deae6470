//! Properties of any attention, whatever its scoring function: a test calls [`check`] with its own.
//!
//! Attention is given with f32 parameters on a training device. Sizes should be small.

use attention_core::{Attention, Mask, ScoringFunction};
use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor};

use crate::nan::Nan;
use crate::{
    Array, MaskSpec, Outcome, Path, Problem, Sizes, assert_close, assert_outcomes_same,
    assert_same, assert_zero, device::computes, device::epsilon, masks, oracle, parameters,
};

/// Rounding of a context or gradient in f32.
const CLOSE: f64 = 2e-5;

/// Rounding of a context or gradient in half precision, in halves of a unit in the last place of the largest element:
/// of the projected queries and keys, and of what is composed. `half_precision.rs` holds the library's scores to less.
const HALF_ULPS: f64 = 64.0;

/// All of this module but [`records_restore`], which needs two attentions.
pub fn check<S: ScoringFunction>(name: &str, of: &Attention<S>, sizes: Sizes, device: &Device) {
    let holds = device.is_autodiff();
    assert!(holds, "{name}: a device that trains expected");
    let contract = Contract(name, of, sizes, device);
    contract.paths_agree();
    contract.padding_is_ignored();
    contract.a_key_reaches_only_the_queries_that_attend_to_it();
    contract.a_query_reaches_only_the_keys_that_it_attends_to();
    contract.steps_are_one_call();
    contract.selecting_is_selecting_inputs();
    contract.half_precision_is_close_to_f32();
    if computes(device, DType::F64) {
        contract.f32_is_close_to_f64();
        contract.gradients_are_differences();
    }
}

/// An attention that keeps the contract: its name, the sizes of the calls, and a training device.
pub struct Contract<'a, S: ScoringFunction>(
    pub &'a str,
    pub &'a Attention<S>,
    pub Sizes,
    pub &'a Device,
);

impl<S: ScoringFunction> Contract<'_, S> {
    /// `forward`, `forward_with_weights`, and `prepare` with `attend` or `attend_with_weights` agree in context and all
    /// gradients; masked weights and the results of fully masked queries are 0; the context is the weighted sum.
    pub fn paths_agree(&self) {
        let Self(name, attention, sizes, device) = *self;
        let mut attends_to_something = false;
        for (mask_name, mask) in some_masks(sizes) {
            let what = format!("{name}: {mask_name}");
            let problem = problem(sizes, &mask);
            let run = |path| problem.run_with(attention, device, DType::F32, path);
            let expected = run(Path::ForwardWithWeights);
            for path in [Path::Forward, Path::Attend, Path::AttendWithWeights] {
                assert_all_close(&format!("{what}: {path:?}"), &run(path), &expected, CLOSE);
            }

            let weights = expected["weights"].with_heads();
            let attended = mask.table(shape(sizes));
            let masked = weights.masked_fill(0.0, |at| attended.at(at) != 0.0);
            assert_zero(format!("{what}: masked weights"), &masked);
            let context = expected["context"].with_heads();
            let sum = oracle::weighted_sum(&weights, &problem.inputs["values"].with_heads());
            assert_close(format!("{what}: weighted sum"), &context, &sum, CLOSE);
            let attends = |at: &[usize]| {
                (0..sizes.keys).any(|key| attended.at(&[at[0], at[1], at[2], key]) != 0.0)
            };
            for array in [&context, &weights] {
                let rows = array.masked_fill(0.0, attends);
                assert_zero(format!("{what}: a fully masked query"), &rows);
            }
            attends_to_something |= context.magnitude() > 0.0;
        }
        assert!(attends_to_something, "{name}: every context is 0");
    }

    /// Padding (keys that no query attends to) and its values change no bit of an output or gradient, where it is known
    /// when keys are projected.
    pub fn padding_is_ignored(&self) {
        let Self(name, attention, sizes, device) = *self;
        let mut has_padding = false;
        for (mask_name, mask) in some_masks(sizes) {
            let padding = mask.padding(shape(sizes));
            if padding.magnitude() == 0.0 {
                continue;
            }
            has_padding = true;
            let problem = problem(sizes, &mask).with_grad_weights(6);
            let paths = if mask.counts_positions() {
                &Path::DIRECT[..]
            } else {
                &Path::ALL
            };
            for &path in paths {
                let run = |problem: &Problem| problem.run_with(attention, device, DType::F32, path);
                let clean = run(&problem);
                let dirty = problem.with_rows("keys", &padding, f64::NAN);
                let dirty = run(&dirty.with_rows("values", &padding, f64::NAN));
                let what = format!("{name}: {mask_name}: {path:?}: NaN in padding");
                assert_outcomes_same(&what, &dirty, &clean);
            }
        }
        assert!(has_padding, "{name}: no mask has padding");
    }

    /// A NaN in a key and its value changes no bit of the context and gradients of queries that do not attend to the
    /// key.
    pub fn a_key_reaches_only_the_queries_that_attend_to_it(&self) {
        let Self(name, attention, sizes, device) = *self;
        let nan = Nan {
            inputs: &["keys", "values"],
            // The last key: under a causal mask, one query attends to it.
            row: sizes.keys - 1,
            rows: sizes.keys,
            outputs: &["context", "grad queries"],
            pair: |key, query| [query, key],
        };
        nan.stays_where_it_is_attended_to(name, attention, sizes, device);
    }

    /// A NaN in a query changes no bit of the gradients of keys and values to which it does not attend.
    pub fn a_query_reaches_only_the_keys_that_it_attends_to(&self) {
        let Self(name, attention, sizes, device) = *self;
        let nan = Nan {
            inputs: &["queries"],
            // The first query: under a causal mask, it attends to the fewest keys.
            row: 0,
            rows: sizes.queries,
            outputs: &["grad keys", "grad values"],
            pair: |query, key| [query, key],
        };
        nan.stays_where_it_is_attended_to(name, attention, sizes, device);
    }

    /// One query after the other through one memory is one call, in the gradients of parameters too.
    pub fn steps_are_one_call(&self) {
        let Self(name, attention, sizes, device) = *self;
        let chosen = ["none", "lens: an empty and a full example"];
        for (mask_name, mask) in some_masks(sizes) {
            // The others differ from query to query.
            if chosen.contains(&mask_name) {
                let problem = problem(sizes, &mask);
                let run = |path| problem.run_with(attention, device, DType::F32, path);
                let what = format!("{name}: {mask_name}: steps");
                assert_all_close(&what, &run(Path::Steps), &run(Path::Forward), CLOSE);
            }
        }
    }

    /// Selecting examples of a memory is selecting examples of the inputs, repeated ones too.
    pub fn selecting_is_selecting_inputs(&self) {
        let Self(name, attention, sizes, device) = *self;
        let sizes = sizes.with_heads(sizes.heads.max(1));
        let len = |at: usize| (sizes.keys - at % sizes.keys) as i64;
        let lens = MaskSpec::lens(&(0..sizes.batch).map(len).collect::<Vec<_>>());
        let problem = problem(sizes, &lens);
        let mask = problem.mask.mask(device);
        let [queries, keys, values] = problem.f32::<4>(device);
        let memory = attention.prepare(keys, values, mask);
        let expected = Array::read(attention.attend(queries.clone(), &memory, Mask::none()));
        let chosen = [sizes.batch - 1, 0, 0];
        let indices: Vec<i64> = chosen.iter().map(|&at| at as i64).collect();
        let indices = Tensor::<1, Int>::from_data(&indices[..], device);
        let selected = memory.select(indices.clone());
        let mut shape = expected.shape.clone();
        shape[0] = chosen.len();
        let expected = Array::from_fn(&shape, |at| {
            expected.at(&[&[chosen[at[0]]], &at[1..]].concat())
        });
        let actual = attention.attend(queries.select(0, indices), &selected, Mask::none());
        assert_close(format!("{name}: selected"), actual, &expected, CLOSE);
    }

    /// Context, weights and gradients in f32 are those in f64, to rounding.
    pub fn f32_is_close_to_f64(&self) {
        let Self(name, attention, sizes, device) = *self;
        let precise = in_f64(attention);
        for (mask_name, mask) in some_masks(sizes) {
            let problem = problem(sizes, &mask);
            for path in Path::DIRECT {
                let actual = problem.run_with(attention, device, DType::F32, path);
                let expected = problem.run_with(&precise, device, DType::F64, path);
                let what = format!("{name}: {mask_name}: {path:?}: f32");
                for (result, expected) in &expected {
                    assert_result_close(&what, result, &actual, expected, CLOSE);
                }
            }
        }
    }

    /// Context and gradients in half precision are those in f32, to its rounding. Elements of a [`Problem`] are exact
    /// in both.
    pub fn half_precision_is_close_to_f32(&self) {
        let Self(name, attention, sizes, device) = *self;
        for dtype in [DType::F16, DType::BF16] {
            if !computes(device, dtype) {
                continue;
            }
            let half = parameters::cast(attention.clone(), dtype);
            let wide = parameters::cast(half.clone(), DType::F32);
            for (mask_name, mask) in some_masks(sizes) {
                let problem = problem(sizes, &mask);
                for path in Path::DIRECT {
                    let actual = problem.run_with(&half, device, dtype, path);
                    let expected = problem.run_with(&wide, device, DType::F32, path);
                    let what = format!("{name}: {mask_name}: {path:?}: {dtype:?}");
                    assert_all_close(&what, &actual, &expected, HALF_ULPS * epsilon(dtype) / 2.0);
                }
            }
        }
    }

    /// In f64, the gradient of each input and parameter, along a drawn direction, is the difference of the loss.
    pub fn gradients_are_differences(&self) {
        let Self(name, attention, sizes, device) = *self;
        const STEP: f64 = 1e-5;
        let precise = in_f64(attention);
        // Losses need no backward pass.
        let (inferring, inferring_device) = (precise.valid(), device.clone().inner());
        let parameters = parameters::values(&precise);
        for (mask_name, mask) in some_masks(sizes) {
            let problem = problem(sizes, &mask).with_grad_weights(6);
            for path in Path::DIRECT {
                let loss = |problem: &Problem, attention: &Attention<S>| {
                    problem.loss(&problem.run_with(attention, &inferring_device, DType::F64, path))
                };
                let gradients = problem.run_with(&precise, device, DType::F64, path);
                let compare = |of: &str, direction: &Array, loss: &dyn Fn(f64) -> f64| {
                    let difference = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
                    let derivative = gradients[&format!("grad {of}")].dot(direction);
                    let [actual, expected] = [derivative, difference].map(|x| Array::full(&[1], x));
                    let what = format!("{name}: {mask_name}: {path:?}: derivative in {of}");
                    assert_close(&what, &actual, &expected, 1e-6);
                };
                for (at, (input, value)) in problem.inputs.iter().enumerate() {
                    let direction = Array::draw(20 + at as u64, &value.shape);
                    compare(input, &direction, &|step| {
                        let mut moved = problem.clone();
                        moved.set(input, along(value, &direction, step));
                        loss(&moved, &inferring)
                    });
                }
                for (at, (parameter, value)) in parameters.iter().enumerate() {
                    let direction = Array::draw(30 + at as u64, &value.shape);
                    compare(parameter, &direction, &|step| {
                        let moved = |path: &str, value: Array| match path == parameter {
                            true => along(&value, &direction, step),
                            false => value,
                        };
                        let moved = parameters::changed(inferring.clone(), moved);
                        loss(&problem, &moved)
                    });
                }
            }
        }
    }
}

/// Some of [`masks`]: each kind of mask, and one with a fully masked example.
pub(crate) fn some_masks(sizes: Sizes) -> Vec<(&'static str, MaskSpec)> {
    let chosen = [
        "none",
        "lens: an empty and a full example",
        "lens per query",
        "causal",
        "queries and causal, top-left",
        "lens and dense",
        "function: intervals",
        "segments",
    ];
    let mut masks = masks(shape(sizes));
    masks.retain(|(name, _)| chosen.contains(name));
    assert_eq!(masks.len(), chosen.len());
    masks
}

pub(crate) fn shape(sizes: Sizes) -> [usize; 4] {
    [sizes.batch, sizes.heads.max(1), sizes.queries, sizes.keys]
}

pub(crate) fn problem(sizes: Sizes, mask: &MaskSpec) -> Problem {
    Problem::drawn(sizes, sizes.key_size, mask.clone())
}

/// [`assert_close`] for each result of `actual` but the weights, which not all paths return.
fn assert_all_close(what: &str, actual: &Outcome, expected: &Outcome, tolerance: f64) {
    for (name, expected) in expected.iter().filter(|(name, _)| *name != "weights") {
        assert_result_close(what, name, actual, expected, tolerance);
    }
}

/// [`assert_close`] for one result. Softmax ignores a biaffine score's offset, whose gradient is then the rounding of a
/// sum over all pairs of a query and a key: the bound begins at `tolerance`, not at a tenth of it.
fn assert_result_close(what: &str, name: &str, actual: &Outcome, expected: &Array, tolerance: f64) {
    let magnitude = expected.magnitude();
    let pairs = match name.contains(".offset.") {
        true => (1.0 + magnitude) / (0.1 + magnitude),
        false => 1.0,
    };
    let what = format!("{what}: {name}");
    assert_close(what, &actual[name], expected, pairs * tolerance);
}

/// The same attention with parameters of type f64.
pub fn in_f64<S: ScoringFunction>(attention: &Attention<S>) -> Attention<S> {
    parameters::cast(attention.clone(), DType::F64)
}

/// `from + step * direction`.
fn along(from: &Array, direction: &Array, step: f64) -> Array {
    Array::from_fn(&from.shape, |at| from.at(at) + step * direction.at(at))
}

/// The record of `saved` makes the same attention of `other`, whose parameters are others.
pub fn records_restore<S: ScoringFunction>(
    name: &str,
    saved: &Attention<S>,
    other: Attention<S>,
    sizes: Sizes,
    device: &Device,
) {
    let problem = problem(sizes, &MaskSpec::None);
    let run = |attention: &Attention<S>| {
        let outcome = problem.run_with(attention, device, DType::F32, Path::Forward);
        outcome["context"].clone()
    };
    let expected = run(saved);
    let found = run(&other);
    assert_ne!(found, expected, "{name}: the other is the same already");
    let loaded = other.load_record(saved.clone().into_record());
    assert_same(format!("{name}: loaded"), &run(&loaded), &expected);
    let names = |attention: &Attention<S>| {
        let names = parameters::values(attention).into_keys();
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&loaded), names(saved), "{name}: parameters");
}
