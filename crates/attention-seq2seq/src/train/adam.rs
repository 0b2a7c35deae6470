//! Adam in one pass.

use burn::optim::{AdamConfig, AdamState, AdaptiveMomentumState, Optimizer};
use burn::tensor::{Device, Tensor};
use rayon::prelude::*;

use super::host::{CHUNK, from_elements, has_elements, into_elements};

const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// Adam (Kingma & Ba 2015) with PyTorch's defaults: decays 0.9 and 0.999, epsilon 1e-8. The optimizer of
/// [`Training`](super::Training).
///
/// On flex and ndarray a step of parameters in f32 is one pass over the parameters, their gradients and both moments,
/// shared by the threads of the current rayon pool; the operations that Burn's `Adam` is composed of are a dozen
/// passes of one thread. Parameters, state and records are those of Burn's, bit for bit. Anywhere else it is Burn's.
///
/// ```
/// use attention_seq2seq::Adam;
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
    /// The optimizer of a parameter; `into()` makes it that of a module.
    pub fn new() -> Self {
        let config = AdamConfig::new()
            .with_beta_1(BETA_1)
            .with_beta_2(BETA_2)
            .with_epsilon(EPSILON);
        Self {
            composed: config.build(),
        }
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
        let moments_have_elements = state.as_ref().is_none_or(|AdamState { momentum }| {
            has_elements(&momentum.moment_1) && has_elements(&momentum.moment_2)
        });
        if !(has_elements(&tensor) && has_elements(&grad) && moments_have_elements) {
            return self.composed.step(lr, tensor, grad, state);
        }

        let (shape, device) = (tensor.shape(), tensor.device());
        let (time, mut moment_1, mut moment_2) = match state {
            Some(AdamState { momentum }) => (
                momentum.time + 1,
                into_elements(momentum.moment_1),
                into_elements(momentum.moment_2),
            ),
            None => {
                let zeros = vec![0.0; shape.num_elements()];
                (1, zeros.clone(), zeros)
            }
        };
        let mut parameters = into_elements(tensor);
        let gradients = into_elements(grad);
        let step = Step::new(lr, time);
        parameters
            .par_chunks_mut(CHUNK)
            .zip(gradients.par_chunks(CHUNK))
            .zip(moment_1.par_chunks_mut(CHUNK))
            .zip(moment_2.par_chunks_mut(CHUNK))
            .for_each(|(((parameters, gradients), moment_1), moment_2)| {
                step.take(parameters, gradients, moment_1, moment_2);
            });
        let tensor = |elements| from_elements(elements, &shape, &device);
        let momentum = AdaptiveMomentumState::new(time, tensor(moment_1), tensor(moment_2));
        (tensor(parameters), Some(AdamState::new(momentum)))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        <burn::optim::Adam as Optimizer>::to_device(state, device)
    }
}

/// The factors of a step.
struct Step {
    learning_rate: f32,
    /// What corrects the bias of the first moment, and that of the root of the second.
    correction: f32,
    /// Beside a root that is not corrected.
    epsilon: f32,
}

impl Step {
    /// The step number `time`, counted from 1.
    fn new(learning_rate: f64, time: usize) -> Self {
        let time = i32::try_from(time).unwrap_or(i32::MAX);
        let root_of_bias_2 = (1.0 - BETA_2.powi(time)).sqrt();
        Self {
            learning_rate: learning_rate as f32,
            correction: root_of_bias_2 / (1.0 - BETA_1.powi(time)),
            epsilon: EPSILON * root_of_bias_2,
        }
    }

    /// Rounds where Burn does.
    fn take(
        &self,
        parameters: &mut [f32],
        gradients: &[f32],
        moment_1: &mut [f32],
        moment_2: &mut [f32],
    ) {
        let moments = moment_1.iter_mut().zip(moment_2);
        for ((parameter, &gradient), (first, second)) in
            parameters.iter_mut().zip(gradients).zip(moments)
        {
            *first = *first * BETA_1 + gradient * (1.0 - BETA_1);
            *second = *second * BETA_2 + gradient * gradient * (1.0 - BETA_2);
            let direction = *first * self.correction / (second.sqrt() + self.epsilon);
            *parameter -= direction * self.learning_rate;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use burn::module::Module;
    use burn::nn::{Linear, LinearConfig};
    use burn::optim::{GradientsParams, ModuleOptimizer};
    use burn::tensor::{DType, Distribution};

    use super::*;
    use crate::device::test_device;

    /// A layer of more than two chunks, with a rest.
    fn layer(device: &Device) -> Linear {
        LinearConfig::new(301, 2 * CHUNK / 300).init(device)
    }

    /// The elements of weight and bias after a step, whose gradients are `size` times random ones.
    fn step(layer: &mut Linear, optimizers: &mut [ModuleOptimizer], size: f64) -> Vec<Vec<f32>> {
        let device = layer.weight.val().device();
        let inputs = Tensor::<2>::random([2, 301], Distribution::Default, &device) * size;
        let layers = optimizers.iter_mut().map(|optimizer| {
            let loss = layer.forward(inputs.clone()).square().sum();
            let gradients = GradientsParams::from_grads(loss.backward(), layer);
            optimizer.step(1e-3, layer.clone(), gradients)
        });
        let layers: Vec<Linear> = layers.collect();
        *layer = layers[0].clone();
        layers.into_iter().map(elements).collect()
    }

    fn elements(layer: Linear) -> Vec<f32> {
        let mut elements = into_elements(layer.weight.val().inner());
        elements.extend(into_elements(layer.bias.unwrap().val().inner()));
        elements
    }

    fn both() -> [ModuleOptimizer; 2] {
        [
            Adam::new().into(),
            AdamConfig::new().with_epsilon(EPSILON).init(),
        ]
    }

    #[test]
    fn steps_are_those_of_burn_bit_for_bit() {
        let mut layer = layer(&test_device().autodiff());
        let mut optimizers = both();
        for size in [1.0, 1e-3, 0.0, 1e3, 1e-30] {
            let layers = step(&mut layer, &mut optimizers, size);
            assert!(layers[0].iter().all(|x| x.is_finite()));
            assert!(layers[0] == layers[1], "with gradients of {size}");
        }
    }

    #[test]
    fn records_are_those_of_burn() {
        let mut layer = layer(&test_device().autodiff());
        let [mut ours, mut burns] = both();
        step(&mut layer, std::slice::from_mut(&mut ours), 1.0);
        // Each goes on from the same record.
        burns = burns.load_record(ours.to_record());
        ours = Adam::new().into();
        ours = ours.load_record(burns.to_record());
        let layers = step(&mut layer, &mut [ours, burns], 1.0);
        assert!(layers[0] == layers[1]);
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
    fn a_parameter_without_elements_stays() {
        let device = test_device();
        let none = Tensor::<2>::zeros([0, 3], &device);
        let (tensor, _) = Adam::new().step(0.5, none.clone(), none, None);
        assert_eq!(tensor.dims(), [0, 3]);
    }

    #[test]
    fn parameters_are_counted() {
        // Of what the first test is about.
        let layer = layer(&test_device());
        assert!(layer.num_params() > 2 * CHUNK);
        assert!(!layer.num_params().is_multiple_of(CHUNK));
    }
}
