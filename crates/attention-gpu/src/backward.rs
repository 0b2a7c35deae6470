//! Backward: the entry points, and what the passes over queries and over keys have in common.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::inputs::{AdditiveScoreInputs, AttentionInputs, AttentionOutputs};
use crate::math::{corrected, error_of_sum};
use crate::score_gradients::{GradientOf, UpstreamLaunch};
use crate::tensors::{cast, contiguous, cube_count, element_type, empty};

/// Gradients that a backward pass is asked for. The pass over queries runs for those of the queries and of an additive
/// score's weight, the pass over keys for those of keys, values and a dot product's bias.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Whether that of the queries.
    pub queries: bool,
    /// Whether that of the keys.
    pub keys: bool,
    /// Whether that of the values, if there are any.
    pub values: bool,
    /// Whether that of the score's weight or bias, if there is one.
    pub parameter: bool,
}

/// Gradients, in f32; none where it was not wanted, or the inputs have no such tensor.
#[derive(Clone, Debug, Default)]
pub struct AttentionGradients {
    /// The queries'.
    pub queries: Option<CubeTensor>,
    /// The keys'.
    pub keys: Option<CubeTensor>,
    /// The values'.
    pub values: Option<CubeTensor>,
    /// The weight's, `[size]`, or the bias's, `[batch, heads, 1, keys]`.
    pub parameter: Option<CubeTensor>,
}

impl AttentionInputs {
    /// The gradients, from the outputs of [`forward`](Self::forward) and the gradient of the context in the queries'
    /// type.
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
        self.check();
        let gradient = contiguous(gradient);
        let context = contiguous(cast(outputs.context.clone(), gradient.dtype()));
        let backward = Backward {
            inputs: self,
            of: GradientOf::Context,
            statistics: Some(outputs.statistics.clone()),
            deltas: Some(self.deltas(context, &gradient)),
            gradient,
            wanted,
        };
        backward.gradients()
    }

    /// `D = dC . C` of each query, `[batch, heads, queries]`.
    fn deltas(&self, context: CubeTensor, gradient: &CubeTensor) -> CubeTensor {
        let [batch, heads, queries, size] = context.shape().dims();
        let rows = batch * heads * queries;
        let result = self.empty([batch, heads, queries]);
        let client = context.client.clone();
        deltas::launch(
            &client,
            cube_count(&client, rows.div_ceil(ROWS)),
            CubeDim::new_1d((ROWS * LANES) as u32),
            self.address_type(&[&context]),
            context.into_buffer_arg(),
            gradient.clone().into_buffer_arg(),
            result.clone().into_buffer_arg(),
            rows,
            size,
            element_type(gradient.dtype()),
        );
        result
    }
}

impl AdditiveScoreInputs {
    /// The gradients of queries, keys and weight, from that of the scores in the queries' type.
    ///
    /// # Panics
    /// If shapes or types do not fit together, a size is 0, a tensor is not contiguous, or the mask is for another
    /// number of queries.
    pub fn backward(&self, gradient: CubeTensor, wanted: Wanted) -> AttentionGradients {
        let inputs = self.without_values();
        inputs.check();
        let backward = Backward {
            inputs: &inputs,
            of: GradientOf::Scores,
            statistics: None,
            deltas: None,
            gradient: contiguous(gradient),
            wanted,
        };
        backward.gradients()
    }
}

/// A backward pass.
pub(crate) struct Backward<'a> {
    pub(crate) inputs: &'a AttentionInputs,
    pub(crate) of: GradientOf,
    /// Gradient of the context or of the scores; contiguous.
    pub(crate) gradient: CubeTensor,
    statistics: Option<CubeTensor>,
    deltas: Option<CubeTensor>,
    pub(crate) wanted: Wanted,
}

impl Backward<'_> {
    /// The argument of a kernel.
    pub(crate) fn upstream<F: Float>(&self) -> UpstreamLaunch<F> {
        let tensor = |tensor: &Option<CubeTensor>| tensor.clone().map(CubeTensor::into_tensor_arg);
        UpstreamLaunch::new(
            self.gradient.clone().into_buffer_arg(),
            tensor(&self.statistics).into(),
            tensor(&self.deltas).into(),
            self.of,
        )
    }

    fn gradients(&self) -> AttentionGradients {
        let mut gradients = AttentionGradients::default();
        self.pass_over_queries(&mut gradients);
        self.pass_over_keys(&mut gradients);
        gradients
    }
}

