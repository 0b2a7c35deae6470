//! Dropout, with a mask that all threads draw.

use burn::nn::Dropout;
use burn::tensor::{DType, Device, Distribution, Tensor, TensorData};
use cpu_kernels::threads;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

use crate::harness::seed::seed_of_uniform;
use crate::is_in_host_memory;

/// The elements that are drawn as one task, from a stream of random numbers of their own.
const CHUNK: usize = 1 << 14;

/// `layer.forward(input)`: while training each element is 0 with the probability of the layer, or divided by that of
/// the others (Srivastava et al. 2014, "Dropout").
///
/// On flex and ndarray the threads of the current rayon pool draw the mask together; Burn 0.22.1 draws it on one
/// thread. The backend's generator seeds the mask, which does not depend on the number of threads. Factors are f32.
///
/// PyTorch: `torch.nn.functional.dropout`.
///
/// ```
/// use burn::nn::DropoutConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_fused_layers::dropout;
///
/// let layer = DropoutConfig::new(0.25).init();
/// let input = Tensor::<2>::ones([3, 5], &Device::flex().autodiff());
/// for element in dropout(&layer, input).into_data().iter::<f32>() {
///     assert!(element == 0.0 || element == 1.0 / 0.75);
/// }
/// ```
pub fn dropout<const D: usize>(layer: &Dropout, input: Tensor<D>) -> Tensor<D> {
    let device = input.device();
    if !drops(layer, &device) {
        return input;
    }
    let elements = input.shape().num_elements();
    if elements == 0 {
        return input;
    }
    if !is_in_host_memory(&device) {
        return layer.forward(input);
    }
    let mut factors = vec![0.0; elements];
    draw(layer.prob, seed(&device.clone().inner()), &mut factors);
    let factors = TensorData::new(factors, input.shape());
    let factors = Tensor::from_data(factors, (&device, input.dtype()));
    input * factors
}

/// Whether a layer drops something of tensors on `device`: while training, on a training device.
pub fn drops(layer: &Dropout, device: &Device) -> bool {
    layer.prob > 0.0 && layer.training.is_enabled() && device.is_autodiff()
}

/// Random bits of the device's generator.
fn seed(device: &Device) -> u64 {
    let uniform = Distribution::Uniform(0.0, 1.0);
    let drawn = Tensor::<1>::random([4], uniform, (device, DType::F32)).into_data();
    seed_of_uniform(drawn.iter::<f32>())
}

/// Writes the factors of elements that are 0.
fn draw(probability: f64, seed: u64, factors: &mut [f32]) {
    // A word is below the threshold with the probability to drop, to within 2^-32.
    let threshold = probability * 4_294_967_296.0;
    let scale = (1.0 / (1.0 - probability)) as f32;
    let chunks = factors.chunks_mut(CHUNK).zip(0..).collect::<Vec<_>>();
    threads::for_each(chunks.into_iter(), |(factors, stream)| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        for factor in factors {
            if f64::from(random.next_u32()) >= threshold {
                *factor = scale;
            }
        }
    });
}
