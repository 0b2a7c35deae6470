//! Backward: what the kernels of queries and of keys have in common.

use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use super::gradient::{NotedLaunch, Source};
use super::launch::{Problem, contiguous, cube_count, element_type};
use super::pairs::Form;

/// A backward pass.
pub(super) struct Backward<'a> {
    pub(super) problem: &'a Problem,
    /// Of the context, or of the scores; contiguous.
    pub(super) gradient: &'a CubeTensor,
    pub(super) statistics: Option<&'a CubeTensor>,
    pub(super) totals: Option<CubeTensor>,
}

impl Backward<'_> {
    pub(super) fn noted(&self) -> NotedLaunch {
        let statistics = self.statistics.cloned();
        NotedLaunch::new(
            statistics.map(CubeTensor::into_tensor_arg).into(),
            self.totals.clone().map(CubeTensor::into_tensor_arg).into(),
        )
    }
}

/// The gradients of a call, in f32.
pub(in crate::ops) struct ProblemGradients {
    pub(in crate::ops) queries: CubeTensor,
    pub(in crate::ops) keys: CubeTensor,
    pub(in crate::ops) values: CubeTensor,
    /// Of additive scores, `[size]`; else without a meaning.
    pub(in crate::ops) weight: CubeTensor,
    /// `[batch, heads, 1, keys]`
    pub(in crate::ops) bias: Option<CubeTensor>,
}

impl Problem {
    /// The gradients, from that of the context, the context and the statistics of [`forward`](Self::forward).
    pub(in crate::ops) fn backward(
        &self,
        form: Form,
        context: &CubeTensor,
        statistics: &CubeTensor,
        gradient: CubeTensor,
    ) -> ProblemGradients {
        let gradient = &contiguous(gradient);
        let backward = Backward {
            problem: self,
            gradient,
            statistics: Some(statistics),
            totals: Some(self.totals(context, gradient)),
        };
        self.gradients(&backward, Source::Context, form)
    }

    /// The gradients of queries, keys and weight, from those of additive scores.
    pub(in crate::ops) fn backward_of_scores(&self, gradient: CubeTensor) -> ProblemGradients {
        let gradient = &contiguous(gradient);
        let backward = Backward {
            problem: self,
            gradient,
            statistics: None,
            totals: None,
        };
        self.gradients(&backward, Source::Given, Form::Additive)
    }

    fn gradients(&self, backward: &Backward, source: Source, form: Form) -> ProblemGradients {
        let [queries, of_weight] = backward.to_queries(source, form);
        let [keys, values, bias] = backward.to_keys(source, form);
        let [_, size] = of_weight.shape().dims();
        let weight = CubeBackend::float_sum_dim(of_weight, 0);
        ProblemGradients {
            queries,
            keys,
            values,
            weight: CubeBackend::float_reshape(weight, [size].into()),
            bias: self.bias.as_ref().map(|_| bias),
        }
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
        totals[row] = sum + error;
    }
}

/// What `sum`, `a + b` rounded, misses (Knuth, TwoSum).
#[cube]
fn error_of_sum(a: f32, b: f32, sum: f32) -> f32 {
    let part = sum - a;
    (a - (sum - part)) + (b - part)
}
