//! The fused attentions by the kernels of a GPU.

use attention_gpu::{Problem, ProblemGradients, cast};
use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use crate::ops::dropout::draw_seed;
use crate::ops::gpu::readable;
use crate::ops::kernel::{Asked, Attended, Gradient};
use crate::ops::tracked::TrackedInputs;

/// The inputs of an attention, as the kernels take them.
pub(in crate::ops) trait GpuAttention:
    TrackedInputs<CubeBackend, 4, On<CubeBackend> = Self> + Sized
{
    /// The probability to drop a weight.
    fn dropout(&self) -> f64;

    /// What the kernels read; `seed` is what dropout draws from.
    fn problem(&self, seed: Option<CubeTensor>) -> Problem;

    /// The gradient of the weight or bias, from that of the kernels.
    fn last_gradient(&self, gradient: CubeTensor) -> Gradient<CubeBackend>;
}

/// The context, and what the backward pass needs.
pub(in crate::ops) fn forward<I: GpuAttention>(
    inputs: I,
) -> (CubeTensor, Attended<CubeBackend, I>) {
    let inputs = readable(inputs);
    let seed = draw_seed::<CubeBackend>(inputs.dropout(), inputs.first());
    let [context, statistics] = inputs.problem(seed.clone()).forward();
    let context = cast(context, inputs.first().dtype());
    let saved = Attended {
        inputs,
        context: context.clone(),
        statistics,
        weights: None,
        seed,
    };
    (context, saved)
}

/// The gradients of the inputs.
pub(in crate::ops) fn backward<I: GpuAttention>(
    saved: Attended<CubeBackend, I>,
    gradient: CubeTensor,
    _asked: Asked<4>,
) -> [Gradient<CubeBackend>; 4] {
    // Behind fusion the inputs are those from before the forward pass.
    let inputs = readable(saved.inputs);
    let problem = inputs.problem(saved.seed);
    let gradients = problem.backward(saved.context, &saved.statistics, gradient);
    let ProblemGradients {
        queries,
        keys,
        weight,
    } = gradients;
    let dtype = inputs.first().dtype();
    let whole = |gradient| Gradient::Whole(cast(gradient, dtype));
    [
        whole(queries),
        whole(keys.keys),
        keys.values.map_or(Gradient::Absent, whole),
        // A form has one of the two.
        weight
            .or(keys.bias)
            .map_or(Gradient::Absent, |gradient| inputs.last_gradient(gradient)),
    ]
}
