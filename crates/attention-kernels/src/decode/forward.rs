//! Context and log-sum-exp of a decoding step.

use cpu_kernels::Real;
use cpu_kernels::simd::{Job, Level, Simd};
use cpu_kernels::slices::equal_parts;
use cpu_kernels::softmax::largest;

use super::attended::ScoredKeys;
use super::{RowScore, run_tasks};
use crate::heads::HeadPair;
use crate::stream::{Attention, LogSumExp, Normalizer};

/// Writes context and log-sum-exp; sizes were checked.
pub(crate) fn forward<E: Real, T: RowScore<E>>(
    level: Level,
    attention: &Attention<E, T>,
    context: &mut [E],
    lse: &mut [LogSumExp],
) {
    let heads = attention.score.sizes().heads;
    let context = equal_parts(context, heads.count());
    let slices = context.into_iter().zip(equal_parts(lse, heads.count()));
    let outputs = slices.enumerate().map(|(index, (context, lse))| Output {
        head: heads.nth(index),
        context,
        lse,
    });
    let mut outputs: Vec<_> = outputs.collect();
    run_tasks(attention, heads.group(), &mut outputs, |outputs| {
        E::dispatch(level, Forward { attention, outputs });
    });
}

/// The results of one head.
struct Output<'a, E> {
    head: HeadPair,
    /// `[queries, value_size]`
    context: &'a mut [E],
    /// `[queries]`
    lse: &'a mut [LogSumExp],
}

/// Some heads.
struct Forward<'a, 'b, E, T> {
    attention: &'a Attention<'a, E, T>,
    outputs: &'a mut [Output<'b, E>],
}

impl<E: Real, T: RowScore<E>> Job<E> for Forward<'_, '_, E, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<E>>(self, simd: S) {
        let Self { attention, outputs } = self;
        let [.., value_size] = attention.values.shape();
        let scale = attention.dropout_scale();
        let mut keys = ScoredKeys::default();
        for Output { head, context, lse } in outputs {
            let rows = context.chunks_exact_mut(value_size).zip(lse.iter_mut());
            for (query, (context, lse)) in rows.enumerate() {
                keys.score(simd, attention, *head, query);
                let sink = attention.sink(head.query);
                let most = largest(simd, &keys.scores);
                let most = sink.map_or(most, |sink| if sink > most { sink } else { most });
                let sum = keys.weigh(simd, [most, E::ZERO]);
                let normalizer = Normalizer::new(sum, most, sink, 1.0);
                *lse = normalizer.lse;
                context.fill(E::ZERO);
                if sum == E::ZERO {
                    continue;
                }
                let attended = &mut keys.attended;
                attended.draw(attention.dropout, head.query, query, E::ONE);
                attended.apply_dropout();
                let values = attended.rows(&attention.values, head.key);
                let factor = scale / E::from_f64(normalizer.sum);
                values.weighted_sum(simd, &attended.weights, factor, context);
            }
        }
    }
}
