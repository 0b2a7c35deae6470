//! Modifications of scores on their way to the softmax.

use std::ops::Range;

use cpu_kernels::Real;
use cpu_kernels::checks::{check_len, check_shape};
use cpu_kernels::simd::{Job, Simd};

use crate::rows::Row;
use crate::score_mod::modify;
use crate::soft_cap::soft_cap;
use crate::stream::Sizes;
use crate::tiles::KEY_STRIDE;
use crate::{HeadIndex, RowOfScores, Rows, ScoreMod};

/// Modifications of the scores of an attention on their way to the softmax: `cap tanh(score / cap) + bias +
/// relative_bias`, then a function of the user's own, and a sink beside the keys.
///
/// Soft-cap: Gemma Team 2024, "Gemma 2: Improving Open Language Models at a Practical Size", section 2. Sinks: Xiao et
/// al. 2024, "Efficient Streaming Language Models with Attention Sinks", section 3.3; a sink of 0 is the denominator
/// `1 + sum e^score`.
#[derive(Clone, Copy, Debug)]
pub struct ScoreModifiers<'a, E> {
    /// The cap, positive and finite.
    pub soft_cap: Option<E>,
    /// Added to the scores, `[batch or 1, heads or 1, queries or 1, keys]`; minus infinity masks a key.
    pub bias: Option<Rows<'a, E>>,
    /// Added by distance, `[batch or 1, heads or 1, 1, queries + keys - 1]`: the score of query `i` and key `j` gets
    /// element `j - i + queries - 1`; minus infinity masks a key.
    pub relative_bias: Option<Rows<'a, E>>,
    /// A logit per head, `[heads]`, whose weight goes to no value; minus infinity means no sink.
    pub sinks: Option<&'a [E]>,
    /// A user's own modification of the sum, for scores in `f32`.
    pub score_mod: Option<&'a dyn ScoreMod>,
}

/// The requested gradients of modifiers, to add to; each has the shape of its modifier, contiguous.
#[derive(Debug)]
pub struct ModifierGradients<'a, E> {
    /// The gradient of the bias.
    pub bias: Option<&'a mut [E]>,
    /// The gradient of the relative bias.
    pub relative_bias: Option<&'a mut [E]>,
    /// The gradient of the sinks.
    pub sinks: Option<&'a mut [E]>,
}

impl<E> ScoreModifiers<'_, E> {
    /// No modifications.
    pub const NONE: Self = Self {
        soft_cap: None,
        bias: None,
        relative_bias: None,
        sinks: None,
        score_mod: None,
    };
}

impl<E> ModifierGradients<'_, E> {
    /// No gradients.
    pub const NONE: Self = Self {
        bias: None,
        relative_bias: None,
        sinks: None,
    };
}

impl<'a, E: Real> ScoreModifiers<'a, E> {
    /// Whether there are no modifiers.
    pub(crate) fn is_none(&self) -> bool {
        self.keeps_scores() && self.sinks.is_none()
    }

    /// Whether there are any modifiers, for messages.
    pub(crate) fn presence(&self) -> &'static str {
        if self.is_none() {
            "no modifiers"
        } else {
            "modifiers"
        }
    }

    /// Whether the score of each pair stays as it is.
    #[inline(always)]
    pub(crate) fn keeps_scores(&self) -> bool {
        let has_biases = self.bias.is_some() || self.relative_bias.is_some();
        self.soft_cap.is_none() && !has_biases && self.score_mod.is_none()
    }

    /// # Panics
    /// If a shape does not fit the scores, or the cap is not positive and finite.
    pub(crate) fn check(&self, operation: &str, sizes: Sizes) {
        if let Some(cap) = self.soft_cap {
            assert!(
                cap > E::ZERO && cap.is_finite(),
                "{operation}: soft-cap expected a positive finite number, got {}",
                cap.to_f64()
            );
        }
        let [batch, heads, queries, keys] = sizes.pairs();
        // Any axis but the last may be 1.
        let check_bias = |what, bias: Rows<E>, full: [usize; 4]| {
            let shape = bias.shape();
            let is_one = |axis| axis < 3 && shape[axis] == 1;
            let expected = std::array::from_fn(|axis| if is_one(axis) { 1 } else { full[axis] });
            check_shape(operation, what, expected, shape);
        };
        if let Some(bias) = self.bias {
            check_bias("bias", bias, [batch, heads, queries, keys]);
        }
        if let Some(bias) = self.relative_bias {
            let distances = (queries + keys).saturating_sub(1);
            check_bias("relative bias", bias, [batch, heads, 1, distances]);
        }
        if let Some(sinks) = self.sinks {
            check_len(operation, "sinks", [heads], sinks.len());
        }
    }

    /// # Panics
    /// If a gradient of an absent modifier is requested, or has another length.
    pub(crate) fn check_gradients(&self, operation: &str, gradients: &ModifierGradients<E>) {
        let len = |rows: Rows<E>| rows.shape().iter().product();
        let wanted = [
            ("bias", &gradients.bias, self.bias.map(len)),
            (
                "relative bias",
                &gradients.relative_bias,
                self.relative_bias.map(len),
            ),
            ("sinks", &gradients.sinks, self.sinks.map(<[E]>::len)),
        ];
        for (name, gradient, len) in wanted {
            let Some(gradient) = gradient else { continue };
            let len: usize = len.unwrap_or_else(|| {
                panic!("{operation}: gradient of {name} expected {name}, got none")
            });
            assert!(
                gradient.len() == len,
                "{operation}: gradient of {name} expected {len} elements, got {}",
                gradient.len()
            );
        }
    }

    /// The sink of a head; none if it is minus infinity.
    #[inline(always)]
    pub(crate) fn sink(&self, at: HeadIndex) -> Option<E> {
        let sink = self.sinks?[at.head];
        (sink != -E::INFINITY).then_some(sink)
    }

    /// The biases of a query for some keys: rows to add.
    #[inline(always)]
    pub(crate) fn biases(
        &self,
        at: HeadIndex,
        [query, num_queries]: [usize; 2],
        keys: Range<usize>,
    ) -> [Option<Row<'a, E>>; 2] {
        let bias = self.bias.map(|bias| {
            let [_, _, queries, _] = bias.shape();
            bias.row(broadcast(&bias, at), query.min(queries - 1))
                .part(keys.clone())
        });
        let relative = self.relative_bias.map(|bias| {
            let first = num_queries - 1 - query;
            bias.row(broadcast(&bias, at), 0)
                .part(first + keys.start..first + keys.end)
        });
        [bias, relative]
    }
}

