//! Activations against Burn's own operations in f64.

use attention_tests::{
    Array, assert_all_close, assert_close, assert_same, device, panic_message, parameters, refuses,
};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::{
    Activation, activate, activate_gated, activate_gated_linear, activate_linear,
    is_in_host_memory, linear,
};

const ALL: [Activation; 4] = [
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
];

/// The formula. Without divisions, whose gradient Burn 0.22.1 rounds to f32.
fn formula<const D: usize>(x: Tensor<D>, function: Activation) -> Tensor<D> {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    match function {
        Activation::Relu => burn::tensor::activation::relu(x),
        Activation::Gelu => x.clone() * 0.5 * ((x * FRAC_1_SQRT_2).erf() + 1.0),
        Activation::GeluTanh => {
            let cube = x.clone() * x.clone() * x.clone();
            let inner = (x.clone() + cube * 0.044715) * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
            x * 0.5 * (inner.tanh() + 1.0)
        }
        Activation::Silu => x.clone() * ((-x).exp() + 1.0).recip(),
    }
}

/// The result, and the gradients of input and factor in a loss.
fn run(
    device: &Device,
    dtype: DType,
    is_gated: bool,
    apply: impl Fn(Tensor<3>, Option<Tensor<3>>) -> Tensor<3>,
) -> Vec<Array> {
    let shape = [3, 7, 41];
    let leaves = [1, 2].map(|seed| {
        let drawn = Array::draw(seed, &shape).map(|x| 2.0 * x);
        drawn.leaf::<3>(device, dtype)
    });
    let leaves = &leaves[..1 + usize::from(is_gated)];
    let output = apply(leaves[0].clone(), leaves.get(1).cloned());
    parameters::results(output, leaves.to_vec(), 3)
}

#[test]
fn activations_are_the_formulas_with_their_gradients() {
    let exact = Device::flex().autodiff();
    device::each_training(device::in_all_types(|(device, dtype)| {
        for function in ALL {
            for is_gated in [false, true] {
                let got = run(device, dtype, is_gated, |input, factor| match factor {
                    Some(factor) => activate_gated(input, factor, function),
                    None => activate(input, function),
                });
                let expected = run(&exact, DType::F64, is_gated, |input, factor| match factor {
                    Some(factor) => formula(input, function) * factor,
                    None => formula(input, function),
                });
                assert_eq!(got.len(), 2 + usize::from(is_gated));
                let what = format!("{dtype:?} {function:?}, gated {is_gated}");
                assert_all_close(what, &got, &expected, 8.0 * device::epsilon(dtype));
            }
        }
    }));
}

/// Transposed and sliced tensors, of any number of axes.
#[test]
fn activations_of_views() {
    device::each(|device| {
        let stored = Array::draw(1, &[6, 5]);
        let tensor = stored.tensor::<2>(device, DType::F32);
        let view = tensor.clone().transpose().slice([1..5, 2..6]);
        let whole = Array::read(activate(tensor, Activation::Silu));
        let expected = Array::from_fn(&[4, 4], |at| whole.at(&[at[1] + 2, at[0] + 1]));
        assert_same("a view", activate(view, Activation::Silu), &expected);

        let vector = Array::draw(2, &[9]).tensor::<1>(device, DType::F32);
        let gated = activate_gated(vector.clone(), vector.clone(), Activation::Relu);
        let expected = Array::read(burn::tensor::activation::relu(vector.clone()) * vector);
        assert_close("a vector", gated, &expected, 1e-6);
    });
}

/// One tensor as gate and input gets both gradients.
#[test]
fn a_tensor_gates_itself() {
    device::each_training(|device| {
        let leaf = Array::draw(1, &[19]).leaf::<1>(device, DType::F32);
        let ours = activate_gated(leaf.clone(), leaf.clone(), Activation::Gelu);
        let expected = formula(leaf.clone(), Activation::Gelu) * leaf.clone();
        let [ours, expected] = [ours, expected].map(|result| {
            let gradients = result.sum().backward();
            Array::read(leaf.grad(&gradients).unwrap())
        });
        assert_close("gradient", &ours, &expected, 1e-6);
    });
}

#[test]
fn extremes_have_their_limits_and_a_nan_stays_where_it_is() {
    device::each_training(|device| {
        let infinity = f64::INFINITY;
        let input = [0.0, -0.0, 1e4, -1e4, infinity, -infinity, f64::NAN, 1.0];
        if !is_in_host_memory(device) {
            // NaN and infinity in a shader are up to the driver.
            return;
        }
        let is_composed = std::env::var("ATTENTION_KERNELS").is_ok_and(|value| value == "off");
        for function in ALL {
            let leaf = Tensor::<1>::from_floats(input, device).require_grad();
            let output = activate(leaf.clone(), function);
            let gradients = output.clone().sum().backward();
            let [output, gradient] = [output, leaf.grad(&gradients).unwrap()].map(Array::read);
            let expected = [0.0, 0.0, 1e4, 0.0, infinity, 0.0];
            // Composed, limits of 0 are as good as reached.
            let least = if is_composed { 1e-29 } else { 0.0 };
            let limits = |of: &Array| of.map(|x| if x.abs() < least { 0.0 } else { x }).data;
            assert_eq!(limits(&output)[..6], expected, "{function:?}");
            assert_eq!(
                limits(&gradient)[2..6],
                [1.0, 0.0, 1.0, 0.0],
                "{function:?}"
            );
            assert!(output.data[6].is_nan() && gradient.data[6].is_nan());
            assert!(output.data[7] > 0.5 && gradient.data[7] > 0.5);
        }
    });
}

