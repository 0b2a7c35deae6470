//! The factors of dropout: 0 with probability `p`, else `1 / (1 - p)`.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Distribution, FloatDType};
use cpu_kernels::threads;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

use crate::harness::host::{CpuBackend, elements, tensor, zeros};
use crate::harness::seed::seed_of_uniform;
use crate::harness::tracked::inputs;

inputs! {
    /// Inputs of [`LayerOps::dropout_factors`](super::LayerOps::dropout_factors).
    #[extension_type(fusion: cfg(feature = "fusion"))]
    pub struct DropoutFactorsInputs[1] {
        /// A tensor with the shape and type of the factors.
        tracked like: FloatTensor<B>,
        /// The probability of a 0, in `[0, 1)`.
        same probability: f64,
    }
}

/// The definition: the backend draws each factor.
pub(super) fn composed<B: Backend>(inputs: DropoutFactorsInputs<B>) -> FloatTensor<B> {
    let DropoutFactorsInputs { like, probability } = inputs;
    let keep = 1.0 - probability;
    let (device, dtype) = (like.device(), like.dtype().into());
    let kept = B::float_random(like.shape(), Distribution::Bernoulli(keep), &device, dtype);
    B::float_mul_scalar(kept, (1.0 / keep).into())
}

/// The number of elements drawn as one task, from its own stream of random numbers.
const CHUNK: usize = 1 << 14;

/// Runs on the threads of the current rayon pool. The backend's generator draws the seed; factors are f32.
pub(super) fn cpu<B: CpuBackend>(inputs: DropoutFactorsInputs<B>) -> FloatTensor<B> {
    let DropoutFactorsInputs { like, probability } = inputs;
    let uniform = Distribution::Uniform(0.0, 1.0);
    let drawn = B::float_random([4].into(), uniform, &like.device(), FloatDType::F32);
    let drawn = B::contiguous(drawn);
    let seed = seed_of_uniform(elements::<B, f32>(&drawn).iter().copied());
    let mut factors = zeros::<f32>(&like.shape());
    draw(probability, seed, &mut factors);
    tensor::<B, f32>(factors, like.shape(), like.dtype(), &like)
}

/// Writes the factors into elements that are 0.
fn draw(probability: f64, seed: u64, factors: &mut [f32]) {
    // A word is below the threshold with the probability to drop an element, to within 2^-32.
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
