//! Training steps without each kernel, and without deferred gradients, give what they give with them.
//!
//! In a process of its own: the switches are the process's.

#![cfg(feature = "flex")]

mod model;

use std::sync::Mutex;

use attention_core::backend::OPERATIONS;
use attention_core::functional::rotate;
use attention_core::position::RotaryLayout;
use attention_core::stateful::{
    CoverageAttentionConfig, LocationAttentionConfig, LocationFeatures, StatefulAttention,
};
use attention_core::{DotProductAttentionConfig, Mask};
use attention_tests::{
    Array, Outcome, assert_all_close, assert_all_same, assert_close, assert_outcomes_close, device,
    parameters,
};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::paths::{Operation, set_defers, set_kernel};
use burn_fused_layers::{Activation, activate, activate_gated, layer_norm, rms_norm};

use model::{SIZE, gradients, model};

/// A test that switches kernels has them to itself.
static SWITCHES: Mutex<()> = Mutex::new(());

#[test]
fn gradients_are_the_same_without_what_is_switched_off() {
    let _switches = SWITCHES.lock();
    let device = Device::flex().autodiff();
    device.seed(5);
    let model = model(&device);
    let inputs = Tensor::random([2, 4, SIZE], burn::tensor::Distribution::Default, &device);
    let expected = gradients(&model, &inputs);
    let check = |what: &str| {
        let got = gradients(&model, &inputs);
        assert_eq!(got.len(), expected.len());
        for (name, expected) in &expected {
            let what = format!("{name} without {what}");
            assert_close(what, &got[name], expected, 1e-5);
        }
    };
    set_defers(false);
    check("deferral");
    set_defers(true);
    for operation in OPERATIONS.all() {
        set_kernel(operation, false);
        check(&format!("{operation:?}"));
        set_kernel(operation, true);
    }
    for operation in OPERATIONS.all() {
        set_kernel(operation, false);
    }
    check("any kernel");
    for operation in OPERATIONS.all() {
        set_kernel(operation, true);
    }
}

/// The turned rows, and the gradient of them in a loss.
fn rotated(layout: RotaryLayout, shape_of_angles: [usize; 3], dtype: DType) -> Vec<Array> {
    let device = Device::flex().autodiff();
    let wide = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let angles = Array::draw(1, &shape_of_angles);
    let [cosines, sines] = [f64::cos, f64::sin].map(|of| angles.map(of).tensor(&device, wide));
    let rows = Array::draw(2, &[2, 3, 5, 14]).leaf::<4>(&device, dtype);
    let turned = rotate(rows.clone(), cosines, sines, layout);
    parameters::results(turned, [rows], 3)
}

#[test]
fn rotations_are_their_definition_bit_for_bit() {
    let _switches = SWITCHES.lock();
    for layout in [RotaryLayout::Interleaved, RotaryLayout::HalfSplit] {
        for (examples, pairs) in [(1, 7), (2, 7), (1, 3), (2, 5)] {
            for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
                let run = || rotated(layout, [examples, 5, pairs], dtype);
                let by_kernel = run();
                set_kernel(OPERATIONS.named("rotate"), false);
                let by_definition = run();
                set_kernel(OPERATIONS.named("rotate"), true);
                let what = format!("{layout:?} {examples} {pairs} {dtype:?}");
                assert_all_same(what, &by_kernel, &by_definition);
            }
        }
    }
}

/// The contexts of some steps, and the gradients of parameters, keys and values in a loss.
fn steps<A: StatefulAttention>(attention: &A, device: &Device) -> Outcome {
    let draw = |seed, shape: [usize; 3]| Array::draw(seed, &shape).tensor::<3>(device, DType::F32);
    let (keys, values) = (
        draw(1, [2, 7, 5]).require_grad(),
        draw(2, [2, 7, 3]).require_grad(),
    );
    let mask = Mask::valid_lens(Tensor::from_ints([7, 4], device));
    let memory = attention.prepare(keys.clone() * 0.5, values.clone() * 0.5, mask);
    let mut state = attention.initial_state(&memory);
    let mut contexts = Vec::new();
    for seed in 3..6 {
        let (context, next) = attention.step(draw(seed, [2, 1, 6]), &memory, state);
        contexts.push(context);
        state = next;
    }
    let contexts = Tensor::cat(contexts, 1);
    let loss = (contexts.clone() * draw(9, [2, 3, 3])).sum();
    let gradients = loss.backward();
    let mut outcome = parameters::gradients(attention, Some(&gradients));
    for (name, leaf) in [("keys", &keys), ("values", &values)] {
        outcome.insert(name.into(), parameters::gradient(leaf, Some(&gradients)));
    }
    outcome.insert("context".into(), Array::read(contexts));
    outcome
}

#[test]
fn steps_with_a_location_are_their_definition() {
    let _switches = SWITCHES.lock();
    let device = Device::flex().autodiff();
    device.seed(7);
    let [previous, both] = [LocationFeatures::Previous, LocationFeatures::Both].map(|features| {
        let config = LocationAttentionConfig::new(6, 5, 9).with_features(features);
        config.with_filters(4).with_kernel_size(5).init(&device)
    });
    let coverage = CoverageAttentionConfig::new(6, 5, 9).init(&device);
    let run = || {
        let [previous, both] = [&previous, &both].map(|location| steps(location, &device));
        [previous, both, steps(&coverage, &device)]
    };
    let by_kernel = run();
    set_defers(false);
    let undeferred = run();
    set_defers(true);
    set_kernel(OPERATIONS.named("location_score"), false);
    let by_definition = run();
    set_kernel(OPERATIONS.named("location_score"), true);
    for (n, kernel) in by_kernel.iter().enumerate() {
        assert_outcomes_close("without deferral", &undeferred[n], kernel, 1e-5);
        assert_outcomes_close("without the kernel", &by_definition[n], kernel, 1e-5);
    }
}

