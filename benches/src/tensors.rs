//! Devices, data, and calls that end when the last number is there.

use burn::tensor::{Device, Distribution, Tensor};

/// The devices of the backends compiled in.
pub fn devices() -> Vec<(&'static str, Device)> {
    vec![
        #[cfg(feature = "flex")]
        ("flex", Device::flex()),
        #[cfg(feature = "ndarray")]
        ("ndarray", Device::ndarray()),
        #[cfg(feature = "wgpu")]
        (
            "wgpu",
            Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        ),
    ]
}

/// Whether the backend called `name` keeps its tensors in the memory of this process.
pub fn on_host(name: &str) -> bool {
    name != "wgpu"
}

/// Normally distributed numbers.
pub fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Normally distributed numbers; a leaf that asks for its gradient where the device trains.
pub fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let tensor = numbers(shape, device);
    if device.is_autodiff() {
        tensor.require_grad()
    } else {
        tensor
    }
}

/// Waits until `tensor` is computed, and reads it.
pub fn finish<const D: usize>(tensor: Tensor<D>) {
    std::hint::black_box(tensor.into_data());
}

/// Waits for the gradients of `sum(output * output_gradient)` with respect to every leaf, and reads them.
///
/// # Panics
/// If a leaf has no part in the output.
pub fn finish_backward<const D: usize>(
    output: Tensor<D>,
    output_gradient: Tensor<D>,
    inputs: &[Tensor<D>],
    parameters: &[Tensor<2>],
) {
    let mut gradients = (output * output_gradient).sum().backward();
    let missing = "every leaf has a part in the output";
    for input in inputs {
        finish(input.grad_remove(&mut gradients).expect(missing));
    }
    for parameter in parameters {
        finish(parameter.grad_remove(&mut gradients).expect(missing));
    }
}

/// Work that is done once in each call.
pub type Call = Box<dyn FnMut()>;

/// The context that `attend` makes of queries, keys and values; on a device that trains, the gradients of all inputs
/// and parameters instead.
pub fn call<const D: usize>(
    inputs: [Tensor<D>; 3],
    parameters: &[Tensor<2>],
    attend: impl Fn([Tensor<D>; 3]) -> Tensor<D> + 'static,
) -> Call {
    let device = inputs[0].device();
    if !device.is_autodiff() {
        return Box::new(move || finish(attend(inputs.clone())));
    }
    let parameters = parameters.to_vec();
    // A query's rows, a value's size.
    let mut context = inputs[0].dims();
    context[D - 1] = inputs[2].dims()[D - 1];
    let output_gradient = numbers(context, &device);
    Box::new(move || {
        let output = attend(inputs.clone());
        finish_backward(output, output_gradient.clone(), &inputs, &parameters);
    })
}