#[test]
fn no_elements() {
    device::each_training(|device| {
        let empty = || Tensor::<3>::zeros([2, 0, 5], device).require_grad();
        assert_eq!(activate(empty(), Activation::Gelu).dims(), [2, 0, 5]);
        let gated = activate_gated(empty(), empty(), Activation::Silu);
        assert_eq!(gated.dims(), [2, 0, 5]);
    });
}

#[test]
fn gates_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let gate = Tensor::<2>::ones([2, 3], &device);
    let of_type = Tensor::ones([2, 3], (&device, DType::F64));
    let of_shape = Tensor::ones([3, 2], &device);
    for (input, expected) in [
        (of_shape, "expected [2, 3], as the gate, got [3, 2]"),
        (of_type, "expected of type F32, as the gate, got F64"),
    ] {
        let message = panic_message(|| activate_gated(gate.clone(), input, Activation::Silu));
        assert_eq!(message, format!("activate_gated: input {expected}"));
    }
}

/// One operation, and both that it is made of: the same results to the bit, and the gradients that are wanted.
#[test]
fn an_activation_and_a_linear_layer_are_those_two() {
    device::each_training(|device| {
        let types = [DType::F64, DType::F32, DType::F16].into_iter();
        for dtype in types.filter(|&dtype| device::computes(device, dtype)) {
            for (is_gated, has_bias, frozen) in [
                (false, true, None),
                (true, false, None),
                (true, true, Some(0)),
                (true, true, Some(1)),
                (false, true, Some(0)),
                (false, true, Some(2)),
                (true, true, Some(3)),
            ] {
                let run = |is_one: bool| {
                    fn leaf<const D: usize>(
                        at: usize,
                        shape: [usize; D],
                        frozen: Option<usize>,
                        (device, dtype): (&Device, DType),
                    ) -> Tensor<D> {
                        let drawn = Array::draw(at as u64, &shape).tensor(device, dtype);
                        drawn.set_require_grad(frozen != Some(at))
                    }
                    let on = (device, dtype);
                    let [input, gate] = [0, 1].map(|at| leaf(at, [3, 4, 7], frozen, on));
                    let (weight, bias) = (leaf(2, [7, 5], frozen, on), leaf(3, [5], frozen, on));
                    let function = Activation::Gelu;
                    let (of_layer, layer) = (weight.clone(), has_bias.then(|| bias.clone()));
                    let (i, g) = (input.clone(), gate.clone());
                    let output = match (is_one, is_gated) {
                        (true, true) => activate_gated_linear(g, i, function, of_layer, layer),
                        (true, false) => activate_linear(i, function, of_layer, layer),
                        (false, true) => linear(activate_gated(g, i, function), of_layer, layer),
                        (false, false) => linear(activate(i, function), of_layer, layer),
                    };
                    assert_eq!(output.dims(), [3, 4, 5]);
                    let received = Array::draw(9, &[3, 4, 5]).tensor::<3>(device, dtype);
                    let gradients = (output.clone() * received).sum().backward();
                    let mut all = vec![Some(Array::read(output))];
                    all.extend([input, gate].map(|of| of.grad(&gradients).map(Array::read)));
                    all.push(weight.grad(&gradients).map(Array::read));
                    all.push(bias.grad(&gradients).map(Array::read));
                    all
                };
                let (one, two) = (run(true), run(false));
                let what =
                    format!("{dtype:?}, gated {is_gated}, bias {has_bias}, {frozen:?} frozen");
                for (at, (one, two)) in one.into_iter().zip(two).enumerate() {
                    assert_eq!(one.is_some(), two.is_some(), "{what}: {at}");
                    if let (Some(one), Some(two)) = (one, two) {
                        assert_same(format!("{what}: {at}"), &one, &two);
                    }
                }
            }
        }
    });
}

#[test]
fn an_activation_and_a_linear_layer_without_elements_and_with_shapes_that_do_not_fit() {
    device::each(|device| {
        let weight = || Tensor::<2>::ones([3, 2], device);
        let none = Tensor::<3>::zeros([2, 0, 3], device);
        let output = activate_linear(none, Activation::Relu, weight(), None);
        assert_eq!(output.dims(), [2, 0, 2]);
        let input = || Tensor::<2>::ones([4, 5], device);
        let expected = "activate_linear: last axis of the input expected 3, got 5 in [4, 5]";
        let relu = Activation::Relu;
        refuses(expected, || activate_linear(input(), relu, weight(), None));
        let gate = Tensor::<2>::ones([4, 3], device);
        let expected = "activate_gated_linear: input expected [4, 3], as the gate, got [4, 5]";
        refuses(expected, || {
            activate_gated_linear(gate, input(), relu, weight(), None)
        });
    });
}
