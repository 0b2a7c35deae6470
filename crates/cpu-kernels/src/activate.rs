//! Activations of a feed-forward network, with and without a gate.
//!
//! All are `x c(x)`, where `c` rises from 0 to 1 with slope `s`: their derivative is `c(x) + x s(x)`. The backward pass
//! recomputes both, so that nothing is stored besides the inputs.

use std::marker::PhantomData;

use crate::checks::check_len;
use crate::normal::Normal;
use crate::simd::{Job, Level, Sigmoid, Simd};
use crate::threads::{TASK_ELEMENTS, for_each};
use crate::{LayerReal, Real};

const OPERATION: &str = "activation";

/// A function applied to each element.
///
/// For an infinite element, the result and the derivative are their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(0, x)`. Its derivative at 0 is 0.
    Relu,
    /// `x Phi(x)` with the normal distribution function `Phi(x) = (1 + erf(x / sqrt 2)) / 2`: Hendrycks & Gimpel 2016,
    /// "Gaussian Error Linear Units", section 2.
    Gelu,
    /// GELU approximated as `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`, from the same section.
    GeluTanh,
    /// `x / (1 + e^-x)`, also named swish: the same section, and Elfwing et al. 2017, "Sigmoid-Weighted Linear Units
    /// for Neural Network Function Approximation in Reinforcement Learning".
    Silu,
}

/// `f(input)`, or with a gate, `f(input) * factor`: Shazeer 2020, "GLU Variants Improve Transformer", section 2.
///
/// # Shapes
/// - input, factor: the same number of elements
#[derive(Clone, Copy, Debug)]
pub struct ActivationInputs<'a, E> {
    /// The function.
    pub function: Activation,
    /// The elements to which it is applied.
    pub input: &'a [E],
    /// The factor of each result.
    pub factor: Option<&'a [E]>,
}

/// The requested gradients, to write to.
#[derive(Debug)]
pub struct ActivationGradients<'a, E> {
    /// The gradient of the input.
    pub input: Option<&'a mut [E]>,
    /// The gradient of the factor.
    pub factor: Option<&'a mut [E]>,
}

impl<E: LayerReal> ActivationInputs<'_, E> {
    /// Writes the results.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn forward(&self, level: Level, output: &mut [E]) {
        E::activate(self, level, output);
    }

    /// Writes the requested gradients, from the gradient of the results.
    ///
    /// # Panics
    /// If the lengths differ, or the gradient of an absent factor is requested.
    pub fn backward(&self, level: Level, gradient: &[E], gradients: ActivationGradients<E>) {
        E::activate_backward(self, level, gradient, gradients);
    }
}

impl<E: Real> ActivationInputs<'_, E> {
    /// # Panics
    /// If the numbers of factors and elements differ.
    fn check(&self) {
        if let Some(factor) = self.factor {
            check_len(OPERATION, "factor", [self.input.len()], factor.len());
        }
    }

    /// The inputs of a task.
    fn of_task(&self, task: usize) -> Self {
        let first = task * TASK_ELEMENTS;
        let part = first..self.input.len().min(first + TASK_ELEMENTS);
        Self {
            function: self.function,
            input: &self.input[part.clone()],
            factor: self.factor.map(|factor| &factor[part]),
        }
    }
}

/// See [`ActivationInputs::forward`].
pub(crate) fn forward<E: Real>(inputs: &ActivationInputs<E>, level: Level, output: &mut [E]) {
    inputs.check();
    check_len(OPERATION, "result", [inputs.input.len()], output.len());
    match inputs.function {
        Activation::Relu => run_forward::<E, Step>(inputs, level, output),
        Activation::Gelu => run_forward::<E, NormalDistribution>(inputs, level, output),
        Activation::GeluTanh => run_forward::<E, CubicLogistic>(inputs, level, output),
        Activation::Silu => run_forward::<E, Logistic>(inputs, level, output),
    }
}