/// Scores of `queries` and `keys` to modify, in rows of [`KEY_STRIDE`]. Before, they are in a unit whose product with
/// `natural` is a natural logit; after, they are natural logits. Compiled once for each instruction set.
pub(crate) struct Modification<'a, E> {
    pub modifiers: &'a ScoreModifiers<'a, E>,
    pub natural: E,
    pub at: HeadIndex,
    pub queries: Range<usize>,
    /// The number of queries of the head.
    pub num_queries: usize,
    pub keys: Range<usize>,
    pub scores: &'a mut [E],
    /// The derivatives of the soft-cap are written here, in the same layout, unless it is empty.
    pub slopes: &'a mut [E],
    /// The scores before the user's function are written here, in the same layout, unless it is empty.
    pub before: &'a mut [E],
}

impl<E: Real> Job<E> for Modification<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let (modifiers, keys) = (self.modifiers, self.keys);
        let whole = keys.len().next_multiple_of(S::LANES);
        let mut slopes = self.slopes.chunks_mut(KEY_STRIDE);
        let mut before = self.before.chunks_mut(KEY_STRIDE);
        let [mut wide, mut wide_relative] = [Vec::new(), Vec::new()];
        for (row, query) in self.scores.chunks_mut(KEY_STRIDE).zip(self.queries) {
            let mut factor = self.natural;
            if let Some(cap) = modifiers.soft_cap {
                let slopes = slopes.next().map(|slopes| &mut slopes[..whole]);
                let slopes = slopes.unwrap_or_default();
                soft_cap(simd, cap, factor, &mut row[..whole], slopes);
                factor = E::ONE;
            }
            match modifiers.biases(self.at, [query, self.num_queries], keys.clone()) {
                [Some(bias), Some(relative)] => {
                    let biases = [bias.read(&mut wide), relative.read(&mut wide_relative)];
                    add_biases(factor, biases, row);
                }
                [Some(bias), None] | [None, Some(bias)] => {
                    add_bias(factor, bias.read(&mut wide), row);
                }
                [None, None] if modifiers.score_mod.is_some() => {
                    row.iter_mut().for_each(|score| *score = *score * factor);
                }
                [None, None] => {}
            }
            if let Some(score_mod) = modifiers.score_mod {
                if let Some(before) = before.next() {
                    before.copy_from_slice(row);
                }
                let at = RowOfScores::new(self.at, query, &keys);
                modify(score_mod, row, at, keys.len());
            }
        }
    }
}

/// The example and head to read for `at` in a tensor whose axes may be broadcast.
#[inline(always)]
pub(crate) fn broadcast<E: Real>(rows: &Rows<E>, at: HeadIndex) -> HeadIndex {
    let [batch, heads, ..] = rows.shape();
    HeadIndex {
        batch: at.batch.min(batch - 1),
        head: at.head.min(heads - 1),
    }
}

/// `factor score + bias`; minus infinity masks a key, whatever its score is.
#[inline(always)]
fn add_bias<E: Real>(factor: E, bias: &[E], scores: &mut [E]) {
    for (score, &bias) in scores.iter_mut().zip(bias) {
        let sum = *score * factor + bias;
        *score = if bias == -E::INFINITY { bias } else { sum };
    }
}

/// As [`add_bias`], with two biases.
#[inline(always)]
fn add_biases<E: Real>(factor: E, [first, second]: [&[E]; 2], scores: &mut [E]) {
    let lowest = -E::INFINITY;
    for ((score, &first), &second) in scores.iter_mut().zip(first).zip(second) {
        let sum = *score * factor + first + second;
        let is_masked = first == lowest || second == lowest;
        *score = if is_masked { lowest } else { sum };
    }
}
