//! Between the tensors of a fused attention and the slices of its kernel.

use attention_kernels::{AttentionOutputs, Dropout};
use burn::backend::tensor::FloatTensor;

use crate::ops::fused::Attended;
use crate::ops::host::{AttentionElement, CpuBackend, elements, rows};

/// What the kernel's backward pass reads, beside its inputs.
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
