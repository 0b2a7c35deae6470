//! Adam in a single pass.

use burn::optim::{AdamConfig, AdamState, AdaptiveMomentumState, Optimizer};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_fused_layers::harness::wide::{wide, widened};
use rayon::prelude::*;

use super::host::{CHUNK, elements, is_f32_on_host};

const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// Adam (Kingma & Ba 2015) with PyTorch's defaults: decays 0.9 and 0.999, epsilon 1e-8. It is the optimizer of
/// [`Training`](super::Training).
///
/// On flex and ndarray a step in f32 is one pass over gradients and both moments, shared by the threads of the current
/// rayon pool, and a subtraction from the parameters; Burn's `Adam` is composed of a dozen single-threaded passes.
/// Parameters, state and records equal Burn's, bit for bit. Other backends use Burn's optimizer.
///
/// A parameter in half precision has moments and steps in f32, which are rounded once: in f16 the epsilon would be 0,
/// and so would the square of a gradient below 2e-4. A step smaller than half of the parameter's own rounding is lost.
///
/// ```
/// use attention_seq2seq::train::Adam;
/// use burn::nn::LinearConfig;
/// use burn::optim::{GradientsParams, ModuleOptimizer};
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex().autodiff();
/// let layer = LinearConfig::new(3, 2).init(&device);
/// let loss = layer.forward(Tensor::<2>::ones([1, 3], &device)).sum();
/// let gradients = GradientsParams::from_grads(loss.backward(), &layer);
///
/// let mut adam: ModuleOptimizer = Adam::new().into();
/// let layer = adam.step(0.01, layer, gradients);
/// ```
#[derive(Clone)]
pub struct Adam {
    composed: burn::optim::Adam,
}

impl Adam {
    /// The optimizer of a parameter; `into()` makes it the optimizer of a module.
    pub fn new() -> Self {
        let config = AdamConfig::new().with_beta_1(BETA_1).with_beta_2(BETA_2);
        let composed = config.with_epsilon(EPSILON).build();
        Self { composed }
    }
}

impl Default for Adam {
    fn default() -> Self {
        Self::new()
    }
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        lr: f64,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let dtype = tensor.dtype();
        if wide(dtype) != dtype {
            let state = state.map(widened_state);
            let (tensor, grad) = (widened(tensor), widened(grad));
            let (tensor, state) = Optimizer::step(self, lr, tensor, grad, state);
            return (tensor.cast(dtype), state);
        }
        let (shape, device) = (tensor.shape(), tensor.device());
        let is_like_it = |other: &Tensor<D>| is_f32_on_host(other) && other.shape() == shape;
        let state_is_like_it = state.as_ref().is_none_or(|AdamState { momentum }| {
            is_like_it(&momentum.moment_1)
                && is_like_it(&momentum.moment_2)
                && momentum.max_moment_2.is_none()
        });
        if !(is_f32_on_host(&tensor) && is_like_it(&grad) && state_is_like_it) {
            return self.composed.step(lr, tensor, grad, state);
        }

        let (time, mut moment_1, mut moment_2) = match state {
            Some(AdamState { momentum }) => (
                momentum.time + 1,
                momentum.moment_1.into_data(),
                momentum.moment_2.into_data(),
            ),
            None => {
                // Zeros to which adding anything, even a zero of either sign, changes nothing.
                let zeros = TensorData::full(shape, -0.0f32);
                (1, zeros.clone(), zeros)
            }
        };
        let mut gradient = grad.into_data();
        let step = Step::new(lr, time);
        elements(&mut gradient)
            .par_chunks_mut(CHUNK)
            .zip(elements(&mut moment_1).par_chunks_mut(CHUNK))
            .zip(elements(&mut moment_2).par_chunks_mut(CHUNK))
            .for_each(|((gradient, moment_1), moment_2)| {
                step.replace(gradient, moment_1, moment_2);
            });
        let on_device = |data| Tensor::from_data(data, (&device, DType::F32));
        let momentum = AdaptiveMomentumState::new(time, on_device(moment_1), on_device(moment_2));
        // Parameters may be shared, for example with a clone of the model, so they are not written in place.
        let tensor = tensor - on_device(gradient);
        (tensor, Some(AdamState::new(momentum)))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        <burn::optim::Adam as Optimizer>::to_device(state, device)
    }
}

