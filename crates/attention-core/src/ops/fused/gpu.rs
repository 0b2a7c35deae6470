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
pub(in crate::ops) trait GpuAttention:
    TrackedInputs<CubeBackend, 4, On<CubeBackend> = Self> + Sized
{
    /// The probability to drop a weight.
    fn dropout(&self) -> f64;

    /// The kernels' inputs.
    fn kernel_inputs(&self, dropout: Option<Dropout>) -> AttentionInputs;

    /// The gradient of the weight or bias, from that of the kernels.
    fn parameter_gradient(&self, gradient: CubeTensor) -> Gradient<CubeBackend>;
}

fn kernel_inputs<I: GpuAttention>(inputs: &I, seed: Option<CubeTensor>) -> AttentionInputs {
    let probability = inputs.dropout();
    inputs.kernel_inputs(seed.map(|seed| Dropout { probability, seed }))
}

/// The context, and what the backward pass needs.
pub(in crate::ops) fn forward<I: GpuAttention>(
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
pub(in crate::ops) fn backward<I: GpuAttention>(
    saved: Attended<CubeBackend, I>,
    gradient: CubeTensor,
    asked: Asked<4>,
) -> [Gradient<CubeBackend>; 4] {
    // Behind fusion the inputs are those from before the forward pass.
    let inputs = readable(saved.inputs);
    let outputs = AttentionOutputs {
        context: saved.context,
        statistics: saved.statistics,
    };
    let [queries, keys, values, parameter] = asked.wanted;
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
    [
        whole(gradients.queries),
        whole(gradients.keys),
        whole(gradients.values),
        gradients.parameter.map_or(Gradient::Absent, |gradient| {
            inputs.parameter_gradient(gradient)
        }),
    ]
}