/// The results of a call, and the gradients of its inputs in a loss.
fn results<const N: usize>(dtype: DType, call: impl Fn([Tensor<2>; N]) -> Tensor<2>) -> Vec<Array> {
    let device = Device::flex().autodiff();
    let drawn = |seed: u64| Array::draw(seed, &[23, 23]).map(|x| 2.0 * x);
    let leaves: [_; N] = std::array::from_fn(|n| drawn(n as u64).leaf(&device, dtype));
    parameters::results(call(leaves.clone()), leaves, 9)
}

const FUNCTIONS: [Activation; 4] = [
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
];

/// Compares the kernel of an operation with its definition.
fn check_definition<const N: usize>(
    operation: Operation,
    what: &str,
    call: impl Fn([Tensor<2>; N]) -> Tensor<2>,
) {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let by_kernel = results(dtype, &call);
        set_kernel(operation, false);
        let by_definition = results(dtype, &call);
        set_kernel(operation, true);
        let tolerance = 20.0 * device::epsilon(dtype);
        let what = format!("{what} {dtype:?}");
        assert_all_close(what, &by_kernel, &by_definition, tolerance);
    }
}

#[test]
fn activations_and_normalizations_are_their_definitions() {
    let _switches = SWITCHES.lock();
    for function in FUNCTIONS {
        let what = format!("{function:?}");
        let operation = OPERATIONS.named("activate");
        check_definition(operation, &what, |[x]| activate(x, function));
        check_definition(operation, &what, |[gate, x]| {
            activate_gated(gate, x, function)
        });
    }
    let operation = OPERATIONS.named("normalize");
    let row = |rows: Tensor<2>| rows.slice([3..4, 0..23]).reshape([23]);
    check_definition(operation, "layer norm", |[x, gain, bias]| {
        layer_norm(x, row(gain), Some(row(bias)), 1e-5)
    });
    check_definition(operation, "layer norm", |[x, gain]| {
        layer_norm(x, row(gain), None, 1e-5)
    });
    check_definition(operation, "RMS norm", |[x, gain]| {
        rms_norm(x, row(gain), 1e-5)
    });
}

/// Far elements have the same limits in the definition.
#[test]
fn extremes_of_activations_by_their_definition() {
    let _switches = SWITCHES.lock();
    set_kernel(OPERATIONS.named("activate"), false);
    let infinity = f64::INFINITY;
    for function in FUNCTIONS {
        let device = Device::flex().autodiff();
        let input = [1e4, -1e4, infinity, -infinity, f64::NAN];
        let leaf = Tensor::<1>::from_floats(input, &device).require_grad();
        let output = activate(leaf.clone(), function);
        let gradient = leaf.grad(&output.clone().sum().backward()).expect("a leaf");
        let [output, gradient] = [output, gradient].map(|of| Array::read(of).data);
        // e^-80 is not quite 0.
        let is_small = |x: f64| x.abs() < 1e-25;
        assert!(output[0] == 1e4 && output[2] == infinity, "{function:?}");
        assert!(is_small(output[1]) && is_small(output[3]), "{function:?}");
        assert!(is_small(gradient[0] - 1.0) && is_small(gradient[2] - 1.0));
        let holds = is_small(gradient[1]) && is_small(gradient[3]);
        assert!(holds, "{function:?}");
        assert!(output[4].is_nan() && gradient[4].is_nan(), "{function:?}");
    }
    set_kernel(OPERATIONS.named("activate"), true);
}

/// The lines of the log.
struct Lines(Mutex<Vec<String>>);

impl log::Log for Lines {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.target() == "burn_fused_layers::paths"
    }

    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            let mut lines = self.0.lock().expect("no test panics with it");
            lines.push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// A call that stores all pairs says so, and why.
#[test]
fn the_log_says_that_a_call_is_composed() {
    static LINES: Lines = Lines(Mutex::new(Vec::new()));
    let _switches = SWITCHES.lock();
    log::set_logger(&LINES).expect("there is no other");
    log::set_max_level(log::LevelFilter::Debug);
    let rows = |rows| Tensor::<3>::ones([3, rows, 5], &Device::flex());
    let attention = DotProductAttentionConfig::new().init();
    attention.forward(rows(70), rows(9), rows(9), Mask::none());
    attention.forward_with_weights(rows(70), rows(9), rows(9), Mask::none());
    log::set_max_level(log::LevelFilter::Off);
    let lines = LINES.0.lock().expect("no test panics with it");
    let says = |line: &str| lines.iter().any(|said| said == line);
    let fused = "dot_product_attention of [3, 70, 5] F32 on Cpu: by its kernel";
    assert!(says(fused), "{lines:?}");
    let composed =
        "attention of [3, 70, 5] F32 on Flex(Cpu): by its definition, as weights are asked for";
    assert!(says(composed), "{lines:?}");
}
