//! Backward: the entry points, and what the passes over queries and over keys share.

pub(crate) mod additive_gradient;
pub(crate) mod bias;
pub(crate) mod deltas;
pub(crate) mod keys;
pub(crate) mod queries;
pub(crate) mod relative_bias;
pub(crate) mod score_gradients;
pub(crate) mod sinks;

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::backward::score_gradients::{GradientOf, UpstreamLaunch};
use crate::host::choice;
use crate::host::inputs::{AdditiveScoreInputs, AttentionInputs, AttentionOutputs};
use crate::host::tensors::{cast, contiguous, cube_count, empty};
use crate::tile::math::{corrected, error_of_sum};
use crate::tile::tiling::Tiling;

/// The gradients requested from a backward pass. The pass over queries computes the gradients of queries and of an
/// additive score's weight, the pass over keys the gradients of keys, values and a bias of keys. A bias of pairs or of
/// distances has a pass of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether to compute the gradient of the queries.
    pub queries: bool,
    /// Whether to compute the gradient of the keys.
    pub keys: bool,
    /// Whether to compute the gradient of the values, if there are any.
    pub values: bool,
    /// Whether to compute the gradient of the score's weight, if there is one.
    pub weight: bool,
    /// Whether to compute the gradient of the bias, if there is one.
    pub bias: bool,
    /// Whether to compute the gradient of the relative bias, if there is one.
    pub relative_bias: bool,
    /// Whether to compute the gradient of the sinks, if there are any.
    pub sinks: bool,
}

impl Wanted {
    /// No gradients.
    pub const NONE: Self = Self {
        queries: false,
        keys: false,
        values: false,
        weight: false,
        bias: false,
        relative_bias: false,
        sinks: false,
    };
}

/// Gradients, in f32; `None` if not requested, or if the inputs have no such tensor.
#[derive(Clone, Debug, Default)]
pub struct AttentionGradients {
    /// The gradient of the queries.
    pub queries: Option<CubeTensor>,
    /// The gradient of the keys.
    pub keys: Option<CubeTensor>,
    /// The gradient of the values.
    pub values: Option<CubeTensor>,
    /// The gradient of the weight, `[size]`.
    pub weight: Option<CubeTensor>,
    /// The gradient of the bias, with its shape.
    pub bias: Option<CubeTensor>,
    /// The gradient of the relative bias, with its shape.
    pub relative_bias: Option<CubeTensor>,
    /// The gradient of the sinks, `[heads]`.
    pub sinks: Option<CubeTensor>,
}

impl AttentionInputs {
    /// The gradients, from the outputs of [`forward`](Self::forward) and the gradient of the context, which has the
    /// type of the queries.
    ///
    /// # Panics
    /// If shapes or types do not fit together, a size is 0, a tensor is not contiguous, or the mask is for another
    /// number of queries.
    pub fn backward(
        &self,
        outputs: &AttentionOutputs,
        gradient: CubeTensor,
        wanted: Wanted,
    ) -> AttentionGradients {
        let backward = self.backward_pass(outputs, gradient, wanted);
        backward.in_fastest_tiles().gradients()
    }

    /// The backward pass in the inputs' own tiling.
    fn backward_pass(
        &self,
        outputs: &AttentionOutputs,
        gradient: CubeTensor,
        wanted: Wanted,
    ) -> Backward {
        self.check();
        let gradient = contiguous(gradient);
        let context = contiguous(cast(outputs.context.clone(), gradient.dtype()));
        Backward {
            inputs: self.clone(),
            of: GradientOf::Context,
            statistics: Some(self.statistics_with_deltas(&outputs.statistics, context, &gradient)),
            gradient,
            wanted,
        }
    }
}

impl AdditiveScoreInputs {
    /// The gradients of queries, keys and weight, from the gradient of the scores, which has the type of the queries.
    ///
    /// # Panics
    /// If shapes or types do not fit together, a size is 0, a tensor is not contiguous, or the mask is for another
    /// number of queries.
    pub fn backward(&self, gradient: CubeTensor, wanted: Wanted) -> AttentionGradients {
        let inputs = self.without_values();
        inputs.check();
        let backward = Backward {
            inputs,
            of: GradientOf::Scores,
            statistics: None,
            gradient: contiguous(gradient),
            wanted,
        };
        backward.in_fastest_tiles().gradients()
    }
}

/// A backward pass.
#[derive(Clone)]
pub(crate) struct Backward {
    pub(crate) inputs: AttentionInputs,
    pub(crate) of: GradientOf,
    /// The gradient of the context or of the scores; contiguous.
    pub(crate) gradient: CubeTensor,
    /// The statistics of each query, and its `D`.
    pub(crate) statistics: Option<CubeTensor>,
    pub(crate) wanted: Wanted,
}

impl Backward {
    fn in_fastest_tiles(self) -> Self {
        let tried = self.clone();
        let tiling = choice::tiling(
            &self.inputs,
            || format!("backward of {:?}, {:?}", self.of, self.wanted),
            move |tiling| drop(tried.clone().in_tiles_of(tiling).gradients()),
        );
        self.in_tiles_of(tiling)
    }

