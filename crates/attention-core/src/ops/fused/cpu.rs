//! Between the tensors of a fused attention and the slices of its kernel.

use attention_kernels::{self as kernels, AttentionOutputs, Dropout, ModifierGradients};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;
use burn_fused_layers::harness::kernel::Gradient;
use burn_fused_layers::harness::seed::seed_of_uniform;
use cpu_kernels::Buffer;

use crate::ops::deferred_pairs::DeferredPairs;
use crate::ops::fused::Attended;
use crate::ops::host::{AttentionElement, CpuBackend, elements, rows, whole, zeros};
use crate::ops::score_modifiers::ScoreModifiers;

/// The inputs that the kernel's backward pass reads beside the forward inputs.
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

/// The changes to the scores, as the kernel takes it.
pub(in crate::ops) fn modifiers<'a, B: CpuBackend, E: AttentionElement>(
    modifiers: &'a ScoreModifiers<B>,
) -> kernels::ScoreModifiers<'a, E> {
    kernels::ScoreModifiers {
        soft_cap: modifiers.soft_cap.map(E::from_f64),
        bias: modifiers.bias.as_option().map(rows::<B, E>),
        relative_bias: modifiers.relative_bias.as_option().map(rows::<B, E>),
        sinks: modifiers.sinks.as_option().map(elements::<B, E>),
    }
}

/// Zeros that a kernel adds the gradients of bias, relative bias and sinks to, where they are wanted.
pub(in crate::ops) struct ModifierBuffers<'a, B: CpuBackend, E>(
    [Option<(Buffer<E>, &'a FloatTensor<B>)>; 3],
);

impl<'a, B: CpuBackend, E: AttentionElement> ModifierBuffers<'a, B, E> {
    pub(in crate::ops) fn new(modifiers: &'a ScoreModifiers<B>, wanted: [bool; 3]) -> Self {
        let ScoreModifiers {
            bias,
            relative_bias,
            sinks,
            ..
        } = modifiers;
        let tensors = [bias, relative_bias, sinks].map(|tensor| tensor.as_option());
        Self(std::array::from_fn(|n| {
            let tensor = tensors[n].filter(|_| wanted[n])?;
            Some((zeros::<E>(&tensor.shape()), tensor))
        }))
    }

    /// The buffers.
    pub(in crate::ops) fn gradients(&mut self) -> ModifierGradients<'_, E> {
        let [bias, relative_bias, sinks] = self.0.each_mut().map(|buffer| {
            let (buffer, _) = buffer.as_mut()?;
            Some(&mut buffer[..])
        });
        ModifierGradients {
            bias,
            relative_bias,
            sinks,
        }
    }

    /// The gradients, each of its tensor's type.
    pub(in crate::ops) fn into_gradients(self) -> [Gradient<B>; 3] {
        self.0.map(|buffer| match buffer {
            Some((buffer, tensor)) => whole::<B, E>(buffer, tensor.dtype(), tensor),
            None => Gradient::Absent,
        })
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
    let drawn = elements::<B, f32>(seed.as_ref()?);
    let seed = seed_of_uniform(drawn.iter().copied());
    Some(Dropout::new(probability, seed))
}
