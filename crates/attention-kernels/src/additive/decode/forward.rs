//! Context and log-sum-exp of a decoding step.

use cpu_kernels::Real;
use cpu_kernels::checks::check_len;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::threads::for_each_with;

use super::attended::GroupWeights;
use super::{Decode, Group};
use crate::additive::stream::AdditiveScore;
use crate::gather::AttendedKeys;
use crate::slices::parts_of_wanted;
use crate::stream::{LogSumExp, TileScore};
use crate::tiles::DECODE_HEADS;

/// Writes context, log-sum-exp and, if requested, the weights before dropout; sizes were checked.
pub(in crate::additive) fn forward<E: Real>(
    level: Level,
    attention: &Decode<E>,
    context: &mut [E],
    lse: &mut [LogSumExp],
    weights: Option<&mut [E]>,
) {
    let heads = attention.score.heads;
    let [_, _, num_queries, _] = attention.score.inputs.queries.shape();
    let weights = parts_of_wanted(weights, heads.key_count());
    let [.., value_size] = attention.values.shape();
    let rows = heads.group() * num_queries;
    let tasks = context.chunks_mut(rows * value_size);
    let tasks = tasks.zip(lse.chunks_mut(rows)).zip(weights).enumerate();
    let least = DECODE_HEADS.div_ceil(heads.group());
    for_each_with(tasks, least, Scratch::default, |scratch, task| {
        let (index, ((context, lse), weights)) = task;
        let job = Forward {
            group: Group::nth(attention, index),
            scratch,
            context,
            lse,
            weights,
        };
        E::dispatch(level, job);
    });
}

/// As [`forward`], and also writes the weights.
///
/// # Panics
/// If sizes do not fit together, or there are too many queries.
pub(crate) fn forward_saving<E: Real>(
    level: Level,
    attention: &Decode<E>,
    context: &mut [E],
    lse: &mut [LogSumExp],
    weights: &mut [E],
) {
    attention.check_forward(context, lse);
    let pairs = attention.score.sizes().pairs();
    let operation = AdditiveScore::<E>::OPERATION;
    check_len(operation, "weights", pairs, weights.len());
    assert!(
        attention.is_decode,
        "{operation}: saved weights expected of decoding (see AttentionInputs::is_decode), got scores {pairs:?}, \
         values {:?} and {}",
        attention.values.shape(),
        attention.modifiers.presence()
    );
    forward(level, attention, context, lse, Some(weights));
}

/// The buffers that a thread fills anew for each group.
#[derive(Default)]
struct Scratch<'a, E> {
    weights: GroupWeights<'a, E>,
    attended: AttendedKeys<E>,
}

struct Forward<'a, 'b, E> {
    group: Group<'a, E>,
    scratch: &'b mut Scratch<'a, E>,
    /// `[group, queries, value_size]`
    context: &'b mut [E],
    /// `[group, queries]`
    lse: &'b mut [LogSumExp],
    /// `[group, queries, keys]`
    weights: Option<&'b mut [E]>,
}

impl<E: Real> Job<E> for Forward<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Scratch { weights, attended } = self.scratch;
        let (group, context) = (self.group, self.context);
        let values = &group.attention.values;
        let [_, _, num_keys, value_size] = values.shape();
        weights.compute(simd, &group, Some(self.lse));
        if let Some(to) = self.weights {
            weights.save(num_keys, to);
        }
        context.fill(E::ZERO);
        for (row, context) in context.chunks_exact_mut(value_size).enumerate() {
            weights.list(&group, row, attended);
            attended.apply_dropout();
            let values = attended.rows(values, group.key);
            values.weighted_sum(simd, &attended.weights, E::ONE, context);
        }
    }
}
