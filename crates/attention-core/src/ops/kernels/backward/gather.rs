//! What the steps of a decoder leave of the gradients of keys and values, added at once.

use attention_kernels::{AdditiveScore, Level, Mask, Rows, add_pairs};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::DType;

use super::super::slices::{narrowed, tensor, view, with_real, zeros};
use crate::ops::HostBackend;
use crate::ops::host::HostReal;

/// What one step leaves for the gradient of keys or values. Pairs are `[batch, heads, queries, keys]` and 0 where
/// hidden, and not in half precision.
#[derive(Clone, Debug)]
pub(in crate::ops) enum Step<B: Backend> {
    /// `factor * sum_i pairs[i, j] rows[i]`
    Pairs {
        factor: f64,
        pairs: FloatTensor<B>,
        /// `[batch, heads, queries, size]`
        rows: FloatTensor<B>,
    },
    /// What gradients of additive scores give the keys.
    Additive {
        scores: FloatTensor<B>,
        /// `[batch, heads, queries, num_hiddens]`
        queries: FloatTensor<B>,
        /// `[num_hiddens]`
        weight: FloatTensor<B>,
    },
}

impl<B: HostBackend> Step<B> {
    /// Of the values, from weights and the gradient of the context.
    pub(super) fn values(weights: FloatTensor<B>, context: FloatTensor<B>) -> Self {
        Self::keys(1.0, weights, context)
    }

    /// Of keys that are multiplied with the queries, from the gradients of the scores.
    pub(super) fn keys(factor: f64, scores: FloatTensor<B>, queries: FloatTensor<B>) -> Self {
        Self::Pairs {
            factor,
            pairs: scores,
            rows: queries,
        }
    }

    /// Of keys that additive scores are made of, from the gradients of those.
    pub(super) fn additive_keys(
        scores: FloatTensor<B>,
        queries: FloatTensor<B>,
        weight: FloatTensor<B>,
    ) -> Self {
        Self::Additive {
            scores,
            queries,
            weight,
        }
    }

    /// Whether the two can be added with their queries side by side.
    fn goes_with<E: HostReal>(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pairs { factor: a, .. }, Self::Pairs { factor: b, .. }) => a == b,
            (Self::Additive { weight: a, .. }, Self::Additive { weight: b, .. }) => {
                view::<B, E>(a).numbers() == view::<B, E>(b).numbers()
            }
            _ => false,
        }
    }
}

/// The gradient of `shared`, keys or values, from all steps.
pub(in crate::ops) fn total<B: HostBackend>(
    mut steps: Vec<Step<B>>,
    shared: &FloatTensor<B>,
) -> FloatTensor<B> {
    let sum = with_real!(shared.dtype(), E => {
        let mut sum = zeros::<E>(&shared.shape());
        while let Some(last) = steps.pop() {
            let (mut group, others): (Vec<_>, Vec<_>) =
                steps.into_iter().partition(|step| step.goes_with::<E>(&last));
            group.push(last);
            steps = others;
            add_group::<B, E>(group, shared, &mut sum);
        }
        tensor::<B, E>(sum, shared.shape(), shared)
    });
    narrowed::<B>(sum, shared.dtype())
}

/// Adds steps that go together.
fn add_group<B: HostBackend, E: HostReal>(
    group: Vec<Step<B>>,
    shared: &FloatTensor<B>,
    sum: &mut [E],
) {
    let (mut pairs, mut others) = (Vec::new(), Vec::new());
    let mut factor = E::ONE;
    let mut weight = None;
    for step in group {
        match step {
            Step::Pairs {
                factor: f,
                pairs: p,
                rows,
            } => {
                factor = E::from_f64(f);
                pairs.push(p);
                others.push(rows);
            }
            Step::Additive {
                scores,
                queries,
                weight: w,
            } => {
                weight = Some(w);
                pairs.push(scores);
                others.push(queries);
            }
        }
    }
    let (pairs, others) = (B::float_cat(pairs, 2), B::float_cat(others, 2));
    let (p, o) = (view::<B, E>(&pairs).numbers(), view::<B, E>(&others));
    let Some(weight) = weight else {
        add_pairs(Level::current(), factor, &p, o.rows(), sum);
        return;
    };
    let k = view::<B, E>(shared);
    let [batch, _, _, num_keys] = pairs.shape().dims();
    // Keys without a gradient are padding: they are not looked at.
    let bounds: Vec<[usize; 2]> = p
        .chunks(p.len() / batch)
        .map(|pairs| bounds(pairs, num_keys))
        .collect();
    let problem = AdditiveScore {
        queries: o.rows(),
        keys: k.rows(),
        weight: &view::<B, E>(&weight).numbers(),
        mask: Mask::none().with_intervals(&bounds, [batch, 1]),
    };
    let scores = Rows::contiguous(&p, pairs.shape().dims());
    problem.backward_keys(Level::current(), scores, sum);
}

/// The interval of keys outside of which all pairs `[.., keys]` are 0.
fn bounds<E: HostReal>(pairs: &[E], num_keys: usize) -> [usize; 2] {
    let mut bounds = [num_keys, 0];
    for row in pairs.chunks_exact(num_keys) {
        let is_seen = |pair: &E| *pair != E::ZERO;
        if let (Some(first), Some(last)) =
            (row.iter().position(is_seen), row.iter().rposition(is_seen))
        {
            bounds = [bounds[0].min(first), bounds[1].max(last + 1)];
        }
    }
    [bounds[0].min(bounds[1]), bounds[1]]
}
