//! Backward: what the kernels of queries and of keys have in common.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::gradient::{NotedLaunch, Source};
use crate::launch::Problem;
use crate::math::{corrected, error_of_sum};
use crate::tensors::{contiguous, cube_count, element_type, empty};

/// A backward pass.
pub(crate) struct Backward<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) source: Source,
    /// Of the context, or of the scores; contiguous.
    pub(crate) gradient: &'a CubeTensor,
    pub(crate) statistics: Option<&'a CubeTensor>,
    pub(crate) totals: Option<CubeTensor>,
}

impl Backward<'_> {
    pub(crate) fn noted(&self) -> NotedLaunch {
        let statistics = self.statistics.cloned();
        NotedLaunch::new(
            statistics.map(CubeTensor::into_tensor_arg).into(),
            self.totals.clone().map(CubeTensor::into_tensor_arg).into(),
        )
    }

    fn gradients(&self) -> ProblemGradients {
        let (queries, weight) = self.to_queries();
        ProblemGradients {
            queries,
            weight,
            keys: self.to_keys(),
        }
    }
}

/// The gradients of a call, in f32.
pub struct ProblemGradients {
    pub queries: CubeTensor,
    pub keys: KeyGradients,
    /// Of additive scores, `[size]`.
    pub weight: Option<CubeTensor>,
}

/// The gradients of the keys and of what comes with them, in f32.
pub struct KeyGradients {
    pub keys: CubeTensor,
    /// From the gradient of a context.
    pub values: Option<CubeTensor>,
    /// `[batch, heads, 1, keys]`, if there is a bias.
    pub bias: Option<CubeTensor>,
}

impl Problem {
    /// The gradients, from that of the context, the context and the statistics of [`forward`](Self::forward).
    pub fn backward(
        &self,
        context: CubeTensor,
        statistics: &CubeTensor,
        gradient: CubeTensor,
    ) -> ProblemGradients {
        let gradient = &contiguous(gradient);
        let backward = Backward {
            problem: self,
            source: Source::Context,
            gradient,
            statistics: Some(statistics),
            totals: Some(self.totals(&contiguous(context), gradient)),
        };
        backward.gradients()
    }

    /// The gradients of queries, keys and weight, from those of the scores.
    pub fn backward_of_scores(&self, gradient: CubeTensor) -> ProblemGradients {
        let backward = Backward {
            problem: self,
            source: Source::Given,
            gradient: &contiguous(gradient),
            statistics: None,
            totals: None,
        };
        backward.gradients()
    }

    /// Of each query `dC . C`, `[batch, heads, queries]`.
    fn totals(&self, context: &CubeTensor, gradient: &CubeTensor) -> CubeTensor {
        let [batch, heads, queries, size] = context.shape().dims();
        let rows = batch * heads * queries;
        let result = self.empty([batch, heads, queries]);
        let client = &context.client;
        totals::launch(
            client,
            cube_count(client, rows.div_ceil(ROWS)),
            CubeDim::new_1d((ROWS * LANES) as u32),
            self.address_type(&[context]),
            context.clone().into_buffer_arg(),
            gradient.clone().into_buffer_arg(),
            result.clone().into_buffer_arg(),
            rows,
            size,
            element_type(gradient.dtype()),
        );
        result
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

/// Of each part of the rows, every `parts`-th one, the sum, with its rounding errors. A unit has one column of a part.
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

/// Rows of a cube of [`totals`], and the units of each.
const ROWS: usize = 8;
const LANES: usize = 32;

/// Products of rows, whose rounding errors are added up too: an error of a row's total would not cancel in the sum of
/// the gradients of its scores.
#[cube(launch, address_type = "dynamic")]
fn totals<F: Float>(
    context: &[F],
    gradient: &[F],
    totals: &mut [f32],
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
        totals[row] = corrected(sum, error);
    }
}
