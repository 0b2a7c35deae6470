//! User-defined modifications of the scores of attention.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

use cpu_kernels::simd::{Job, Simd};
use cpu_kernels::{Float, Level, Real};

use crate::HeadIndex;
use crate::tiles::KEY_STRIDE;

/// A user's own function from a score and its place to another score: PyTorch's `score_mod` of `flex_attention`. It
/// gets scaled, capped and biased scores before the mask, and modifies each by itself.
///
/// For masked pairs, modified scores and their gradients may be anything. A score that a bias of minus infinity masks
/// stays masked.
pub trait ScoreMod: Debug + Send + Sync {
    /// Modifies scores of one query and neighbouring keys.
    fn modify(&self, scores: &mut [f32], at: RowOfScores);

    /// Replaces `gradients`, those of the modified scores, by the gradients of the scores that [`modify`](Self::modify)
    /// was given, `scores`.
    fn gradient(&self, scores: &[f32], gradients: &mut [f32], at: RowOfScores);
}

/// A [`ScoreMod`] on vectors of neighbouring keys, compiled for each instruction set like a
/// [`PairwiseTerm`](crate::PairwiseTerm), which lists the operations of `simd`. Both methods must be
/// `#[inline(always)]`, and call only such functions, and no closure.
///
/// ```
/// use attention_kernels::{RowOfScores, Simd, VectorMod};
///
/// /// A bonus for keys that are close to the query: `score + e^-|query - key|`.
/// #[derive(Debug)]
/// struct Closeness;
///
/// impl VectorMod for Closeness {
///     #[inline(always)]
///     fn value<S: Simd<f32>>(&self, simd: S, scores: S::V, at: RowOfScores) -> S::V {
///         // The keys of the lanes.
///         let keys = simd.count_from(at.first_key as f32);
///         let distance = simd.abs(simd.sub(simd.splat(at.query as f32), keys));
///         simd.add(scores, simd.exp(simd.neg(distance)))
///     }
///
///     #[inline(always)]
///     fn derivative<S: Simd<f32>>(&self, simd: S, _scores: S::V, _at: RowOfScores) -> S::V {
///         simd.splat(1.0)
///     }
/// }
/// ```
pub trait VectorMod: Debug + Send + Sync {
    /// The modified scores of neighbouring keys; the first is `at.first_key`.
    fn value<S: Simd<f32>>(&self, simd: S, scores: S::V, at: RowOfScores) -> S::V;

    /// The derivatives by the scores.
    fn derivative<S: Simd<f32>>(&self, simd: S, scores: S::V, at: RowOfScores) -> S::V;
}

impl<T: VectorMod> ScoreMod for T {
    fn modify(&self, scores: &mut [f32], at: RowOfScores) {
        let job = Change {
            by: self,
            before: None,
            to: scores,
            at,
        };
        f32::dispatch(Level::current(), job);
    }

    fn gradient(&self, scores: &[f32], gradients: &mut [f32], at: RowOfScores) {
        let job = Change {
            by: self,
            before: Some(scores),
            to: gradients,
            at,
        };
        f32::dispatch(Level::current(), job);
    }
}

/// Scores to modify, or gradients with the scores before the modification.
struct Change<'a, T> {
    by: &'a T,
    before: Option<&'a [f32]>,
    to: &'a mut [f32],
    at: RowOfScores,
}

impl<T: VectorMod> Job<f32> for Change<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, simd: S) {
        let mut at = self.at;
        let mut before = self.before.map(|before| before.chunks(S::LANES));
        for to in self.to.chunks_mut(S::LANES) {
            let vector = simd.load_partial(to);
            let changed = match before.as_mut().and_then(Iterator::next) {
                Some(before) => {
                    let scores = simd.load_partial(before);
                    simd.mul(vector, self.by.derivative(simd, scores, at))
                }
                None => self.by.value(simd, vector, at),
            };
            simd.store_partial(changed, to);
            at.first_key += S::LANES;
        }
    }
}

/// The place of some scores of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowOfScores {
    /// The example.
    pub batch: usize,
    /// The head of the queries.
    pub head: usize,
    /// The query, counted within the call.
    pub query: usize,
    /// The key of the first score, counted within the call; the others follow.
    pub first_key: usize,
}

impl RowOfScores {
    pub(crate) fn new(at: HeadIndex, query: usize, keys: &Range<usize>) -> Self {
        Self {
            batch: at.batch,
            head: at.head,
            query,
            first_key: keys.start,
        }
    }
}

/// Modifies the first `len` scores of a row of a tile; minus infinity stays.
pub(crate) fn modify<E: Real>(
    score_mod: &dyn ScoreMod,
    row: &mut [E],
    at: RowOfScores,
    len: usize,
) {
    let scores = &mut row_of_f32(row)[..len];
    let masks = scores.contains(&f32::NEG_INFINITY);
    let before = if masks { scores.to_vec() } else { Vec::new() };
    score_mod.modify(scores, at);
    for (score, before) in scores.iter_mut().zip(before) {
        if before == f32::NEG_INFINITY {
            *score = before;
        }
    }
}

/// Turns the gradients of a tile's modified scores into gradients of the scores `before`; 0 stays 0.
pub(crate) fn through<E: Real>(
    score_mod: &dyn ScoreMod,
    (head, queries, keys): (HeadIndex, Range<usize>, Range<usize>),
    before: &mut [E],
    gradients: &mut [E],
) {
    let before = before.chunks_exact_mut(KEY_STRIDE);
    let rows = gradients.chunks_exact_mut(KEY_STRIDE).zip(before);
    for ((gradients, before), query) in rows.zip(queries) {
        let [gradients, before] = [gradients, before].map(row_of_f32);
        let above = *gradients;
        let at = RowOfScores::new(head, query, &keys);
        score_mod.gradient(&before[..keys.len()], &mut gradients[..keys.len()], at);
        for (gradient, above) in gradients.iter_mut().zip(above) {
            if above == 0.0 {
                *gradient = 0.0;
            }
        }
    }
}

/// A row of a tile.
///
/// # Panics
/// If its type is not `f32`.
fn row_of_f32<E: Real>(row: &mut [E]) -> &mut [f32; KEY_STRIDE] {
    let row: Option<&mut [E; KEY_STRIDE]> = row.try_into().ok();
    let row = row.and_then(|row| (row as &mut dyn Any).downcast_mut());
    row.expect("scores for a ScoreMod expected in rows of tiles, in f32")
}
