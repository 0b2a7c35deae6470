//! Clipping of gradients by the norm of all of them.

use std::collections::VecDeque;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Shape, Tensor};
use rayon::prelude::*;

use super::host::{CHUNK, from_elements, has_elements, into_elements};

/// The gradients of `module`, all times the factor that makes the norm of all together at most `norm` (Pascanu et al.
/// 2013, "On the difficulty of training recurrent neural networks"). PyTorch: `clip_grad_norm_`.
///
/// Gradients that all have elements in this process's memory are read once, and scaled in place.
pub(super) fn clip_by_norm<M: Module>(
    gradients: GradientsParams,
    module: &M,
    norm: f32,
) -> GradientsParams {
    let mut all = AllHaveElements {
        gradients: &gradients,
        answer: true,
    };
    module.visit(&mut all);
    if all.answer {
        clip_elements(gradients, module, norm)
    } else {
        clip_tensors(gradients, module, norm)
    }
}

struct AllHaveElements<'a> {
    gradients: &'a GradientsParams,
    answer: bool,
}

impl ModuleVisitor for AllHaveElements<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let gradient = self.gradients.get::<D>(parameter.id);
        self.answer &= gradient.is_none_or(|gradient| has_elements(&gradient));
    }
}

fn clip_elements<M: Module>(gradients: GradientsParams, module: &M, norm: f32) -> GradientsParams {
    let mut take = Take {
        gradients,
        taken: VecDeque::new(),
    };
    module.visit(&mut take);
    let Take {
        gradients,
        mut taken,
    } = take;
    let squares = taken.iter().map(|gradient| gradient.sum_of_squares());
    let total = squares.sum::<f64>().sqrt();
    let is_within = total <= f64::from(norm);
    // Where the norm is not a number, nor is any gradient after it.
    if !is_within {
        let factor = (f64::from(norm) / total) as f32;
        taken.iter_mut().for_each(|gradient| gradient.scale(factor));
    }
    let mut give_back = GiveBack { gradients, taken };
    module.visit(&mut give_back);
    give_back.gradients
}

/// A gradient's elements, and what makes a tensor of them again.
struct Elements {
    of: ParamId,
    elements: Vec<f32>,
    shape: Shape,
    device: Device,
}

impl Elements {
    /// In parts that do not depend on the number of threads.
    fn sum_of_squares(&self) -> f64 {
        let squares = |chunk: &[f32]| chunk.iter().map(|&x| f64::from(x).powi(2)).sum();
        let sums: Vec<f64> = self.elements.par_chunks(CHUNK).map(squares).collect();
        sums.into_iter().sum()
    }

    fn scale(&mut self, factor: f32) {
        let chunks = self.elements.par_chunks_mut(CHUNK);
        chunks.for_each(|chunk| chunk.iter_mut().for_each(|x| *x *= factor));
    }
}

/// Takes the elements of all gradients, in the order of the parameters.
struct Take {
    gradients: GradientsParams,
    taken: VecDeque<Elements>,
}

impl ModuleVisitor for Take {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(parameter.id) {
            self.taken.push_back(Elements {
                of: parameter.id,
                shape: gradient.shape(),
                device: gradient.device(),
                elements: into_elements(gradient),
            });
        }
    }
}

/// Gives back what [`Take`] took.
struct GiveBack {
    gradients: GradientsParams,
    taken: VecDeque<Elements>,
}

impl ModuleVisitor for GiveBack {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if let Some(gradient) = self.taken.pop_front_if(|next| next.of == parameter.id) {
            let tensor = from_elements::<D>(gradient.elements, &gradient.shape, &gradient.device);
            self.gradients.register(parameter.id, tensor);
        }
    }
}

/// Composed of Burn's operations.
fn clip_tensors<M: Module>(
    mut gradients: GradientsParams,
    module: &M,
    norm: f32,
) -> GradientsParams {
    let mut squares = Squares {
        gradients: &gradients,
        sums: Vec::new(),
    };
    module.visit(&mut squares);
    let total = Tensor::cat(squares.sums, 0).sum().sqrt();
    // Without a division by 0: where the norm is small, the factor is 1 in any case.
    let factor = total.full_like(norm) / total.clamp_min(norm);
    module.visit(&mut Scale {
        gradients: &mut gradients,
        factor,
    });
    gradients
}

struct Squares<'a> {
    gradients: &'a GradientsParams,
    /// The sum of squares of each gradient.
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let gradient = self.gradients.get::<D>(parameter.id);
        self.sums
            .extend(gradient.map(|gradient| gradient.square().sum()));
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: Tensor<1>,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(parameter.id) {
            let factor = self.factor.clone().unsqueeze::<D>();
            self.gradients.register(parameter.id, gradient * factor);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Tensor;

    use super::*;
    use crate::device::test_device;

    /// A layer whose gradients are 3 and 0 in its weights, and 4 in its bias.
    fn gradients() -> (Linear, GradientsParams) {
        let device = test_device().autodiff();
        let layer = LinearConfig::new(2, 1).init(&device);
        let factors = Tensor::<2>::from_data([[3.0], [0.0]], &device);
        let bias = layer.bias.as_ref().unwrap().val();
        let loss = (layer.weight.val() * factors).sum() + bias.sum() * 4.0;
        let gradients = GradientsParams::from_grads(loss.backward(), &layer);
        (layer, gradients)
    }

    type Clip = fn(GradientsParams, &Linear, f32) -> GradientsParams;

    const WAYS: [Clip; 3] = [clip_by_norm, clip_elements, clip_tensors];

    /// The gradients of the weights and of the bias, which are the same of every way to clip.
    fn clipped(norm: f32, factor: f32) -> Vec<f32> {
        let of_ways = WAYS.map(|clip| clipped_by(clip, norm, factor));
        for other in &of_ways[1..] {
            assert_eq!(format!("{:?}", of_ways[0]), format!("{other:?}"));
        }
        let [first, ..] = of_ways;
        first
    }

    fn clipped_by(clip: Clip, norm: f32, factor: f32) -> Vec<f32> {
        let (layer, mut gradients) = gradients();
        let (weight, bias) = (layer.weight.id, layer.bias.as_ref().unwrap().id);
        let scaled = gradients.remove::<2>(weight).unwrap() * factor;
        gradients.register(weight, scaled);
        let scaled = gradients.remove::<1>(bias).unwrap() * factor;
        gradients.register(bias, scaled);
        let clipped = clip(gradients, &layer, norm);
        let mut elements: Vec<f32> = clipped
            .get::<2>(weight)
            .unwrap()
            .into_data()
            .iter()
            .collect();
        elements.extend(clipped.get::<1>(bias).unwrap().into_data().iter::<f32>());
        elements
    }

    #[test]
    fn a_larger_norm_of_all_together_becomes_the_one_asked_for() {
        for (got, expected) in clipped(1.0, 1.0).into_iter().zip([0.6, 0.0, 0.8]) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
    }

    #[test]
    fn a_smaller_norm_stays() {
        assert_eq!(clipped(5.5, 1.0), [3.0, 0.0, 4.0]);
    }

    #[test]
    fn gradients_of_zero_stay() {
        assert_eq!(clipped(1.0, 0.0), [0.0; 3]);
    }

    #[test]
    fn a_norm_that_is_no_number_leaves_none() {
        assert!(clipped(1.0, f32::NAN).iter().all(|x| x.is_nan()));
    }

    #[test]
    fn no_gradients_stay_none() {
        let (layer, _) = gradients();
        assert!(clip_by_norm(GradientsParams::new(), &layer, 1.0).is_empty());
    }
}
