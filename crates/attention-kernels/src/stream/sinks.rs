//! Sinks: logits without a value, beside the logits of keys.
//!
//! Forward, `e^sink` is one more term of the sum that divides the weights. It is added in f64 at the end, so that a
//! sink far above the keys does not round their contribution away.
//!
//! Backward, a sink has the weight `p = e^(sink - lse)`; the gradient of its weight is 0, hence the gradient of its
//! logit `-p D`, with `D` of the [backward pass](super::backward).

use cpu_kernels::Real;

use super::attention::{Attention, AttentionOutputs, LogSumExp, NO_KEY};
use super::score::{Sizes, TileScore};
use crate::HeadIndex;
use crate::slices::precise_dot;

/// The divisor of a query's weights, and its logarithm.
pub(crate) struct Normalizer {
    pub sum: f64,
    pub lse: LogSumExp,
}

impl Normalizer {
    /// Made from the sum of `e^(s - m)` over the keys. The largest score or sink `m` and the sink have a unit whose
    /// product with `natural` is a natural logit.
    #[inline(always)]
    pub(crate) fn new<E: Real>(sum: E, largest: E, sink: Option<E>, natural: f64) -> Self {
        let (sum, largest) = (sum.to_f64(), largest.to_f64());
        let sink = sink.map(|sink| (sink.to_f64() - largest) * natural);
        let (sum, log_sum) = match sink {
            None if sum == 0.0 => return Self { sum, lse: NO_KEY },
            None => (sum, sum.ln()),
            // The logarithm is 0 only if no key has any weight.
            Some(0.0) => (1.0 + sum, sum.ln_1p()),
            Some(sink) => (sum + sink.exp(), (sum + sink.exp()).ln()),
        };
        let lse = [largest, log_sum];
        Self { sum, lse }
    }
}

/// The weight of a sink in the unit of completed scores.
#[inline(always)]
pub(crate) fn sink_weight(sink: f64, [largest, log_sum]: LogSumExp, natural: f64) -> f64 {
    ((sink - largest) * natural - log_sum).exp()
}

/// Adds the gradient of each head's sink.
pub(crate) fn add_sink_gradients<E: Real, T: TileScore<E>>(
    attention: &Attention<E, T>,
    outputs: &AttentionOutputs<E>,
    gradient: &mut [E],
) {
    let Sizes { heads, queries, .. } = attention.score.sizes();
    let natural = attention.natural();
    let mut scratch = [Vec::new(), Vec::new()];
    for (head, gradient) in gradient.iter_mut().enumerate() {
        let mut sum = 0.0;
        for batch in 0..heads.batch {
            let at = HeadIndex { batch, head };
            let Some(sink) = attention.sink(at).map(E::to_f64) else {
                continue;
            };
            let first = at.position(heads.heads) * queries;
            for query in 0..queries {
                let lse = outputs.lse[first + query];
                // The query attends to no key, so 0, whatever the gradient of its context holds.
                if lse == [sink, 0.0] {
                    continue;
                }
                let [of_context, of_gradient] = &mut scratch;
                let context = outputs.context.row(at, query).read(of_context);
                let upstream = outputs.context_gradient.row(at, query).read(of_gradient);
                sum -= sink_weight(sink, lse, natural) * precise_dot(context, upstream);
            }
        }
        *gradient += E::from_f64(sum);
    }
}
