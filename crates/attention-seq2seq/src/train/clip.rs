//! Clipping of gradients by the norm of all of them.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// The gradients of `module`, all times the factor that makes the norm of all together at most `norm` (Pascanu et al.
/// 2013, "On the difficulty of training recurrent neural networks"). PyTorch: `clip_grad_norm_`.
pub(super) fn clip_by_norm<M: Module>(
    mut gradients: GradientsParams,
    module: &M,
    norm: f32,
) -> GradientsParams {
    let mut squares = Squares {
        gradients: &gradients,
        sums: Vec::new(),
    };
    module.visit(&mut squares);
    if squares.sums.is_empty() {
        return gradients;
    }
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

    /// The gradients of the weights and of the bias.
    fn clipped(norm: f32, factor: f32) -> Vec<f32> {
        let (layer, mut gradients) = gradients();
        let (weight, bias) = (layer.weight.id, layer.bias.as_ref().unwrap().id);
        let scaled = gradients.remove::<2>(weight).unwrap() * factor;
        gradients.register(weight, scaled);
        let scaled = gradients.remove::<1>(bias).unwrap() * factor;
        gradients.register(bias, scaled);
        let clipped = clip_by_norm(gradients, &layer, norm);
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
    fn no_gradients_stay_none() {
        let (layer, _) = gradients();
        assert!(clip_by_norm(GradientsParams::new(), &layer, 1.0).is_empty());
    }
}