/// The moments in f32, if an earlier step left them in half precision.
fn widened_state<const D: usize>(state: AdamState<D>) -> AdamState<D> {
    let mut momentum = state.momentum;
    momentum.moment_1 = widened(momentum.moment_1);
    momentum.moment_2 = widened(momentum.moment_2);
    momentum.max_moment_2 = momentum.max_moment_2.map(widened);
    AdamState::new(momentum)
}

/// The factors in a step.
struct Step {
    learning_rate: f32,
    /// The bias correction of the first moment and of the root of the second.
    correction: f32,
    /// The term added to an uncorrected root.
    epsilon: f32,
}

impl Step {
    /// The factors of step `time`, counted from 1.
    fn new(learning_rate: f64, time: usize) -> Self {
        let time = i32::try_from(time).unwrap_or(i32::MAX);
        let root_of_bias_2 = (1.0 - BETA_2.powi(time)).sqrt();
        Self {
            learning_rate: learning_rate as f32,
            correction: root_of_bias_2 / (1.0 - BETA_1.powi(time)),
            epsilon: EPSILON * root_of_bias_2,
        }
    }

    /// Replaces gradients by the decrease of the parameters. It rounds where Burn does.
    fn replace(&self, gradients: &mut [f32], moment_1: &mut [f32], moment_2: &mut [f32]) {
        for ((x, first), second) in gradients.iter_mut().zip(moment_1).zip(moment_2) {
            *first = *first * BETA_1 + *x * (1.0 - BETA_1);
            *second = *second * BETA_2 + *x * *x * (1.0 - BETA_2);
            let direction = *first * self.correction / (second.sqrt() + self.epsilon);
            *x = direction * self.learning_rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::optim::{GradientsParams, ModuleOptimizer};
    use burn::tensor::Distribution;

    use super::*;
    use crate::device::test_device;

    const INPUTS: usize = 301;

    /// A layer whose weight has more than two chunks, with a rest.
    fn layer(device: &Device) -> Linear {
        let outputs = 2 * CHUNK / 300;
        assert!(INPUTS * outputs > 2 * CHUNK && !(INPUTS * outputs).is_multiple_of(CHUNK));
        LinearConfig::new(INPUTS, outputs).init(device)
    }

    /// The bits of the layer after a step of each optimizer, whose gradients are `size` times random ones; goes on from
    /// the first.
    fn step(layer: &mut Linear, optimizers: &mut [ModuleOptimizer], size: f64) -> Vec<Vec<u32>> {
        let device = layer.weight.val().device();
        let inputs = Tensor::<2>::random([2, INPUTS], Distribution::Default, &device) * size;
        let layers = optimizers.iter_mut().map(|optimizer| {
            let loss = layer.forward(inputs.clone()).square().sum();
            let gradients = GradientsParams::from_grads(loss.backward(), layer);
            optimizer.step(1e-3, layer.clone(), gradients)
        });
        let layers: Vec<Linear> = layers.collect();
        *layer = layers[0].clone();
        layers.into_iter().map(bits_of_layer).collect()
    }

    fn bits_of_layer(layer: Linear) -> Vec<u32> {
        let mut all = bits(layer.weight.val().inner());
        all.extend(bits(layer.bias.unwrap().val().inner()));
        all
    }

    fn bits<const D: usize>(tensor: Tensor<D>) -> Vec<u32> {
        let mut data = tensor.into_data();
        elements(&mut data).iter().map(|x| x.to_bits()).collect()
    }

    fn burns() -> AdamConfig {
        AdamConfig::new().with_epsilon(EPSILON)
    }

    #[test]
    fn steps_are_those_of_burn_bit_for_bit() {
        let mut layer = layer(&test_device().autodiff());
        let mut optimizers = [Adam::new().into(), burns().init()];
        for size in [1.0, 1e-3, 0.0, 1e3, 1e-30] {
            let layers = step(&mut layer, &mut optimizers, size);
            assert!(layers[0].iter().all(|&x| f32::from_bits(x).is_finite()));
            assert!(layers[0] == layers[1], "with gradients of {size}");
        }
    }

    #[test]
    fn moments_are_those_of_burn_bit_for_bit() {
        let device = test_device();
        let parameter = Tensor::<1>::from_data([-0.0, 0.0, 1.0, -2.0, 3.0], &device);
        let gradients = [
            [-0.0, 0.0, -1e-45, 2.0, -3.0],
            [0.0, -0.0, 1e-45, 1e-20, 4.0],
        ];
        let (mut ours, mut theirs) = (None, None);
        for gradient in gradients {
            let gradient = Tensor::<1>::from_data(gradient, &device);
            let (mine, state) = Adam::new().step(0.1, parameter.clone(), gradient.clone(), ours);
            let burns = burns().build();
            let (burns, expected) = burns.step(0.1, parameter.clone(), gradient, theirs);
            assert_eq!(bits(mine), bits(burns));
            let [of_ours, of_burns] = [&state, &expected].map(|state| {
                let momentum = state.clone().unwrap().momentum;
                let moments = [bits(momentum.moment_1), bits(momentum.moment_2)];
                (momentum.time, moments)
            });
            assert_eq!(of_ours, of_burns);
            (ours, theirs) = (state, expected);
        }
    }

    #[test]
    fn records_are_those_of_burn() {
        let mut layer = layer(&test_device().autodiff());
        let mut kept = ModuleOptimizer::from(Adam::new());
        step(&mut layer, std::slice::from_mut(&mut kept), 1.0);
        let burns = burns().init().load_record(kept.to_record());
        let ours = ModuleOptimizer::from(Adam::new()).load_record(burns.to_record());
        let layers = step(&mut layer, &mut [kept, ours, burns], 1.0);
        assert!(layers[0] == layers[1], "read from a record");
        assert!(layers[0] == layers[2], "read by Burn");
    }

    #[test]
    fn parameters_in_f64_are_stepped_by_burn() {
        let device = test_device();
        let one = Tensor::<1>::ones([3], (&device, DType::F64));
        let (tensor, state) = Adam::new().step(0.5, one.clone(), one, None);
        assert_eq!(tensor.dtype(), DType::F64);
        assert_eq!(state.unwrap().momentum.moment_1.dtype(), DType::F64);
        let data: Vec<f64> = tensor.into_data().iter().collect();
        assert!(data.iter().all(|x| (x - 0.5).abs() < 1e-6), "{data:?}");
    }

    #[test]
    fn parameters_in_half_precision_are_stepped_in_f32() {
        let device = test_device();
        for dtype in [DType::F16, DType::BF16] {
            // A gradient of 0, one whose square is 0 in f16, and one of 1.
            let of = |dtype, all: [f32; 3]| Tensor::<1>::from_data(all, (&device, dtype));
            let (start, gradient) = ([0.0; 3], [0.0, 1e-3, 1.0]);
            let mut states = [None, None];
            for number in 1..4 {
                let [half, single] = [(0, dtype), (1, DType::F32)].map(|(at, dtype)| {
                    // The gradient that half precision holds.
                    let gradient = of(DType::BF16, gradient).cast(DType::F16).cast(dtype);
                    let (tensor, state) =
                        Adam::new().step(0.5, of(dtype, start), gradient, states[at].take());
                    states[at] = state;
                    tensor
                });
                assert_eq!(half.dtype(), dtype);
                let expected = single.cast(dtype).into_data();
                assert_eq!(half.into_data(), expected, "{dtype:?}, step {number}");
                let momentum = states[0].clone().unwrap().momentum;
                assert_eq!(momentum.moment_2.dtype(), DType::F32);
                // As a checkpoint of before has them.
                if number == 2 {
                    states = states.map(|state| {
                        let mut momentum = state.unwrap().momentum;
                        momentum.moment_1 = momentum.moment_1.cast(DType::BF16);
                        momentum.moment_2 = momentum.moment_2.cast(DType::BF16);
                        Some(AdamState::new(momentum))
                    });
                    states[1] = states[1].take().map(widened_state);
                }
            }
        }
    }

    #[test]
    fn the_state_of_amsgrad_is_not_lost() {
        let one = Tensor::<1>::ones([3], &test_device());
        let amsgrad = burns().with_amsgrad(true).build();
        let (_, state) = amsgrad.step(0.5, one.clone(), one.clone(), None);
        let (_, state) = Adam::new().step(0.5, one.clone(), one, state);
        assert!(state.unwrap().momentum.max_moment_2.is_some());
    }

    #[test]
    fn a_parameter_without_elements_stays() {
        let none = Tensor::<2>::zeros([0, 3], &test_device());
        let (tensor, _) = Adam::new().step(0.5, none.clone(), none, None);
        assert_eq!(tensor.dims(), [0, 3]);
    }
}
