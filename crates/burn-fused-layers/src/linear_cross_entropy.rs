//! A linear layer to classes with its loss.

use burn::backend::Dispatch;
use burn::tensor::{DType, Int, Tensor};

use crate::harness::checks::{Argument, assert_together};
use crate::harness::optional::OptionalTensor;
use crate::harness::parameter::dequantized;
use crate::ops::{LayerOps, LinearCrossEntropyInputs};

/// The targets of a cross-entropy, and their weights.
///
/// ```
/// use burn_fused_layers::ClassTargets;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// // The mean of the first two; the last is padding.
/// let factors = Tensor::from_floats([0.5, 0.5, 0.0], &device);
/// let targets = ClassTargets::new(Tensor::from_ints([4, 7, 0], &device), factors);
/// let smoothed = targets.with_label_smoothing(0.1);
/// ```
#[derive(Clone, Debug)]
pub struct ClassTargets {
    /// The class of each row, `[rows]`.
    pub classes: Tensor<1, Int>,
    /// The factor on the loss of each row, `[rows]`. It has no gradient, and may be f32 for half precision. A row with
    /// factor 0 does not count, but its input must be finite.
    pub factors: Tensor<1>,
    /// The part of each target that is spread over all classes, including the target, in `[0, 1]`: Szegedy et al. 2016,
    /// "Rethinking the Inception Architecture for Computer Vision", section 7. PyTorch equivalent: `label_smoothing`.
    pub label_smoothing: f64,
}

impl ClassTargets {
    /// Targets that are not smoothed.
    pub fn new(classes: Tensor<1, Int>, factors: Tensor<1>) -> Self {
        Self {
            classes,
            factors,
            label_smoothing: 0.0,
        }
    }

    /// Spreads a part of each target over all classes.
    pub fn with_label_smoothing(mut self, share: f64) -> Self {
        self.label_smoothing = share;
        self
    }
}

/// A linear layer to classes with its cross-entropy loss, the end of many models.
///
/// Returns the sum over rows of `factors[r] (log sum_c exp logits[r, c] - logits[r, classes[r]])` with `logits = input
/// weight + bias`, `[1]`, and for each row the class with the largest logit, `[rows]`. With label smoothing, the logit
/// of a target is replaced by `(1 - label_smoothing) logits[r, classes[r]] + label_smoothing mean_c logits[r, c]`.
///
/// On the CPU in `f32` and `f64` only the logits of some rows exist at a time, in training too, and a frozen tensor
/// costs no gradient. For other types the result is computed in `f32`.
///
/// ```
/// use burn_fused_layers::{ClassTargets, linear_cross_entropy};
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let output = LinearConfig::new(5, 30_000).with_bias(false).init(&device);
/// let features = Tensor::<2>::ones([3, 5], &device);
/// let targets = Tensor::from_ints([4, 29_999, 0], &device);
/// // The mean of the first two; the last is padding.
/// let targets = ClassTargets::new(targets, Tensor::from_floats([0.5, 0.5, 0.0], &device));
/// let (loss, classes) = linear_cross_entropy(features, output.weight.val(), None, targets);
/// assert_eq!((loss.dims(), classes.dims()), ([1], [3]));
/// ```
///
/// # Shapes
/// - input `[rows, in]`, weight `[in, classes]`, bias `[classes]`
/// - classes and factors of the targets `[rows]`
///
/// # Panics
/// If shapes, types or devices do not fit together, there are no rows, no features or no classes, `label_smoothing` is
/// not in `[0, 1]`, or, on the CPU, a target is not a class.
pub fn linear_cross_entropy(
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: ClassTargets,
) -> (Tensor<1>, Tensor<1, Int>) {
    let ([rows, size], [from, classes]) = (input.dims(), weight.dims());
    assert!(
        size == from && rows * size * classes > 0,
        "linear cross-entropy: input expected [rows, {from}] and some classes, got {:?} and {classes}",
        input.dims()
    );
    of_rows(input, rows, weight, bias, targets)
}

