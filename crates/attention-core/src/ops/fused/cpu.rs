//! Between the tensors of a fused attention and the slices of its kernel.

use attention_kernels::{AttentionOutputs, Dropout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;

use crate::ops::backends::cpu::{CpuBackend, CpuReal, elements, rows};
use crate::ops::kernels::Attended;

/// The shapes of the context and of the log-sum-exp.
pub(in crate::ops) fn output_shapes<B: Backend>(
    queries: &FloatTensor<B>,
    values: &FloatTensor<B>,
) -> [Shape; 2] {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, _, value_size] = values.shape().dims();
    [
        [batch, heads, num_queries, value_size].into(),
        [batch, heads, num_queries].into(),
    ]
}

/// The shape of what is known of each pair of query and key.
pub(in crate::ops) fn pairs_shape<B: Backend>(
    queries: &FloatTensor<B>,
    keys: &FloatTensor<B>,
) -> Shape {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    [batch, heads, num_queries, num_keys].into()
}

/// What the kernel's backward pass reads, beside its inputs.
pub(in crate::ops) fn outputs<'a, B: CpuBackend, E: CpuReal, I>(
    saved: &'a Attended<B, I>,
    gradient: &'a FloatTensor<B>,
) -> AttentionOutputs<'a, E> {
    AttentionOutputs {
        context: rows::<B, E>(&saved.context),
        lse: elements::<B, f64>(&saved.lse),
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