fn run_forward<E: Real, F: Rise>(inputs: &ActivationInputs<E>, level: Level, output: &mut [E]) {
    let tasks = output.chunks_mut(TASK_ELEMENTS).enumerate();
    for_each(tasks, |(task, output)| {
        let job = Forward::<E, F> {
            inputs: inputs.of_task(task),
            output,
            function: PhantomData,
        };
        E::dispatch(level, job);
    });
}

/// See [`ActivationInputs::backward`].
pub(crate) fn backward<E: Real>(
    inputs: &ActivationInputs<E>,
    level: Level,
    gradient: &[E],
    gradients: ActivationGradients<E>,
) {
    inputs.check();
    let count = inputs.input.len();
    check_len(OPERATION, "gradient of the result", [count], gradient.len());
    if let Some(input) = &gradients.input {
        check_len(OPERATION, "gradient of the input", [count], input.len());
    }
    if let Some(factor) = &gradients.factor {
        let count = inputs.factor.map_or(0, <[E]>::len);
        check_len(OPERATION, "gradient of the factor", [count], factor.len());
    }
    match inputs.function {
        Activation::Relu => run_backward::<E, Step>(inputs, level, gradient, gradients),
        Activation::Gelu => {
            run_backward::<E, NormalDistribution>(inputs, level, gradient, gradients);
        }
        Activation::GeluTanh => {
            run_backward::<E, CubicLogistic>(inputs, level, gradient, gradients);
        }
        Activation::Silu => run_backward::<E, Logistic>(inputs, level, gradient, gradients),
    }
}

fn run_backward<E: Real, F: Rise>(
    inputs: &ActivationInputs<E>,
    level: Level,
    gradient: &[E],
    gradients: ActivationGradients<E>,
) {
    let chunks = |all: Option<_>| all.map(|all: &mut [E]| all.chunks_mut(TASK_ELEMENTS));
    let [mut of_input, mut of_factor] = [gradients.input, gradients.factor].map(chunks);
    let tasks: Vec<_> = gradient
        .chunks(TASK_ELEMENTS)
        .enumerate()
        .map(|(task, gradient)| Backward::<E, F> {
            inputs: inputs.of_task(task),
            gradient,
            gradients: ActivationGradients {
                input: of_input.as_mut().and_then(Iterator::next),
                factor: of_factor.as_mut().and_then(Iterator::next),
            },
            function: PhantomData,
        })
        .collect();
    for_each(tasks.into_iter(), |task| E::dispatch(level, task));
}

/// A function that rises from 0 to 1, and approaches both ends so fast that `|x|` times the distance tends to 0.
trait Rise: Send + Sync {
    /// Below this, the function is 0.
    const LOWEST: f64 = -FAR;

    /// The value and slope at `x`, which is NaN or between [`LOWEST`](Self::LOWEST) and [`FAR`].
    fn at<E: Real, S: Simd<E>>(simd: S, x: S::V) -> Risen<S::V>;
}

/// A [`Rise`] at a point.
struct Risen<V> {
    value: V,
    slope: V,
}

/// The magnitude from which every [`Rise`] is at its ends, also in `f64`. Elements are clamped to it, so that none is
/// multiplied by infinity.
const FAR: f64 = 1000.0;

/// The rise of [`Activation::Relu`].
struct Step;

impl Rise for Step {
    const LOWEST: f64 = 0.0;

    #[inline(always)]
    fn at<E: Real, S: Simd<E>>(simd: S, x: S::V) -> Risen<S::V> {
        let is_positive = simd.less(simd.zero(), x);
        Risen {
            value: simd.select(is_positive, simd.splat(E::ONE), simd.zero()),
            slope: simd.zero(),
        }
    }
}

/// The rise of [`Activation::Gelu`].
struct NormalDistribution;

impl Rise for NormalDistribution {
    #[inline(always)]
    fn at<E: Real, S: Simd<E>>(simd: S, x: S::V) -> Risen<S::V> {
        let normal = Normal::at(simd, x);
        Risen {
            value: normal.distribution,
            slope: normal.density,
        }
    }
}