/// [`linear_cross_entropy`] with features that come in parts, such as the states and the contexts of a decoder: as if
/// the parts were concatenated. The CPU concatenates them for some rows at a time.
///
/// ```
/// use burn_fused_layers::{ClassTargets, linear_cross_entropy_of_parts};
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let output = LinearConfig::new(5 + 5, 100).with_bias(false).init(&device);
/// let (states, contexts) = (Tensor::<2>::ones([3, 5], &device), Tensor::zeros([3, 5], &device));
/// let parts = Tensor::stack(vec![states, contexts], 0);
/// let targets = ClassTargets::new(Tensor::from_ints([4, 99, 0], &device), Tensor::ones([3], &device));
/// let (loss, _) = linear_cross_entropy_of_parts(parts, output.weight.val(), None, targets);
/// assert_eq!(loss.dims(), [1]);
/// ```
///
/// # Shapes
/// - parts `[parts, rows, size]`, weight `[parts * size, classes]`, bias `[classes]`
/// - classes and factors of the targets `[rows]`
///
/// # Panics
/// As [`linear_cross_entropy`].
pub fn linear_cross_entropy_of_parts(
    parts: Tensor<3>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: ClassTargets,
) -> (Tensor<1>, Tensor<1, Int>) {
    let ([count, rows, size], [from, classes]) = (parts.dims(), weight.dims());
    assert!(
        count * size == from && count * rows * size * classes > 0,
        "linear cross-entropy: parts expected [parts, rows, size] with parts times size {from}, and some classes, \
         got {:?} and {classes}",
        parts.dims()
    );
    let input = parts.reshape([count * rows, size]);
    of_rows(input, rows, weight, bias, targets)
}

/// The loss of `rows` rows; their features may be in parts.
fn of_rows(
    input: Tensor<2>,
    rows: usize,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: ClassTargets,
) -> (Tensor<1>, Tensor<1, Int>) {
    let label_smoothing = targets.label_smoothing;
    assert!(
        (0.0..=1.0).contains(&label_smoothing),
        "linear cross-entropy: label smoothing expected in [0, 1], got {label_smoothing}"
    );
    let (weight, bias) = (dequantized(weight), bias.map(dequantized));
    let (targets, factors) = (targets.classes, targets.factors);
    let [_, classes] = weight.dims();
    let of_bias = bias.as_ref().map(|bias| ("bias", bias.dims(), classes));
    let vectors = [
        ("targets", targets.dims(), rows),
        ("factors", factors.dims(), rows),
    ];
    for (name, [got], expected) in vectors.into_iter().chain(of_bias) {
        assert!(
            got == expected,
            "linear cross-entropy: {name} expected [{expected}], got [{got}]"
        );
    }
    let dtype = match input.dtype() {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let of_factors = if factors.dtype() == dtype {
        Argument::on_device("factors", &factors)
    } else {
        Argument::floats("factors", &factors)
    };
    let others = [
        Argument::floats("weight", &weight),
        Argument::on_device("targets", &targets),
        of_factors,
    ];
    let of_bias = bias.as_ref().map(|bias| Argument::floats("bias", bias));
    let others = others.into_iter().chain(of_bias);
    assert_together(
        "linear cross-entropy",
        Argument::floats("input", &input),
        others,
    );
    let inputs = LinearCrossEntropyInputs {
        input: input.cast(dtype).into_dispatch(),
        weight: weight.cast(dtype).into_dispatch(),
        bias: OptionalTensor::of(bias.map(|bias| bias.cast(dtype))),
        targets: targets.into_dispatch(),
        factors: OptionalTensor::of(Some(factors.without_autodiff().cast(dtype))),
        label_smoothing,
    };
    let (loss, predictions) = <Dispatch as LayerOps>::linear_cross_entropy(inputs);
    (
        Tensor::from_dispatch(loss),
        Tensor::from_dispatch(predictions),
    )
}
