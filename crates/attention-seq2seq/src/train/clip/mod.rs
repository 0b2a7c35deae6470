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
    /// Unchanged where the norm is not finite: it shows in them which are to blame.
    pub(super) gradients: GradientsParams,
    pub(super) norm: GradientNorm,
}

/// The gradients of `module`, all times the factor that makes the norm of all together at most `norm` (Pascanu et al.
/// 2013, "On the difficulty of training recurrent neural networks"). PyTorch: `clip_grad_norm_`, but for a norm that is
/// not finite.
///
/// Gradients that are all in f32 and in this process's memory are read once, and scaled in place. `squares` is for the
/// others.
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
    let Kinds {
        are_on_host,
        has_f64,
        ..
    } = kinds;
    if are_on_host {
        return elements::clip(gradients, module, norm);
    }
    let dtype = if has_f64 { DType::F64 } else { DType::F32 };
    composed::clip(gradients, module, norm, squares, dtype)
}

/// The way to add up the squares of a norm that is composed of Burn's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Squares {
    /// Those of the gradients. The norm is not finite where the gradients are not, and also where one of 1e20 is: its
    /// square is none of f32.
    Plain,
    /// Those of the gradients divided by the largest. The norm is not finite where the gradients are not. Three more
    /// passes over them.
    Scaled,
}

/// The norm of the gradients of all parameters together, before they were clipped.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each step")]
pub enum GradientNorm {
    /// The norm.
    Known(f64),
    /// Its factors, on their device: the product of two in f32 may be none of f32.
    OnDevice(Tensor<1>),
}

impl GradientNorm {
    /// Reads it; on a GPU that waits for the step. It is not finite if, and only if, an element of a gradient is not:
    /// no parameter should change by such gradients.
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

/// Where gradients are, and in which types.
struct Kinds<'a> {
    gradients: &'a GradientsParams,
    /// All, in f32.
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
        // On the host: what a compiler of kernels makes of a comparison with NaN is its own affair.
        let is_finite = gradient.is_none_or(|it| it.into_data().iter::<f64>().all(f64::is_finite));
        if !is_finite {
            self.found = Some(self.path.join("."));
        }
    }
}

#[cfg(test)]
mod tests;
