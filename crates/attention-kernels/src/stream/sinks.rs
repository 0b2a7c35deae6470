//! The gradient of the sinks.
//!
//! A sink has the weight `p = e^(sink - lse)` and no value, so that the gradient of its weight is 0 and that of its
//! logit is `-p D`, with `D` of the [backward pass](super::backward).

use cpu_kernels::Real;

use super::attention::{Attention, AttentionOutputs};
use super::score::{Sizes, TileScore};
use crate::HeadIndex;
use crate::slices::precise_dot;

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
            let Some(sink) = attention.sink(at) else {
                continue;
            };
            let first = at.position(heads.heads) * queries;
            for query in 0..queries {
                let [largest, log_sum] = outputs.lse[first + query];
                // Of a query that attends to no key: 0, whatever the gradient of its context holds.
                if largest == sink.to_f64() && log_sum == 0.0 {
                    continue;
                }
                let [of_context, of_gradient] = &mut scratch;
                let context = outputs.context.row(at, query).read(of_context);
                let upstream = outputs.context_gradient.row(at, query).read(of_gradient);
                let difference = (sink.to_f64() - largest) * natural;
                let weight = (difference - log_sum).exp();
                sum -= weight * precise_dot(context, upstream);
            }
        }
        *gradient += E::from_f64(sum);
    }
}
