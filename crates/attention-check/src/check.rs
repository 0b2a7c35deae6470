//! One operation in one case: its inputs, how both sides compute it, and how far apart the results are.

use std::time::{Duration, Instant};

use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::{Direction, SelfCheck};

/// An operation in a case.
pub(crate) struct Check {
    pub(crate) operation: &'static str,
    pub(crate) case: &'static str,
    pub(crate) dtype: DType,
    pub(crate) inputs: Vec<Input>,
    /// The gradient of the output.
    pub(crate) grad_output: Vec<f64>,
    plain: Plain,
    on_device: OnDevice,
}

/// An input tensor that gets a gradient.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) elements: Vec<f64>,
    pub(crate) shape: [usize; 4],
}

/// The results of a computation.
pub(crate) struct Outcome {
    pub(crate) output: Vec<f64>,
    /// Further results, which must be equal.
    pub(crate) exact: Vec<f64>,
    /// The gradients of the inputs, in order.
    pub(crate) gradients: Vec<Vec<f64>>,
}

/// The settings that the plain loops need besides the inputs.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) grad_output: &'a [f64],
    /// The output of the device, as only the device knows which weights its dropout dropped.
    pub(crate) observed: &'a [f64],
}

/// The results of a device.
pub(crate) struct Output {
    pub(crate) tensor: Tensor<4>,
    /// Further results, which must be equal.
    pub(crate) exact: Option<Tensor<1, Int>>,
}

type Plain = Box<dyn Fn(&[&[f64]], Given) -> Outcome>;
type OnDevice = Box<dyn Fn(Vec<Tensor<4>>) -> Output>;

impl Check {
    /// A check of `operation` in `case`: by plain loops on the elements of the inputs, and on a device on their
    /// tensors.
    pub(crate) fn new<const N: usize, O: Into<Output>>(
        [operation, case]: [&'static str; 2],
        inputs: [Input; N],
        grad_output: Vec<f64>,
        plain: impl Fn([&[f64]; N], Given) -> Outcome + 'static,
        on_device: impl Fn([Tensor<4>; N]) -> O + 'static,
    ) -> Self {
        Self {
            operation,
            case,
            dtype: DType::F32,
            inputs: inputs.into(),
            grad_output,
            plain: Box::new(move |inputs, given| {
                plain(std::array::from_fn(|index| inputs[index]), given)
            }),
            on_device: Box::new(move |leaves| {
                on_device(std::array::from_fn(|index| leaves[index].clone())).into()
            }),
        }
    }

    /// This check in another type, with inputs that the type can hold, as a case called `name`.
    pub(crate) fn in_type(self, dtype: DType, name: &'static str) -> Self {
        let inputs = self.inputs.into_iter().map(|input| Input {
            elements: rounded(input.elements, dtype),
            ..input
        });
        Self {
            case: name,
            dtype,
            inputs: inputs.collect(),
            grad_output: rounded(self.grad_output, dtype),
            ..self
        }
    }

    /// Forward and backward on a device, against the plain loops.
    pub(crate) fn run(&self, device: &Device) -> [SelfCheck; 2] {
        self.compute(device);
        let (computed, times) = self.compute(device);
        let expected = self.expected(&self.inputs, &computed.output);
        let errors = expected.errors(&computed);
        let directions = [Direction::Forward, Direction::Backward];
        let tolerances = tolerances(self.dtype);
        std::array::from_fn(|pass| SelfCheck {
            operation: self.operation,
            case: self.case,
            direction: directions[pass],
            error: errors[pass],
            tolerance: tolerances[pass],
            time: times[pass],
        })
    }

    /// The outcome for `inputs` by plain loops, if a device's output was `observed`.
    pub(crate) fn expected(&self, inputs: &[Input], observed: &[f64]) -> Outcome {
        let inputs: Vec<&[f64]> = inputs.iter().map(|input| &input.elements[..]).collect();
        let given = Given {
            grad_output: &self.grad_output,
            observed,
        };
        (self.plain)(&inputs, given)
    }

    /// The outcome on a device, and the time of each pass, including reading its results.
    pub(crate) fn compute(&self, device: &Device) -> (Outcome, [Duration; 2]) {
        let leaf = |input: &Input| {
            let tensor = tensor(&input.elements, input.shape, device, self.dtype);
            tensor.require_grad()
        };
        let leaves: Vec<Tensor<4>> = self.inputs.iter().map(leaf).collect();
        let start = Instant::now();
        let Output { tensor, exact } = (self.on_device)(leaves.clone());
        let output = read(Some(tensor.clone()));
        let forward_time = start.elapsed();
        let exact = exact.map(|exact| exact.into_data().iter::<f64>().collect());
        let start = Instant::now();
        let grad_output = self::tensor(&self.grad_output, tensor.dims(), device, tensor.dtype());
        let gradients = (tensor * grad_output).sum().backward();
        let gradients = leaves.iter().map(|leaf| read(leaf.grad(&gradients)));
        let outcome = Outcome {
            output,
            exact: exact.unwrap_or_default(),
            gradients: gradients.collect(),
        };
        (outcome, [forward_time, start.elapsed()])
    }
}

impl Input {
    /// Uniform elements; see [`draw`].
    pub(crate) fn drawn(seed: u64, shape: [usize; 4], deviation: f64) -> Self {
        Self {
            elements: draw(seed, shape, deviation),
            shape,
        }
    }
}

impl Outcome {
    /// An outcome with only an output and gradients.
    pub(crate) fn new(output: Vec<f64>, gradients: impl IntoIterator<Item = Vec<f64>>) -> Self {
        Self {
            output,
            exact: Vec::new(),
            gradients: gradients.into_iter().collect(),
        }
    }

