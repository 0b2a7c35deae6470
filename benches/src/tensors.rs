//! Data, and calls that end when the last number is there.

use burn::tensor::{Device, Distribution, Tensor};

use crate::devices::on_host;

/// Normally distributed numbers.
pub fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Normally distributed numbers; a leaf that asks for its gradient where the device trains.
pub fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    leaf(numbers(shape, device))
}

/// `tensor` as a leaf, which asks for its gradient where the device trains.
pub fn leaf<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.device().is_autodiff() {
        tensor.detach().require_grad()
    } else {
        tensor
    }
}

/// Waits until `tensor` is computed, and reads it where it lies in this process's memory. Read from a GPU, it would be
/// the way to the host that is timed.
pub fn finish<const D: usize>(tensor: Tensor<D>) {
    Ending::of(&tensor.device()).end(|| read(tensor));
}

/// Reads one element. All of them would be copied where a tensor is part of a larger one, as an LSTM's output of its
/// states.
fn read<const D: usize>(tensor: Tensor<D>) {
    let first = tensor.dims().map(|_| 0..1);
    std::hint::black_box(tensor.slice(first).into_data());
}

/// How a call ends.
struct Ending {
    device: Device,
    reads: bool,
}

impl Ending {
    fn of(device: &Device) -> Self {
        Self {
            device: device.clone(),
            reads: on_host(device),
        }
    }

    /// The end of many calls. The first reads wherever it runs: only a read of what a kernel should have written shows
    /// that it did not run.
    fn of_calls(device: &Device) -> Self {
        Self {
            reads: true,
            ..Self::of(device)
        }
    }

    /// Waits for all that was queued; `read` has the results, which live as long.
    fn end(&mut self, read: impl FnOnce()) {
        if self.reads {
            read();
            self.reads = on_host(&self.device);
        } else {
            self.device.sync().expect("a device finishes its work");
            drop(read);
        }
    }
}

/// Waits for the gradients of `sum(output * output_gradient)` with respect to every input that requires one and every
/// parameter, as [`finish`] does.
///
/// # Panics
/// If one of them has no part in the output.
pub fn finish_backward<const D: usize>(
    output: Tensor<D>,
    output_gradient: Tensor<D>,
    inputs: &[Tensor<D>],
    parameters: &[Tensor<2>],
) {
    let mut ending = Ending::of(&output.device());
    end_backward(&mut ending, output, output_gradient, inputs, parameters);
}

fn end_backward<const D: usize>(
    ending: &mut Ending,
    output: Tensor<D>,
    output_gradient: Tensor<D>,
    inputs: &[Tensor<D>],
    parameters: &[Tensor<2>],
) {
    let mut gradients = (output * output_gradient).sum().backward();
    let missing = "every leaf has a part in the output";
    let leaves = inputs.iter().filter(|input| input.is_require_grad());
    let of_inputs = leaves.map(|input| input.grad_remove(&mut gradients).expect(missing));
    let of_inputs: Vec<Tensor<D>> = of_inputs.collect();
    let of_parameters = parameters.iter();
    let of_parameters = of_parameters.map(|of| of.grad_remove(&mut gradients).expect(missing));
    let of_parameters: Vec<Tensor<2>> = of_parameters.collect();
    ending.end(|| {
        of_inputs.into_iter().for_each(read);
        of_parameters.into_iter().for_each(read);
    });
}

/// Work that is done once in each call.
pub type Call = Box<dyn FnMut()>;

/// The context that `attend` makes of queries, keys and values; on a device that trains, the gradients of the inputs
/// that require one and of all parameters instead.
pub fn call<const D: usize>(
    inputs: [Tensor<D>; 3],
    parameters: &[Tensor<2>],
    attend: impl Fn([Tensor<D>; 3]) -> Tensor<D> + 'static,
) -> Call {
    let device = inputs[0].device();
    if !device.is_autodiff() {
        return call_of(&device, move || attend(inputs.clone()));
    }
    let parameters = parameters.to_vec();
    // A query's rows, a value's size.
    let mut context = inputs[0].dims();
    context[D - 1] = inputs[2].dims()[D - 1];
    let output_gradient = numbers(context, &device).cast(inputs[0].dtype());
    let mut ending = Ending::of_calls(&device);
    Box::new(move || {
        let output = attend(inputs.clone());
        let output_gradient = output_gradient.clone();
        end_backward(&mut ending, output, output_gradient, &inputs, &parameters);
    })
}

/// The tensor that `compute` makes.
pub fn call_of<const D: usize>(device: &Device, compute: impl Fn() -> Tensor<D> + 'static) -> Call {
    let mut ending = Ending::of_calls(device);
    Box::new(move || {
        let tensor = compute();
        ending.end(|| read(tensor));
    })
}
