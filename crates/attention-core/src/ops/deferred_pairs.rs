//! Deposits for the gradients of keys and values that many steps read; see
//! [`deferred_gradients`](burn_fused_layers::harness::deferred_gradients).

use attention_kernels::{AdditiveScoreInputs, Mask, Rows, accumulate_deferred};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn_fused_layers::harness::deferred_gradients::{Deposit, GradientSlot, downcast, marker};
use cpu_kernels::Level;

use super::host::{AttentionElement, CpuBackend, elements, rows, tensor, with_compiled, zeros};

/// The gradient slots of a memory's keys and values.
#[derive(Clone, Debug, Default)]
pub struct SharedGradients {
    /// The slot of the keys.
    pub keys: GradientSlot,
    /// The slot of the values.
    pub values: GradientSlot,
}

impl SharedGradients {
    /// The slots for the inputs of a fused attention: queries, keys, values and others.
    pub(super) fn slots<const N: usize>(shared: &Option<Self>) -> [Option<GradientSlot>; N] {
        std::array::from_fn(|input| match (input, shared) {
            (1, Some(shared)) => Some(shared.keys.clone()),
            (2, Some(shared)) => Some(shared.values.clone()),
            _ => None,
        })
    }
}

/// A step's deposit for the gradient of keys or values. Pairs are `[batch, heads, queries, keys]`, 0 where masked, and
/// not in half precision.
#[derive(Clone, Debug)]
pub(super) enum DeferredPairs<B: Backend> {
    /// `gradient[j] = factor sum_i pairs[i, j] queries[i]`. For values, `pairs` are weights and `queries` the gradients
    /// of the context; for keys multiplied with the queries, `pairs` are the gradients of the scores.
    Products {
        /// The factor.
        factor: f64,
        /// Weights, or gradients of scores.
        pairs: FloatTensor<B>,
        /// `[batch, heads, queries, size]`
        queries: FloatTensor<B>,
    },
    /// A deposit for the gradient of keys, from the gradients of additive scores.
    Additive {
        /// The gradients of the scores.
        pairs: FloatTensor<B>,
        /// `[batch, heads, queries, num_hiddens]`
        queries: FloatTensor<B>,
        /// `[num_hiddens]`
        weight: FloatTensor<B>,
    },
}

impl<B: Backend> DeferredPairs<B> {
    fn queries(&self) -> &FloatTensor<B> {
        match self {
            Self::Products { queries, .. } | Self::Additive { queries, .. } => queries,
        }
    }
}

impl<B: CpuBackend> Deposit<B> for DeferredPairs<B> {
    fn marker(&self) -> FloatTensor<B> {
        marker::<B, 4>(self.queries())
    }

    fn sum(
        self: Box<Self>,
        others: Vec<Box<dyn Deposit<B>>>,
        shared: FloatTensor<B>,
    ) -> FloatTensor<B> {
        let mut pairs = downcast::<B, Self>(others);
        pairs.push(*self);
        let shared = B::readable(shared);
        with_compiled!(shared.dtype(), E => {
            let mut sum = zeros::<E>(&shared.shape());
            while let Some(last) = pairs.pop() {
                let goes_along = |other: &Self| go_together::<B, E>(other, &last);
                let (mut group, others): (Vec<_>, Vec<_>) =
                    pairs.into_iter().partition(goes_along);
                group.push(last);
                pairs = others;
                add_group::<B, E>(group, &shared, &mut sum);
            }
            tensor::<B, E>(sum, shared.shape(), shared.dtype(), &shared)
        })
    }
}

/// Whether two deposits can be added by concatenating their queries.
fn go_together<B: CpuBackend, E: AttentionElement>(
    a: &DeferredPairs<B>,
    b: &DeferredPairs<B>,
) -> bool {
    let heads = |deferred: &DeferredPairs<B>| deferred.queries().shape()[1];
    if heads(a) != heads(b) {
        return false; // One is of a module whose heads share keys, the other of the attention inside it.
    }
    match (a, b) {
        (DeferredPairs::Products { factor: a, .. }, DeferredPairs::Products { factor: b, .. }) => {
            a == b
        }
        (DeferredPairs::Additive { weight: a, .. }, DeferredPairs::Additive { weight: b, .. }) => {
            elements::<B, E>(a) == elements::<B, E>(b)
        }
        _ => false,
    }
}

/// Adds deposits that [go together](go_together). Where several heads of queries share a key head, their queries are
/// concatenated as well.
fn add_group<B: CpuBackend, E: AttentionElement>(
    group: Vec<DeferredPairs<B>>,
    shared: &FloatTensor<B>,
    sum: &mut [E],
) {
    let kind = group[0].clone();
    let (pairs, queries): (Vec<_>, Vec<_>) = group
        .into_iter()
        .map(|deferred| match deferred {
            DeferredPairs::Products { pairs, queries, .. }
            | DeferredPairs::Additive { pairs, queries, .. } => (pairs, queries),
        })
        .unzip();
    let [_, key_heads, num_keys, _] = shared.shape().dims();
    let [pairs, queries] = [pairs, queries].map(|tensors| {
        let tensor = B::float_cat(tensors, 2);
        let [batch, heads, num_queries, size] = tensor.shape().dims();
        let side_by_side = [batch, key_heads, heads / key_heads * num_queries, size];
        B::readable(B::float_reshape(tensor, side_by_side.into()))
    });
    let [batch, ..] = pairs.shape().dims::<4>();
    let p = elements::<B, E>(&pairs);
    let weight = match &kind {
        DeferredPairs::Products { factor, .. } => {
            let factor = E::from_f64(*factor);
            return accumulate_deferred(Level::current(), factor, p, rows::<B, E>(&queries), sum);
        }
        DeferredPairs::Additive { weight, .. } => elements::<B, E>(weight),
    };
    // Keys without a gradient are padding, and not read.
    let of_example = p.chunks(p.len() / batch);
    let bounds: Vec<_> = of_example.map(|pairs| bounds(pairs, num_keys)).collect();
    let score = AdditiveScoreInputs {
        queries: rows::<B, E>(&queries),
        keys: rows::<B, E>(shared),
        weight,
        mask: Mask::none().with_intervals(&bounds, [batch, 1]),
    };
    let gradients = Rows::contiguous(p, pairs.shape().dims());
    score.backward_keys(Level::current(), gradients, sum);
}

/// The interval of keys that contains all nonzero pairs `[.., keys]`.
fn bounds<E: AttentionElement>(pairs: &[E], num_keys: usize) -> [usize; 2] {
    let mut bounds = [num_keys, 0];
    for row in pairs.chunks_exact(num_keys) {
        let is_there = |pair: &E| *pair != E::ZERO;
        if let (Some(first), Some(last)) = (
            row.iter().position(is_there),
            row.iter().rposition(is_there),
        ) {
            bounds = [bounds[0].min(first), bounds[1].max(last + 1)];
        }
    }
    [bounds[0].min(bounds[1]), bounds[1]]
}