    /// The error of `actual` in output and gradients: the largest error relative to the largest element of the same
    /// tensor; NaN if something is not finite or absent, or should be equal and is not.
    pub(crate) fn errors(&self, actual: &Self) -> [f64; 2] {
        let forward = if actual.exact == self.exact {
            error(&actual.output, &self.output)
        } else {
            f64::NAN
        };
        if actual.gradients.len() != self.gradients.len() {
            return [forward, f64::NAN];
        }
        let errors = actual.gradients.iter().zip(&self.gradients);
        let errors = errors.map(|(actual, expected)| error(actual, expected));
        [forward, errors.fold(0.0, larger)]
    }
}

impl From<Tensor<4>> for Output {
    fn from(tensor: Tensor<4>) -> Self {
        Self {
            tensor,
            exact: None,
        }
    }
}

/// The largest accepted errors, relative to the largest element of the same tensor: in results and in gradients.
///
/// Half precision rounds by `2^-11` (f16) or `2^-8` (bf16) of an element: an operation computed in f32 only rounds its
/// results, while attention in several steps also rounds scores, weights and their gradients, one after the other.
pub(crate) fn tolerances(dtype: DType) -> [f64; 2] {
    match dtype {
        DType::F16 => [4.0, 8.0].map(|times| times * 2_f64.powi(-11)),
        DType::BF16 => [4.0, 8.0].map(|times| times * 2_f64.powi(-8)),
        _ => [1e-5, 5e-5],
    }
}

fn error(actual: &[f64], expected: &[f64]) -> f64 {
    if actual.len() != expected.len() {
        return f64::NAN;
    }
    let magnitudes = expected.iter().map(|x| x.abs());
    let magnitude = magnitudes.fold(f64::MIN_POSITIVE, f64::max);
    let errors = actual.iter().zip(expected).map(|(a, e)| (a - e).abs());
    errors.fold(0.0, larger) / magnitude
}

/// The larger number, where NaN counts as the largest.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// Uniform elements with a standard deviation, each exact in `f32`.
pub(crate) fn draw(seed: u64, shape: [usize; 4], deviation: f64) -> Vec<f64> {
    let mut state = seed;
    let element = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
        f64::from(((2.0 * uniform - 1.0) * 3.0_f64.sqrt() * deviation) as f32)
    };
    (0..shape.iter().product()).map(element).collect()
}

/// The elements, rounded to `dtype`.
fn rounded(elements: Vec<f64>, dtype: DType) -> Vec<f64> {
    let len = elements.len();
    let data = TensorData::new(elements, [len]).convert_dtype(dtype);
    data.iter::<f64>().collect()
}

fn tensor(elements: &[f64], shape: [usize; 4], device: &Device, dtype: DType) -> Tensor<4> {
    let data = TensorData::new(elements.to_vec(), shape).convert_dtype(dtype);
    Tensor::from_data(data, (device, dtype))
}

/// The elements; NaN without a tensor.
fn read(tensor: Option<Tensor<4>>) -> Vec<f64> {
    match tensor {
        Some(tensor) => tensor.into_data().iter::<f64>().collect(),
        None => vec![f64::NAN],
    }
}
