//! Softmax over the keys that each query attends to. A cube processes one query.

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::host::mask::{DeviceMask, MASKED, Mask};
use crate::host::tensors::{contiguous, cube_count, element_type, empty};
use crate::tile::math::{exp, greater};

/// The number of units of a cube.
const UNITS: usize = 64;

#[cube(launch, address_type = "dynamic")]
fn softmax<F: Float>(
    scores: &[F],
    mask: &Mask,
    weights: &mut [F],
    rows: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    #[define(F)] _dtype: ElemType,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let query = row % queries;
    let head = row / queries % heads;
    let batch = row / queries / heads;
    let start = mask.start(batch, query);
    let end = mask.end(batch, query, keys);
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);

    let mut maximum = MASKED.runtime();
    let mut key = start + unit;
    while key < end {
        if mask.keeps(batch, head, query, key) {
            maximum = greater(f32::cast_from(scores[row * keys + key]), maximum);
        }
        key += UNITS;
    }
    lanes[unit] = maximum;
    sync_cube();
    for n in 0..UNITS {
        maximum = greater(lanes[n], maximum);
    }
    sync_cube();

    let mut sum = 0.0f32;
    let mut key = start + unit;
    while key < end {
        if mask.keeps(batch, head, query, key) {
            let score = f32::cast_from(scores[row * keys + key]);
            sum += exponential_of_score(score, maximum, 1.0f32);
        }
        key += UNITS;
    }
    lanes[unit] = sum;
    sync_cube();
    sum = 0.0f32;
    for n in 0..UNITS {
        sum += lanes[n];
    }
    let reciprocal = select(sum == 0.0f32, 0.0f32, 1.0f32 / sum);

    let mut key = unit;
    while key < keys {
        let mut weight = 0.0f32;
        if key >= start && key < end {
            if mask.keeps(batch, head, query, key) {
                let score = f32::cast_from(scores[row * keys + key]);
                weight = exponential_of_score(score, maximum, reciprocal);
            }
        }
        weights[row * keys + key] = F::cast_from(weight);
        key += UNITS;
    }
}

/// `e^(score - maximum)` times a factor; 0 for a score of minus infinity, which counts as masked.
#[cube]
fn exponential_of_score(score: f32, maximum: f32, factor: f32) -> f32 {
    select(score < MASKED, 0.0f32, exp(score - maximum) * factor)
}

/// `w (dw - sum_j w dw)`; where a weight is 0, as for a masked pair, its gradient is ignored, whatever it is.
#[cube(launch, address_type = "dynamic")]
fn softmax_backward<F: Float>(
    weights: &[F],
    gradient: &[F],
    to_scores: &mut [F],
    rows: usize,
    keys: usize,
    #[define(F)] _dtype: ElemType,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut total = 0.0f32;
    let mut key = unit;
    while key < keys {
        let weight = f32::cast_from(weights[row * keys + key]);
        let product = weight * f32::cast_from(gradient[row * keys + key]);
        total += select(weight == 0.0f32, 0.0f32, product);
        key += UNITS;
    }
    lanes[unit] = total;
    sync_cube();
    total = 0.0f32;
    for n in 0..UNITS {
        total += lanes[n];
    }
    let mut key = unit;
    while key < keys {
        let index = row * keys + key;
        let weight = f32::cast_from(weights[index]);
        let product = weight * (f32::cast_from(gradient[index]) - total);
        to_scores[index] = F::cast_from(select(weight == 0.0f32, 0.0f32, product));
        key += UNITS;
    }
}

/// Softmax of scores `[batch, heads, queries, keys]` over the keys that each query attends to; 0 where masked. The
/// scores must be [contiguous](crate::contiguous).
///
/// # Panics
/// If the mask is for another number of queries.
pub fn masked_softmax(scores: &CubeTensor, mask: &DeviceMask) -> CubeTensor {
    let [batch, heads, queries, keys] = scores.shape().dims();
    mask.check(queries);
    let rows = batch * heads * queries;
    let weights = empty(scores, scores.shape(), scores.dtype());
    let client = &scores.client;
    softmax::launch(
        client,
        cube_count(client, rows),
        CubeDim::new_1d(UNITS as u32),
        scores.required_address_type().max(mask.address_type()),
        scores.clone().into_buffer_arg(),
        mask.arg(),
        weights.clone().into_buffer_arg(),
        rows,
        heads,
        queries,
        keys,
        element_type(scores.dtype()),
    );
    weights
}

/// The gradient of the scores, from the weights and their gradient.
pub fn masked_softmax_backward(weights: &CubeTensor, gradient: CubeTensor) -> CubeTensor {
    let [batch, heads, queries, keys] = weights.shape().dims();
    let rows = batch * heads * queries;
    let to_scores = empty(weights, weights.shape(), weights.dtype());
    let client = &weights.client;
    softmax_backward::launch(
        client,
        cube_count(client, rows),
        CubeDim::new_1d(UNITS as u32),
        weights.required_address_type(),
        weights.clone().into_buffer_arg(),
        contiguous(gradient).into_buffer_arg(),
        to_scores.clone().into_buffer_arg(),
        rows,
        keys,
        element_type(weights.dtype()),
    );
    to_scores
}
