//! The fused attentions by the kernels of a GPU.

use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use crate::ops::backends::TrackedInputs;
use crate::ops::deferred_gradients::Deferral;
use crate::ops::dropout::draw_seed;
use crate::ops::gpu::{Problem, ProblemGradients, cast, readable};
use crate::ops::kernels::{Attended, Gradient};

/// The inputs of an attention, as the kernels take them.
pub(in crate::ops) trait GpuAttention:
    TrackedInputs<CubeBackend, 4, On<CubeBackend> = Self> + Sized
{
    /// The probability to drop a weight.
    fn dropout(&self) -> f64;

    /// What the kernels read; `seed` is what dropout draws from.
    fn problem(&self, seed: Option<CubeTensor>) -> Problem;

    /// The gradient of the tensor that comes after queries, keys and values, from those of the kernels.
    fn last_gradient(&self, gradients: ProblemGradients) -> Gradient<CubeBackend>;
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
        seed,
    };
    (context, saved)
}

/// The gradients of the inputs.
pub(in crate::ops) fn backward<I: GpuAttention>(
    saved: Attended<CubeBackend, I>,
    gradient: CubeTensor,
    _deferral: Deferral,
) -> [Gradient<CubeBackend>; 4] {
    // Behind fusion the inputs are those from before the forward pass.
    let inputs = readable(saved.inputs);
    let problem = inputs.problem(saved.seed);
    let mut gradients = problem.backward(saved.context, &saved.statistics, gradient);
    let dtype = inputs.first().dtype();
    let whole = |gradient: &CubeTensor| Gradient::Whole(cast(gradient.clone(), dtype));
    let of_values = gradients.keys.values.take();
    [
        whole(&gradients.queries),
        whole(&gradients.keys.keys),
        of_values.as_ref().map_or(Gradient::Absent, whole),
        inputs.last_gradient(gradients),
    ]
}
