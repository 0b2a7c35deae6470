//! Between the tensors of a fused attention and the slices of its kernel.

use attention_kernels::{AttentionOutputs, Dropout};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_fused_layers::harness::kernel::Gradient;
use cpu_kernels::Buffer;

use crate::ops::deferred_pairs::DeferredPairs;
use crate::ops::fused::Attended;
use crate::ops::host::{AttentionElement, CpuBackend, elements, rows, whole, zeros};

/// The inputs of the kernel's backward pass beside those of its forward pass.
pub(in crate::ops) fn outputs<'a, B: CpuBackend, E: AttentionElement, I>(
    saved: &'a Attended<B, I>,
    gradient: &'a FloatTensor<B>,
) -> AttentionOutputs<'a, E> {
    AttentionOutputs {
        context: rows::<B, E>(&saved.context),
        lse: elements::<B, f64>(&saved.statistics).as_chunks().0,
        weights: saved.weights.as_ref().map(elements::<B, E>),
        context_gradient: rows::<B, E>(gradient),
    }
}

/// Zeros that a kernel adds the gradients of these inputs to, where they are wanted.
pub(in crate::ops) fn gradient_buffers<B: CpuBackend, E: AttentionElement, const N: usize>(
    inputs: [&FloatTensor<B>; N],
    wanted: [bool; N],
) -> [Option<Buffer<E>>; N] {
    std::array::from_fn(|n| wanted[n].then(|| zeros::<E>(&inputs[n].shape())))
}

/// The gradient of `input` that a kernel added to a buffer, in `dtype`; none without a buffer.
pub(in crate::ops) fn gradient<B: CpuBackend, E: AttentionElement>(
    buffer: Option<Buffer<E>>,
    dtype: DType,
    input: &FloatTensor<B>,
) -> Gradient<B> {
    match buffer {
        Some(buffer) => whole::<B, E>(buffer, dtype, input),
        None => Gradient::Absent,
    }
}

/// The gradient of keys or values, which these pairs are deposited for; none without pairs.
pub(in crate::ops) fn pairs_gradient<B: CpuBackend>(
    pairs: Option<DeferredPairs<B>>,
) -> Gradient<B> {
    match pairs {
        Some(pairs) => Gradient::Deferred(Box::new(pairs)),
        None => Gradient::Absent,
    }
}

/// Dropout with a seed that was drawn from the backend's generator: four elements in `[0, 1)`.
pub(in crate::ops) fn dropout<B: CpuBackend>(
    probability: f64,
    seed: &Option<FloatTensor<B>>,
) -> Option<Dropout> {
    let draw = elements::<B, f32>(seed.as_ref()?);
    // Sixteen bits of each: an `f32` below 1 has at least as many.
    let bits = |seed: u64, element: &f32| seed << 16 | (f64::from(*element) * 65536.0) as u64;
    Some(Dropout::new(probability, draw.iter().fold(0, bits)))
}