/// Sum of the rows of `[rows, size]`, `[size]`.
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

/// Sums of parts of the rows, every `parts`-th one, with their rounding errors. A unit has one column of a part.
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

/// Rows of a cube of [`deltas`], and the units of each.
const ROWS: usize = 8;
const LANES: usize = 32;

/// Dot products of rows, whose rounding errors are added up too: an error of a row's delta would not cancel in the sum
/// of the gradients of its scores.
#[cube(launch, address_type = "dynamic")]
fn deltas<F: Float>(
    context: &[F],
    gradient: &[F],
    deltas: &mut [f32],
    rows: usize,
    size: usize,
    #[define(F)] _dtype: ElemType,
) {
    let unit = UNIT_POS as usize;
    let row = CUBE_POS * ROWS + unit / LANES;
    let lane = unit % LANES;
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(2 * ROWS * LANES));
    let mut sum = 0.0f32;
    let mut error = 0.0f32;
    if row < rows {
        let mut column = lane;
        while column < size {
            let a = f32::cast_from(context[row * size + column]);
            let b = f32::cast_from(gradient[row * size + column]);
            let product = a * b;
            error += fma(a, b, -product);
            let next = sum + product;
            error += error_of_sum(sum, product, next);
            sum = next;
            column += LANES;
        }
    }
    lanes[2 * unit] = sum;
    lanes[2 * unit + 1] = error;
    sync_cube();
    if lane == 0 && row < rows {
        for n in 1..LANES {
            let other = lanes[2 * (unit + n)];
            let next = sum + other;
            error += error_of_sum(sum, other, next) + lanes[2 * (unit + n) + 1];
            sum = next;
        }
        deltas[row] = corrected(sum, error);
    }
}

#[cfg(test)]
mod tests {
    use burn_backend::{DType, Shape};
    use cubecl::wgpu::WgpuDevice;

    use super::*;
    use crate::{DeviceMask, Score};

    fn tensor(shape: impl Into<Shape>, phase: f32) -> CubeTensor {
        let device = cubecl::Device::Wgpu(WgpuDevice::default());
        let client = device.client();
        let shape = shape.into();
        let elements: Vec<f32> = (0..shape.num_elements())
            .map(|n| (n as f32 + phase).sin())
            .collect();
        let buffer = client.create_from_slice(f32::as_bytes(&elements));
        CubeTensor::new_contiguous(client, device, shape, buffer, DType::F32)
    }

    fn elements(tensor: CubeTensor) -> Vec<f32> {
        let bytes = tensor.client.clone().read_one_unchecked(tensor.handle);
        f32::from_bytes(&bytes).to_vec()
    }

    #[test]
    fn gradients_that_nobody_wants_are_left_out() {
        let dot_product = Score::DotProduct {
            scale: 0.5,
            bias: Some(tensor([1, 2, 1, 7], 0.1)),
        };
        let additive = Score::Additive {
            weight: tensor([5], 0.2),
        };
        for score in [dot_product, additive] {
            let inputs = AttentionInputs {
                queries: tensor([1, 2, 3, 5], 0.3),
                keys: tensor([1, 1, 7, 5], 0.4),
                values: tensor([1, 1, 7, 2], 0.5),
                score,
                mask: DeviceMask::new(3),
                dropout: None,
            };
            let outputs = inputs.forward();
            let gradients = |which: [bool; 4]| {
                let [queries, keys, values, parameter] = which;
                let wanted = Wanted {
                    queries,
                    keys,
                    values,
                    parameter,
                };
                let gradients = inputs.backward(&outputs, tensor([1, 2, 3, 2], 0.6), wanted);
                [
                    gradients.queries,
                    gradients.keys,
                    gradients.values,
                    gradients.parameter,
                ]
                .map(|gradient| gradient.map(elements))
            };
            let all = gradients([true; 4]);
            assert!(all.iter().flatten().flatten().any(|x| *x != 0.0));
            for only in 0..4 {
                let found = gradients([0, 1, 2, 3].map(|n| n == only));
                for (n, (found, expected)) in found.into_iter().zip(all.clone()).enumerate() {
                    assert!(expected.is_some());
                    assert_eq!(found, expected.filter(|_| n == only), "{only}, {n}");
                }
            }
        }
    }
}
