//! The sum of gradients over processes, in one message.

use std::collections::HashSet;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Tensor, TensorData};

use super::communicator::Communicator;
use crate::error::{Error, Result};
use crate::train::failure::failed;
use crate::train::host::elements;
use crate::train::{Interrupter, StepOutput};

/// The sum over processes of `weight` times the gradients of `module`, identical in all processes: with `1 / size` the
/// mean, with the fraction of examples in a process the gradients of all examples together. A parameter has a gradient
/// if it has one in any process.
///
/// All gradients are sent as one message, in f32, whatever their type. Parameters must be identical in all processes.
/// Burn initialises them at their first use, so use them once before each process seeds its device differently.
///
/// # Errors
/// The error of [`Communicator::all_reduce_sum`].
pub fn sum_gradients<M: Module>(
    communicator: &dyn Communicator,
    gradients: GradientsParams,
    module: &M,
    weight: f32,
) -> Result<GradientsParams> {
    Ok(sum_with(communicator, gradients, module, weight, [])?.0)
}

/// [`sum_gradients`], and the sums of additional numbers in the same message.
fn sum_with<M: Module, const N: usize>(
    communicator: &dyn Communicator,
    gradients: GradientsParams,
    module: &M,
    weight: f32,
    numbers: [f32; N],
) -> Result<(GradientsParams, [f32; N])> {
    let mut flatten = Flatten {
        gradients,
        weight,
        visited: HashSet::new(),
        values: numbers.to_vec(),
    };
    module.visit(&mut flatten);
    let mut values = flatten.values;
    communicator.all_reduce_sum(&mut values)?;
    let (numbers, rest) = values.split_first_chunk().expect("they are at the front");
    let mut divide = Divide {
        rest,
        visited: HashSet::new(),
        gradients: GradientsParams::new(),
    };
    module.visit(&mut divide);
    Ok((divide.gradients, *numbers))
}

impl dyn Communicator + '_ {
    /// The gradients and the output of a step on a whole batch of `tokens` target tokens, where `backward` computes
    /// this process's part. The output tokens are only this process's, which may have no part.
    ///
    /// # Errors
    /// [`Error::Stopped`] in all processes, if one of them is to stop.
    pub(in crate::train) fn joint<M: Module>(
        &self,
        module: &M,
        batch: &[u32],
        tokens: usize,
        interrupter: &Interrupter,
        backward: impl FnOnce(&[u32]) -> (GradientsParams, StepOutput),
    ) -> Result<(GradientsParams, StepOutput)> {
        if self.size() == 1 {
            interrupter.check()?;
            return Ok(backward(batch));
        }
        let share = self.share(batch);
        let (gradients, mut output) = match share.is_empty() {
            true => {
                let device = module.devices().into_iter().next().unwrap_or_default();
                (GradientsParams::new(), StepOutput::empty(&device))
            }
            false => backward(&share),
        };
        let stops = interrupter.should_stop();
        let loss = output.loss.clone();
        let loss = loss.try_into_scalar::<f32>().map_err(failed)?;
        let weight = output.tokens as f32 / tokens as f32;
        let numbers = [weight * loss, f32::from(u8::from(stops))];
        let (gradients, [loss, stopping]) = sum_with(self, gradients, module, weight, numbers)?;
        if stopping > 0.0 {
            return Err(Error::Stopped);
        }
        output.loss = output.loss.full_like(loss);
        output.tokens = tokens;
        Ok((gradients, output))
    }
}

/// The number of elements of a trainable parameter, at its first visit: a module may contain it twice.
fn count_of<const D: usize>(
    parameter: &Param<Tensor<D>>,
    visited: &mut HashSet<ParamId>,
) -> Option<usize> {
    let value = parameter.val();
    let is_new = value.is_require_grad() && visited.insert(parameter.id);
    is_new.then(|| value.shape().num_elements())
}

/// Gradients, flattened, in the order of parameters, each preceded by whether it exists: 1, or 0 with zeros.
struct Flatten {
    gradients: GradientsParams,
    weight: f32,
    visited: HashSet<ParamId>,
    values: Vec<f32>,
}

impl ModuleVisitor for Flatten {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let Some(count) = count_of(parameter, &mut self.visited) else {
            return;
        };
        self.values.reserve(count + 1);
        let Some(gradient) = self.gradients.remove::<D>(parameter.id) else {
            self.values.resize(self.values.len() + count + 1, 0.0);
            return;
        };
        let mut data = gradient.into_data().convert_dtype(DType::F32);
        let gradient = elements(&mut data);
        self.values.push(1.0);
        self.values.extend(gradient.iter().map(|x| x * self.weight));
    }
}

/// The reverse of [`Flatten`].
struct Divide<'a> {
    rest: &'a [f32],
    visited: HashSet<ParamId>,
    gradients: GradientsParams,
}

impl ModuleVisitor for Divide<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let Some(count) = count_of(parameter, &mut self.visited) else {
            return;
        };
        let (gradient, rest) = self.rest.split_at(count + 1);
        self.rest = rest;
        if gradient[0] > 0.0 {
            let value = parameter.val().without_autodiff();
            let data = TensorData::new(gradient[1..].to_vec(), value.shape());
            let gradient = Tensor::<D>::from_data(data, (&value.device(), value.dtype()));
            self.gradients.register(parameter.id, gradient);
        }
    }
}
