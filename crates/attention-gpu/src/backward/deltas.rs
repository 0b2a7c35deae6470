//! Numbers of each query that the backward passes read: its statistics, and `D = dC . C`, flash-attention's delta.

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::host::inputs::AttentionInputs;
use crate::host::tensors::{cube_count, element_type};
use crate::tile::math::{corrected, error_of_sum};

/// The number of rows of a cube, and of units for each row.
const ROWS: usize = 8;
const LANES: usize = 32;

impl AttentionInputs {
    /// The statistics of each query, followed by its `D`, `[batch, heads, queries, 3]`.
    pub(crate) fn statistics_with_deltas(
        &self,
        statistics: &CubeTensor,
        context: CubeTensor,
        gradient: &CubeTensor,
    ) -> CubeTensor {
        let [batch, heads, queries, size] = context.shape().dims();
        let rows = batch * heads * queries;
        let result = self.empty([batch, heads, queries, 3]);
        let client = context.client.clone();
        deltas::launch(
            &client,
            cube_count(&client, rows.div_ceil(ROWS)),
            CubeDim::new_1d((ROWS * LANES) as u32),
            self.address_type(&[&context]),
            context.into_buffer_arg(),
            gradient.clone().into_buffer_arg(),
            statistics.clone().into_buffer_arg(),
            result.clone().into_buffer_arg(),
            rows,
            size,
            element_type(gradient.dtype()),
        );
        result
    }
}

/// Dot products of rows, including the sum of their rounding errors: an error of a row's delta would not cancel in the
/// sum of the gradients of its scores.
#[cube(launch, address_type = "dynamic")]
fn deltas<F: Float>(
    context: &[F],
    gradient: &[F],
    statistics: &[f32],
    to: &mut [f32],
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
        to[3 * row] = statistics[2 * row];
        to[3 * row + 1] = statistics[2 * row + 1];
        to[3 * row + 2] = corrected(sum, error);
    }
}
