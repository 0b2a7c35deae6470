//! Clipping of gradients by the norm of all of them.

mod composed;
mod elements;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Tensor};

use super::failure::failed;
use super::host::is_f32_on_host;
use crate::error::Result;

/// Gradients after they were clipped.
pub(super) struct Clipped {
    /// The gradients, unchanged if the norm is not finite, so that the parameters to blame can be found.
    pub(super) gradients: GradientsParams,
    pub(super) norm: GradientNorm,
}

/// The gradients of `module`, all multiplied by the factor that limits their joint norm to `norm` (Pascanu et al. 2013,
/// "On the difficulty of training recurrent neural networks"). PyTorch equivalent: `clip_grad_norm_`, except for a norm
/// that is not finite.
///
/// If all gradients are in f32 and in this process's memory, they are read once, and scaled in place. `squares` is for
/// other gradients.
pub(super) fn clip_by_norm<M: Module>(
    gradients: GradientsParams,
    module: &M,
    norm: f32,
    squares: Squares,
) -> Clipped {
    let mut kinds = Kinds {
        gradients: &gradients,
        are_on_host: true,
        has_f64: false,
    };
    module.visit(&mut kinds);
    let (are_on_host, has_f64) = (kinds.are_on_host, kinds.has_f64);
    if are_on_host {
        return elements::clip(gradients, module, norm);
    }
    let dtype = if has_f64 { DType::F64 } else { DType::F32 };
    composed::clip(gradients, module, norm, squares, dtype)
}

/// How to sum the squares in a norm composed of Burn's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Squares {
    /// The squares of the gradients. The norm is not finite if the gradients are not, but also if one exceeds about
    /// 1.8e19, whose square overflows f32.
    Plain,
    /// The squares of the gradients divided by the largest one. The norm is not finite only if the gradients are not.
    /// This takes three more passes over them.
    Scaled,
}

/// The norm of the gradients of all parameters together, before they were clipped.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each step")]
pub enum GradientNorm {
    /// The norm.
    Known(f64),
    /// Two factors of the norm, on their device: the product may overflow f32.
    OnDevice(Tensor<1>),
}

impl GradientNorm {
    /// Reads the norm; on a GPU this waits for the step. It is not finite if and only if an element of a gradient is
    /// not finite: no parameter should be changed by such gradients.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if the device fails.
    pub fn read(&self) -> Result<f64> {
        match self {
            Self::Known(norm) => Ok(*norm),
            Self::OnDevice(factors) => {
                let factors = factors.clone().try_into_vec_as::<f64>().map_err(failed)?;
                Ok(factors.into_iter().product())
            }
        }
    }
}

/// The path of the first parameter of `module`, in its order, whose gradient is not finite.
pub(super) fn first_not_finite<M: Module>(
    gradients: &GradientsParams,
    module: &M,
) -> Option<String> {
    let mut search = NotFinite {
        gradients,
        path: Vec::new(),
        found: None,
    };
    module.visit(&mut search);
    search.found
}

/// The devices and types of gradients.
struct Kinds<'a> {
    gradients: &'a GradientsParams,
    /// Whether all gradients are in this process's memory, in f32.
    are_on_host: bool,
    has_f64: bool,
}

impl ModuleVisitor for Kinds<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(parameter.id) {
            self.are_on_host &= is_f32_on_host(&gradient);
            self.has_f64 |= gradient.dtype() == DType::F64;
        }
    }
}

struct NotFinite<'a> {
    gradients: &'a GradientsParams,
    path: Vec<String>,
    found: Option<String>,
}

impl ModuleVisitor for NotFinite<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if self.found.is_some() {
            return;
        }
        let gradient = self.gradients.get::<D>(parameter.id);
        // On the host, because compilers of GPU kernels differ in comparisons with NaN.
        let is_finite = gradient.is_none_or(|it| it.into_data().iter::<f64>().all(f64::is_finite));
        if !is_finite {
            self.found = Some(self.path.join("."));
        }
    }
}

#[cfg(test)]
mod tests;
