//! The fused attentions by the kernels of a GPU.

use attention_gpu::{
    self as kernels, AttentionGradients, AttentionInputs, AttentionOutputs, Dropout, Wanted, cast,
};
use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::kernel::{Asked, Gradient};
use burn_fused_layers::harness::tracked::TrackedInputs;

use crate::ops::dropout::draw_seed;
use crate::ops::fused::Attended;
use crate::ops::gpu::readable;
use crate::ops::score_modifiers::ScoreModifiers;

/// A gradient that the kernels computed, and its input; none if it was not wanted or there is no such input.
pub(in crate::ops) type GradientOf<'a> = (Option<CubeTensor>, Option<&'a CubeTensor>);

/// The inputs of an attention, as the kernels take them.
pub(in crate::ops) trait GpuAttention<const N: usize>:
    TrackedInputs<CubeBackend, N, On<CubeBackend> = Self> + Sized
{
    /// The probability to drop a weight.
    fn dropout(&self) -> f64;

    /// The kernels' inputs.
    fn kernel_inputs(&self, dropout: Option<Dropout>) -> AttentionInputs;

    /// Which gradients the kernels are asked for.
    fn wanted(wanted: [bool; N]) -> Wanted;

    /// The gradients in the inputs' order, each with the input whose type it has.
    fn in_order(&self, gradients: AttentionGradients) -> [GradientOf<'_>; N];
}

fn kernel_inputs<I: GpuAttention<N>, const N: usize>(
    inputs: &I,
    seed: Option<CubeTensor>,
) -> AttentionInputs {
    let probability = inputs.dropout();
    inputs.kernel_inputs(seed.map(|seed| Dropout { probability, seed }))
}

/// The changes to the scores, as the kernels take it.
pub(in crate::ops) fn modifiers(
    modifiers: &ScoreModifiers<CubeBackend>,
) -> kernels::ScoreModifiers {
    let ScoreModifiers {
        bias,
        relative_bias,
        sinks,
        soft_cap,
    } = modifiers;
    let [bias, relative_bias, sinks] = [bias, relative_bias, sinks].map(|tensor| {
        let tensor = tensor.as_option().cloned();
        tensor.map(|tensor| cast(tensor, DType::F32))
    });
    kernels::ScoreModifiers {
        soft_cap: *soft_cap,
        bias,
        relative_bias,
        sinks,
    }
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
    let wanted = I::wanted(asked.wanted);
    let gradients = kernel_inputs(&inputs, saved.seed).backward(&outputs, gradient, wanted);
    inputs
        .in_order(gradients)
        .map(|(gradient, input)| match gradient.zip(input) {
            Some((gradient, input)) => Gradient::Whole(cast(gradient, input.dtype())),
            None => Gradient::Absent,
        })
}