/// The rise of [`Activation::GeluTanh`]: `(1 + tanh(y / 2)) / 2` is the logistic function of `y`.
struct CubicLogistic;

impl Rise for CubicLogistic {
    #[inline(always)]
    fn at<E: Real, S: Simd<E>>(simd: S, x: S::V) -> Risen<S::V> {
        /// `2 sqrt(2 / pi)`
        const LINEAR: f64 =
            2.0 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
        const CUBIC: f64 = LINEAR * 0.044715;
        let constant = |x| simd.splat(E::from_f64(x));
        let square = simd.mul(x, x);
        let factor = simd.mul_add(square, constant(CUBIC), constant(LINEAR));
        let slope = simd.mul_add(square, constant(3.0 * CUBIC), constant(LINEAR));
        let logistic = Sigmoid::of(simd, simd.mul(x, factor));
        Risen {
            value: logistic.value(simd),
            slope: simd.mul(logistic.slope(simd), slope),
        }
    }
}

/// The rise of [`Activation::Silu`].
struct Logistic;

impl Rise for Logistic {
    #[inline(always)]
    fn at<E: Real, S: Simd<E>>(simd: S, x: S::V) -> Risen<S::V> {
        let logistic = Sigmoid::of(simd, x);
        Risen {
            value: logistic.value(simd),
            slope: logistic.slope(simd),
        }
    }
}

/// Elements, bounded on both sides, and from below only; NaN stays NaN.
#[inline(always)]
fn bounded<E: Real, F: Rise, S: Simd<E>>(simd: S, x: S::V) -> [S::V; 2] {
    let from_below = simd.max(simd.splat(E::from_f64(F::LOWEST)), x);
    let far = simd.splat(E::from_f64(FAR));
    [simd.min(far, from_below), from_below]
}

struct Forward<'a, E, F> {
    inputs: ActivationInputs<'a, E>,
    output: &'a mut [E],
    function: PhantomData<F>,
}

impl<E: Real, F: Rise> Job<E> for Forward<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let ActivationInputs { input, factor, .. } = self.inputs;
        for first in (0..input.len()).step_by(S::LANES) {
            let lanes = first..input.len().min(first + S::LANES);
            let x = simd.load_partial(&input[lanes.clone()]);
            let [near, from_below] = bounded::<E, F, S>(simd, x);
            let mut result = simd.mul(from_below, F::at(simd, near).value);
            if let Some(factor) = factor {
                result = simd.mul(result, simd.load_partial(&factor[lanes.clone()]));
            }
            simd.store_partial(result, &mut self.output[lanes]);
        }
    }
}

struct Backward<'a, E, F> {
    inputs: ActivationInputs<'a, E>,
    gradient: &'a [E],
    gradients: ActivationGradients<'a, E>,
    function: PhantomData<F>,
}

impl<E: Real, F: Rise> Job<E> for Backward<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(mut self, simd: S) {
        let ActivationInputs { input, factor, .. } = self.inputs;
        for first in (0..input.len()).step_by(S::LANES) {
            let lanes = first..input.len().min(first + S::LANES);
            let x = simd.load_partial(&input[lanes.clone()]);
            let [near, from_below] = bounded::<E, F, S>(simd, x);
            let Risen { value, slope } = F::at(simd, near);
            let gradient = simd.load_partial(&self.gradient[lanes.clone()]);
            if let Some(of_input) = &mut self.gradients.input {
                let mut gradient = gradient;
                if let Some(factor) = factor {
                    gradient = simd.mul(gradient, simd.load_partial(&factor[lanes.clone()]));
                }
                let derivative = simd.mul_add(near, slope, value);
                let gradient = simd.mul(gradient, derivative);
                simd.store_partial(gradient, &mut of_input[lanes.clone()]);
            }
            if let Some(of_factor) = &mut self.gradients.factor {
                let result = simd.mul(from_below, value);
                simd.store_partial(simd.mul(gradient, result), &mut of_factor[lanes]);
            }
        }
    }
}
