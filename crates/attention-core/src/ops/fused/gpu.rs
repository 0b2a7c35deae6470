//! The fused attentions by the kernels of a GPU.

use attention_gpu::{AttentionInputs, AttentionOutputs, Dropout, Wanted, cast};
use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use burn_fused_layers::harness::tracked::TrackedInputs;

use crate::ops::dropout::draw_seed;
use crate::ops::fused::Attended;
use crate::ops::gpu::readable;

/// The inputs of an attention, as the kernels take them.
pub(in crate::ops) trait GpuAttention<const N: usize>:
    TrackedInputs<CubeBackend, N, On<CubeBackend> = Self> + Sized
{
    /// The probability to drop a weight.
    fn dropout(&self) -> f64;

    /// The kernels' inputs.
    fn kernel_inputs(&self, dropout: Option<Dropout>) -> AttentionInputs;

    /// The gradients of what comes after queries, keys and values, from that of the weight or bias.
    fn parameter_gradients(
        &self,
        gradient: Option<CubeTensor>,
    ) -> impl IntoIterator<Item = Gradient<CubeBackend>>;
}

fn kernel_inputs<I: GpuAttention<N>, const N: usize>(
    inputs: &I,
    seed: Option<CubeTensor>,
) -> AttentionInputs {
    let probability = inputs.dropout();
    inputs.kernel_inputs(seed.map(|seed| Dropout { probability, seed }))
}

/// The context, and what the backward pass needs.
pub(in crate::ops) fn forward<I: GpuAttention<N>, const N: usize>(
    inputs: I,
) -> (CubeTensor, Attended<CubeBackend, I>) {
    let inputs = readable(inputs);
    let seed = draw_seed::<CubeBackend>(inputs.dropout(), inputs.first());
    let outputs = kernel_inputs(&inputs, seed.clone()).forward();
    let context = cast(outputs.context, inputs.first().dtype());
    let saved = Attended {
        inputs,
        context: context.clone(),
        statistics: outputs.statistics,
        weights: None,
        seed,
    };
    (context, saved)
}

/// The gradients of the inputs.
pub(in crate::ops) fn backward<I: GpuAttention<N>, const N: usize>(
    saved: Attended<CubeBackend, I>,
    gradient: CubeTensor,
    asked: Asked<N>,
) -> [Gradient<CubeBackend>; N] {
    // Behind fusion the inputs are those from before the forward pass.
    let inputs = readable(saved.inputs);
    let outputs = AttentionOutputs {
        context: saved.context,
        statistics: saved.statistics,
    };
    let [queries, keys, values, parameter] = std::array::from_fn(|n| asked.wanted[n]);
    let wanted = Wanted {
        queries,
        keys,
        values,
        parameter,
    };
    let gradients = kernel_inputs(&inputs, saved.seed).backward(&outputs, gradient, wanted);
    let dtype = inputs.first().dtype();
    let whole = |gradient: Option<CubeTensor>| {
        gradient.map_or(Gradient::Absent, |gradient| {
            Gradient::Whole(cast(gradient, dtype))
        })
    };
    let all = [gradients.queries, gradients.keys, gradients.values].map(whole);
    let mut all = all
        .into_iter()
        .chain(inputs.parameter_gradients(gradients.parameter));
    std::array::from_fn(|_| all.next().unwrap_or(Gradient::Absent))
}
