//! Clipping of gradients by the norm of all of them.

use std::collections::{HashSet, VecDeque};

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor, TensorData};
use rayon::prelude::*;

use super::host::{CHUNK, elements, is_f32_on_host};

/// The gradients of `module`, all times the factor that makes the norm of all together at most `norm` (Pascanu et al.
/// 2013, "On the difficulty of training recurrent neural networks"). PyTorch: `clip_grad_norm_`.
///
/// Gradients that are all in f32 and in this process's memory are read once, and scaled in place.
pub(super) fn clip_by_norm<M: Module>(
    gradients: GradientsParams,
    module: &M,
    norm: f32,
) -> GradientsParams {
    let mut check = AreAllOnHost {
        gradients: &gradients,
        are_all: true,
    };
    module.visit(&mut check);
    if check.are_all {
        clip_elements(gradients, module, norm)
    } else {
        clip_tensors(gradients, module, norm)
    }
}

struct AreAllOnHost<'a> {
    gradients: &'a GradientsParams,
    are_all: bool,
}

impl ModuleVisitor for AreAllOnHost<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let gradient = self.gradients.get::<D>(parameter.id);
        self.are_all &= gradient.is_none_or(|gradient| is_f32_on_host(&gradient));
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
    let squares = taken.iter_mut().map(Gradient::sum_of_squares);
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

/// A gradient whose number of axes is not known.
struct Gradient {
    of: ParamId,
    data: TensorData,
    device: Device,
}

impl Gradient {
    /// In parts that do not depend on the number of threads.
    fn sum_of_squares(&mut self) -> f64 {
        let squares = |chunk: &[f32]| chunk.iter().map(|&x| f64::from(x).powi(2)).sum();
        let chunks = elements(&mut self.data).par_chunks(CHUNK);
        let sums: Vec<f64> = chunks.map(squares).collect();
        sums.into_iter().sum()
    }

    fn scale(&mut self, factor: f32) {
        let chunks = elements(&mut self.data).par_chunks_mut(CHUNK);
        chunks.for_each(|chunk| chunk.iter_mut().for_each(|x| *x *= factor));
    }
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

/// Gives back what [`Take`] took.
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

/// Composed of Burn's operations.
fn clip_tensors<M: Module>(
    mut gradients: GradientsParams,
    module: &M,
    norm: f32,
) -> GradientsParams {
    let mut squares = Squares {
        gradients: &gradients,
        visited: HashSet::new(),
        sums: Vec::new(),
    };
    module.visit(&mut squares);
    let total = Tensor::cat(squares.sums, 0).sum().sqrt();
    // Without a division by 0: where the norm is small, the factor is 1 in any case.
    let factor = total.full_like(norm) / total.clamp_min(norm);
    module.visit(&mut Scale {
        gradients: &mut gradients,
        visited: HashSet::new(),
        factor,
    });
    gradients
}

struct Squares<'a> {
    gradients: &'a GradientsParams,
    /// A module may have a parameter twice.
    visited: HashSet<ParamId>,
    /// The sum of squares of each gradient.
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if self.visited.insert(parameter.id) {
            let gradient = self.gradients.get::<D>(parameter.id);
            self.sums
                .extend(gradient.map(|gradient| gradient.square().sum()));
        }
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    visited: HashSet<ParamId>,
    factor: Tensor<1>,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if self.visited.insert(parameter.id)
            && let Some(gradient) = self.gradients.remove::<D>(parameter.id)
        {
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

    /// The same layer twice, with the factors times gradients of 3 and 0 in its weights and of 4 in its bias.
    fn gradients([of_weights, of_bias]: [f32; 2]) -> (Vec<Linear>, GradientsParams) {
        let device = test_device().autodiff();
        let layer = LinearConfig::new(2, 1).init(&device);
        let factors = Tensor::<2>::from_data([[3.0], [0.0]], &device) * of_weights;
        let bias = layer.bias.as_ref().unwrap().val();
        let loss = (layer.weight.val() * factors).sum() + bias.sum() * (4.0 * of_bias);
        let layers = vec![layer.clone(), layer];
        let gradients = GradientsParams::from_grads(loss.backward(), &layers);
        (layers, gradients)
    }

    type Clip = fn(GradientsParams, &Vec<Linear>, f32) -> GradientsParams;

    const WAYS: [Clip; 3] = [clip_by_norm, clip_elements, clip_tensors];

    /// The gradients of the weights and of the bias, which are the same of every way to clip.
    fn clipped(norm: f32, factors: [f32; 2]) -> Vec<f32> {
        let of_ways = WAYS.map(|clip| clipped_by(clip, norm, factors));
        for other in &of_ways[1..] {
            assert_eq!(format!("{:?}", of_ways[0]), format!("{other:?}"));
        }
        let [first, ..] = of_ways;
        first
    }

    fn clipped_by(clip: Clip, norm: f32, factors: [f32; 2]) -> Vec<f32> {
        let (layers, gradients) = gradients(factors);
        let clipped = clip(gradients, &layers, norm);
        let bias = layers[0].bias.as_ref().unwrap();
        let weights = clipped.get::<2>(layers[0].weight.id).unwrap().into_data();
        let bias = clipped.get::<1>(bias.id).unwrap().into_data();
        weights.iter::<f32>().chain(bias.iter()).collect()
    }

    #[test]
    fn a_larger_norm_of_all_together_becomes_the_one_asked_for() {
        for (got, expected) in clipped(1.0, [1.0; 2]).into_iter().zip([0.6, 0.0, 0.8]) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
    }

    #[test]
    fn a_smaller_norm_stays() {
        assert_eq!(clipped(5.5, [1.0; 2]), [3.0, 0.0, 4.0]);
    }

    #[test]
    fn gradients_of_zero_stay() {
        assert_eq!(clipped(1.0, [0.0; 2]), [0.0; 3]);
    }

    #[test]
    fn a_norm_that_is_no_number_leaves_none() {
        let one_is_none = clipped(1.0, [1.0, f32::NAN]);
        assert!(one_is_none.iter().all(|x| x.is_nan()), "{one_is_none:?}");
    }

    #[test]
    fn no_gradients_stay_none() {
        let (layers, _) = gradients([1.0; 2]);
        for clip in [clip_by_norm, clip_elements] {
            assert!(clip(GradientsParams::new(), &layers, 1.0).is_empty());
        }
    }
}
