//! The user's own modifications of scores, where no kernel runs them.

use attention_kernels::{RowOfScores, ScoreMod};
use burn::tensor::{Tensor, TensorData};

/// The largest number of scores that go through the host.
const MOST_SCORES: usize = 1 << 24;

/// The scores `[batch, heads, queries, keys]`, modified on the host in f32; minus infinity stays.
///
/// # Panics
/// If there are too many scores.
pub(super) fn apply(operation: &str, scores: Tensor<4>, score_mod: &dyn ScoreMod) -> Tensor<4> {
    let shape @ [_, heads, num_queries, num_keys] = scores.dims();
    let count = shape.iter().product::<usize>();
    assert!(
        count <= MOST_SCORES,
        "{operation}: at most {MOST_SCORES} scores expected for a score_mod on the host, got {count}; the kernels of \
         the CPU (flex, ndarray) take any number, of f32 or half precision, of dot products, additive or pairwise \
         scores, with softmax and no weights asked for"
    );
    let (device, dtype) = (scores.device(), scores.dtype());
    let data = scores.clone().detach().into_data().convert::<f32>();
    let before: Vec<f32> = data.iter().collect();
    let (mut after, mut slopes) = (before.clone(), vec![1.0; count]);
    let rows = after.chunks_mut(num_keys).zip(slopes.chunks_mut(num_keys));
    for (row, ((after, slopes), before)) in rows.zip(before.chunks(num_keys)).enumerate() {
        let at = RowOfScores {
            batch: row / num_queries / heads,
            head: row / num_queries % heads,
            query: row % num_queries,
            first_key: 0,
        };
        score_mod.modify(after, at);
        if device.is_autodiff() {
            score_mod.gradient(before, slopes, at);
        }
        for ((after, slope), &before) in after.iter_mut().zip(slopes).zip(before) {
            if before == f32::NEG_INFINITY {
                *after = before;
            }
            // The slope of a masked pair may be anything, but its gradient must stay 0.
            if !slope.is_finite() || !before.is_finite() {
                *slope = 0.0;
            }
        }
    }
    let tensor = |elements| Tensor::from_data(TensorData::new(elements, shape), (&device, dtype));
    let modified = tensor(after);
    if !device.is_autodiff() {
        return modified;
    }
    // A term of value 0 that carries the derivatives of the modification.
    let is_finite = scores.clone().detach().is_finite();
    let difference = scores.clone() - scores.detach();
    modified + difference.mask_fill(is_finite.bool_not(), 0.0) * tensor(slopes)
}
