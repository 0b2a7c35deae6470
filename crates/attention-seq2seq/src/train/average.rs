//! The exponential moving average of weights.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Tensor};
use burn_fused_layers::harness::wide::widened;
use rayon::prelude::*;

use super::host::{CHUNK, elements, is_f32_on_host};

/// The average after a step: `decay average + (1 - decay) weights`, on the device of the average. For half precision
/// the average is in f32 (see [`like`]), since half precision would round the change of a step away.
///
/// Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging". PyTorch equivalent:
/// `torch.optim.swa_utils.get_ema_multi_avg_fn`.
pub(super) fn average<M: Module>(average: M, weights: &impl Module, decay: f64) -> M {
    let mut all = Weights::default();
    weights.visit(&mut all);
    average.map(&mut Average {
        weights: all,
        decay: Some(decay),
    })
}

/// The average with parameters in the types of the weights, as in the model.
pub(super) fn like<M: Module>(average: M, weights: &impl Module) -> M {
    let mut all = Weights::default();
    weights.visit(&mut all);
    average.map(&mut Average {
        weights: all,
        decay: None,
    })
}

/// The decay in a step, counted from 1: less than `decay` in the first steps, which begin far from the final weights.
/// As in TensorFlow's `ExponentialMovingAverage` with `num_updates`.
pub(super) fn decay_at(step: usize, decay: f64) -> f64 {
    decay.min((1 + step) as f64 / (10 + step) as f64)
}

/// The float parameters of a module, flattened, without a graph.
#[derive(Default)]
struct Weights(HashMap<ParamId, Tensor<1>>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weights = param.val().without_autodiff();
        let elements = weights.shape().num_elements();
        self.0.insert(param.id, weights.reshape([elements]));
    }
}

struct Average {
    weights: Weights,
    /// `None` only converts the average to the types of the weights.
    decay: Option<f64>,
}

impl ModuleMapper for Average {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = param.consume();
        let value = match (self.weights.0.get(&id), self.decay) {
            (Some(weights), Some(decay)) => {
                let weights = weights.clone().reshape(value.shape());
                moved(value, weights, 1.0 - decay)
            }
            (Some(weights), None) => value.cast(weights.dtype()),
            (None, _) => value,
        };
        Param::from_mapped_value(id, value, mapper)
    }
}

/// `value + share (weights - value)`: for f32 on flex and ndarray in one pass, shared by the threads of the current
/// rayon pool, bit for bit the result of the three operations.
fn moved<const D: usize>(value: Tensor<D>, weights: Tensor<D>, share: f64) -> Tensor<D> {
    let (value, weights) = (widened(value), widened(weights));
    if !(is_f32_on_host(&value) && is_f32_on_host(&weights)) {
        return value.clone() + (weights - value) * share;
    }
    let device = value.device();
    let (mut value, mut weights) = (value.into_data(), weights.into_data());
    let share = share as f32;
    elements(&mut value)
        .par_chunks_mut(CHUNK)
        .zip(elements(&mut weights).par_chunks(CHUNK))
        .for_each(|(value, weights)| {
            for (value, weight) in value.iter_mut().zip(weights) {
                *value += (weight - *value) * share;
            }
        });
    Tensor::from_data(value, (&device, DType::F32))
}

#[cfg(test)]
mod tests {
    use attention_tests::parameters;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Distribution;

    use super::*;
    use crate::device::test_device;

    #[test]
    fn the_average_is_that_of_all_weights() {
        let device = test_device().autodiff();
        let weights: Linear = LinearConfig::new(3, 2).init(&device);
        let times =
            |factor: f64| parameters::changed(weights.clone(), |_, it| it.map(|x| factor * x));
        let start = times(3.0).valid();
        let mean = average(start, &weights, 0.75);
        // 0.75 times 3, and 0.25 times 1.
        let expected = times(2.5).valid();
        assert!(!mean.weight.val().device().is_autodiff());
        let [mean, expected] = [mean, expected].map(|it| parameters::values(&it));
        for (name, expected) in &expected {
            for (found, expected) in mean[name].data.iter().zip(&expected.data) {
                assert!((found - expected).abs() < 1e-6, "{name}: {found}");
            }
        }
    }

    /// A thousand steps toward weights one rounding away; half precision would lose each of them.
    #[test]
    fn the_average_of_half_precision_arrives() {
        let device = test_device().autodiff();
        for dtype in [DType::F16, DType::BF16] {
            let of = |number: f64| {
                let layer: Linear = LinearConfig::new(3, 2).init(&device);
                let layer = parameters::changed(layer, |_, it| it.map(|_| number));
                parameters::cast(layer, dtype)
            };
            let (start, weights) = (of(1.0), of(1.0));
            let weights = parameters::changed(weights, |_, it| it.map(|_| 1.0078125));
            // Of the same parameters.
            let start = parameters::changed(weights.clone(), |name, _| {
                parameters::values(&start)[name].clone()
            });
            let steps = (0..1000).fold(start.valid(), |mean, _| average(mean, &weights, 0.995));
            let mean = like(steps, &weights);
            for (name, found) in parameters::values(&mean) {
                assert!(found.data.iter().all(|&x| x > 1.007), "{name}: {found:?}");
            }
            assert_eq!(mean.weight.val().dtype(), dtype);
        }
    }

    #[test]
    fn one_pass_is_that_of_operations() {
        let device = test_device();
        let [value, weights] =
            [0; 2].map(|_| Tensor::<2>::random([3, 20_011], Distribution::Default, &device));
        let share = 1.0 - 0.999;
        let expected = value.clone() + (weights.clone() - value.clone()) * share;
        // The tensors of a model are shared.
        let (kept, actual) = (value.clone(), moved(value.clone(), weights, share));
        assert_eq!(actual.into_data(), expected.into_data());
        assert_eq!(kept.into_data(), value.into_data());
    }

    #[test]
    fn the_first_steps_count_for_more() {
        assert_eq!(decay_at(0, 0.999), 0.1);
        assert_eq!(decay_at(8, 0.999), 0.5);
        assert_eq!(decay_at(100_000, 0.999), 0.999);
    }
}