    pub(crate) fn in_tiles_of(self, tiling: Tiling) -> Self {
        Self {
            inputs: self.inputs.in_tiles_of(tiling),
            ..self
        }
    }

    /// The argument of a kernel.
    pub(crate) fn upstream<F: Float>(&self) -> UpstreamLaunch<F> {
        let statistics = self.statistics.clone();
        UpstreamLaunch::new(
            self.gradient.clone().into_buffer_arg(),
            statistics.map(CubeTensor::into_tensor_arg).into(),
            self.of,
        )
    }

    /// The requested gradients, in the inputs' tiling.
    pub(crate) fn gradients(&self) -> AttentionGradients {
        let mut gradients = AttentionGradients::default();
        self.pass_over_queries(&mut gradients);
        self.pass_over_keys(&mut gradients);
        self.pass_over_bias(&mut gradients);
        self.pass_over_relative_bias(&mut gradients);
        self.gradient_of_sinks(&mut gradients);
        gradients
    }
}

/// The sum of the rows of `[rows, size]`, `[size]`.
pub(crate) fn sum_of_rows(mut rows: CubeTensor) -> CubeTensor {
    const AT_ONCE: usize = 256;
    loop {
        let [count, size] = rows.shape().dims();
        if count == 1 {
            return CubeBackend::float_reshape(rows, [size].into());
        }
        let parts = count.div_ceil(AT_ONCE);
        let sums = empty(&rows, [parts, size], rows.dtype());
        let client = rows.client.clone();
        let units = CubeDim::new_1d(64);
        sum_of_parts::launch(
            &client,
            cube_count(&client, (parts * size).div_ceil(64)),
            units,
            rows.required_address_type(),
            rows.into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            count,
            parts,
            size,
        );
        rows = sums;
    }
}

/// Sums of parts of the rows, every `parts`-th one, including their rounding errors. A unit has one column of a part.
#[cube(launch, address_type = "dynamic")]
fn sum_of_parts(rows: &[f32], sums: &mut [f32], count: usize, parts: usize, size: usize) {
    if ABSOLUTE_POS >= parts * size {
        terminate!();
    }
    let column = ABSOLUTE_POS % size;
    let mut row = ABSOLUTE_POS / size;
    let mut sum = 0.0f32;
    let mut error = 0.0f32;
    while row < count {
        let x = rows[row * size + column];
        let next = sum + x;
        error += error_of_sum(sum, x, next);
        sum = next;
        row += parts;
    }
    sums[ABSOLUTE_POS] = corrected(sum, error);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tensors::{elements, tensor};
    use crate::{DeviceMask, Score, ScoreModifiers};

    #[test]
    fn gradients_that_nobody_wants_are_left_out() {
        let additive = Score::Additive {
            weight: tensor([5], 0.2),
        };
        let of_keys = Some(tensor([1, 2, 1, 7], 0.1));
        let of_pairs = Some(tensor([1, 1, 3, 7], 0.1));
        for (score, bias) in [
            (Score::DotProduct { scale: 0.5 }, of_keys),
            (additive, of_pairs),
        ] {
            let inputs = AttentionInputs {
                queries: tensor([1, 2, 3, 5], 0.3),
                keys: tensor([1, 1, 7, 5], 0.4),
                values: tensor([1, 1, 7, 2], 0.5),
                score,
                modifiers: ScoreModifiers {
                    soft_cap: Some(2.0),
                    bias,
                    relative_bias: Some(tensor([1, 2, 1, 9], 0.7)),
                    sinks: Some(tensor([2], 0.8)),
                },
                mask: DeviceMask::new(3),
                dropout: None,
            };
            let outputs = inputs.forward();
            let gradients = |which: [bool; 7]| {
                let [queries, keys, values, weight, bias, relative_bias, sinks] = which;
                let wanted = Wanted {
                    queries,
                    keys,
                    values,
                    weight,
                    bias,
                    relative_bias,
                    sinks,
                };
                // In one tiling, whose sums are the same to the bit: a device may choose another for other gradients.
                let gradient = tensor([1, 2, 3, 2], 0.6);
                let gradients = inputs.backward_pass(&outputs, gradient, wanted).gradients();
                [
                    gradients.queries,
                    gradients.keys,
                    gradients.values,
                    gradients.weight,
                    gradients.bias,
                    gradients.relative_bias,
                    gradients.sinks,
                ]
                .map(|gradient| gradient.map(elements))
            };
            let all = gradients([true; 7]);
            let has_weight = matches!(inputs.score, Score::Additive { .. });
            for (n, gradient) in all.iter().enumerate() {
                assert_eq!(gradient.is_some(), n != 3 || has_weight, "{n}");
                let mut elements = gradient.iter().flatten();
                assert!(gradient.is_none() || elements.any(|x| *x != 0.0), "{n}");
            }
            for only in 0..7 {
                let found = gradients(std::array::from_fn(|n| n == only));
                for (n, (found, expected)) in found.into_iter().zip(all.clone()).enumerate() {
                    assert_eq!(found, expected.filter(|_| n == only), "{only}, {n}");
                }
            }
        }
    }
}
