//! Clipping of gradients on any device and of any type, composed of Burn's operations. It waits for no device.

use std::collections::HashSet;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Tensor};

use super::{Clipped, GradientNorm, Squares};

/// The lowest norm that can be judged by plain squares. Squares of elements below 1e-19 are lost, and even 1e16 such
/// elements together are far below this norm.
const LOWEST_PLAIN: f32 = 1e-10;

/// Clips by a norm in `dtype`, which can hold every element: half precision cannot hold the squares.
pub(super) fn clip<M: Module>(
    mut gradients: GradientsParams,
    module: &M,
    norm: f32,
    squares: Squares,
    dtype: DType,
) -> Clipped {
    let is_scaled = squares == Squares::Scaled || norm < LOWEST_PLAIN;
    let largest = is_scaled.then(|| {
        let each = of_each(&gradients, module, Reduction::Largest, dtype);
        // Avoids a division by 0. (A maximum may ignore NaN, which the squares keep.)
        let lowest = f64::from(f32::MIN_POSITIVE);
        all(each).map(|each| each.max().clamp_min(lowest))
    });
    let largest = largest.flatten();
    let sums = of_each(&gradients, module, Reduction::Sum(largest.clone()), dtype);
    let Some(sums) = all(sums) else {
        let norm = GradientNorm::Known(0.0);
        return Clipped { gradients, norm };
    };
    let root = sums.sum().sqrt();
    let divisor = largest.clone().unwrap_or_else(|| root.ones_like());
    // The norm itself, `root * divisor`, may overflow.
    let limit = root.full_like(norm) / divisor.clone();
    let is_finite = root.clone().is_finite();
    let stays = root.clone().greater(limit).bool_and(is_finite).bool_not();
    module.visit(&mut Scale {
        gradients: &mut gradients,
        visited: HashSet::new(),
        divisor: largest.map(|largest| largest.mask_fill(stays.clone(), 1.0)),
        factor: (root.full_like(norm) / root.clone()).mask_fill(stays, 1.0),
    });
    let norm = GradientNorm::OnDevice(Tensor::cat(vec![divisor, root], 0));
    Clipped { gradients, norm }
}

/// The elements of all tensors, if there are any.
fn all(tensors: Vec<Tensor<1>>) -> Option<Tensor<1>> {
    (!tensors.is_empty()).then(|| Tensor::cat(tensors, 0))
}

/// A reduction of each gradient to a number.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Reduction {
    /// The largest magnitude.
    Largest,
    /// The sum of squares of the elements, divided by a number first if there is one.
    Sum(Option<Tensor<1>>),
}

/// The reduction of each gradient that has elements, each `[1]`.
fn of_each<M: Module>(
    gradients: &GradientsParams,
    module: &M,
    reduction: Reduction,
    dtype: DType,
) -> Vec<Tensor<1>> {
    let mut reduce = Reduce {
        gradients,
        visited: HashSet::new(),
        reduction,
        dtype,
        found: Vec::new(),
    };
    module.visit(&mut reduce);
    reduce.found
}

struct Reduce<'a> {
    gradients: &'a GradientsParams,
    /// A module may contain a parameter twice.
    visited: HashSet<ParamId>,
    reduction: Reduction,
    dtype: DType,
    found: Vec<Tensor<1>>,
}

impl ModuleVisitor for Reduce<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if self.visited.insert(parameter.id)
            && let Some(gradient) = self.gradients.get::<D>(parameter.id)
            && gradient.shape().num_elements() > 0
        {
            let gradient = gradient.cast(self.dtype);
            self.found.push(match &self.reduction {
                Reduction::Largest => gradient.abs().max(),
                Reduction::Sum(None) => gradient.square().sum(),
                Reduction::Sum(Some(divisor)) => {
                    let divisor = divisor.clone().unsqueeze::<D>();
                    (gradient / divisor).square().sum()
                }
            });
        }
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    visited: HashSet<ParamId>,
    /// A factor and a divisor, because their quotient may underflow.
    divisor: Option<Tensor<1>>,
    factor: Tensor<1>,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if self.visited.insert(parameter.id)
            && let Some(gradient) = self.gradients.remove::<D>(parameter.id)
        {
            let dtype = gradient.dtype();
            let mut scaled = gradient.cast(self.factor.dtype());
            if let Some(divisor) = &self.divisor {
                scaled = scaled / divisor.clone().unsqueeze::<D>();
            }
            let scaled = scaled * self.factor.clone().unsqueeze::<D>();
            self.gradients.register(parameter.id, scaled.cast(dtype));
        }
    }
}
