//! Clipping of gradients in f32 and in this process's memory.

use std::collections::VecDeque;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor, TensorData};
use rayon::prelude::*;

use super::{Clipped, GradientNorm};
use crate::train::host::{CHUNK, elements};

/// Clips in place.
pub(super) fn clip<M: Module>(gradients: GradientsParams, module: &M, norm: f32) -> Clipped {
    let taken = VecDeque::new();
    let mut take = Take { gradients, taken };
    module.visit(&mut take);
    let (gradients, mut taken) = (take.gradients, take.taken);
    let squares = taken.iter_mut().map(Gradient::sum_of_squares);
    let total = squares.sum::<f64>().sqrt();
    if total.is_finite() && total > f64::from(norm) {
        let factor = f64::from(norm) / total;
        taken.iter_mut().for_each(|gradient| gradient.scale(factor));
    }
    let mut give_back = GiveBack { gradients, taken };
    module.visit(&mut give_back);
    let (gradients, norm) = (give_back.gradients, GradientNorm::Known(total));
    Clipped { gradients, norm }
}

/// A gradient with any number of axes.
struct Gradient {
    of: ParamId,
    data: TensorData,
    device: Device,
}

impl Gradient {
    /// The sum is in f64, which holds the square of every f32, over parts independent of the number of threads.
    fn sum_of_squares(&mut self) -> f64 {
        let chunks = elements(&mut self.data).par_chunks(CHUNK);
        let sums: Vec<f64> = chunks.map(sum_of_squares).collect();
        sums.into_iter().sum()
    }

    fn scale(&mut self, factor: f64) {
        let chunks = elements(&mut self.data).par_chunks_mut(CHUNK);
        // A factor with few or no digits in f32 is applied in f64.
        if factor < f64::from(f32::MIN_POSITIVE) {
            let scale = |x: &mut f32| *x = (f64::from(*x) * factor) as f32;
            chunks.for_each(|chunk| chunk.iter_mut().for_each(scale));
        } else {
            let factor = factor as f32;
            chunks.for_each(|chunk| chunk.iter_mut().for_each(|x| *x *= factor));
        }
    }
}

/// Uses several sums, because in a single one each addition would wait for the previous one.
fn sum_of_squares(elements: &[f32]) -> f64 {
    let square = |&x: &f32| f64::from(x).powi(2);
    let (parts, rest) = elements.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for part in parts {
        for (sum, x) in sums.iter_mut().zip(part) {
            *sum += square(x);
        }
    }
    sums.into_iter().chain(rest.iter().map(square)).sum()
}

/// Takes all gradients, in the order of the parameters.
struct Take {
    gradients: GradientsParams,
    taken: VecDeque<Gradient>,
}

impl ModuleVisitor for Take {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(parameter.id) {
            self.taken.push_back(Gradient {
                of: parameter.id,
                device: gradient.device(),
                data: gradient.into_data(),
            });
        }
    }
}

/// Puts back what [`Take`] took.
struct GiveBack {
    gradients: GradientsParams,
    taken: VecDeque<Gradient>,
}

impl ModuleVisitor for GiveBack {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if let Some(gradient) = self.taken.pop_front_if(|next| next.of == parameter.id) {
            let tensor = Tensor::<D>::from_data(gradient.data, (&gradient.device, DType::F32));
            self.gradients.register(parameter.id, tensor);
        }
    }
}
