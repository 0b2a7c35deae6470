//! The sum of what was deposited, by kernels.

use attention_kernels::{AdditiveScoreInputs, Mask, Rows, accumulate_deferred};
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use cpu_kernels::{Level, ProductStart, product_sum};

use super::{Deferred, DeferredPairs};
use crate::ops::host::{CpuBackend, CpuReal, elements, matrix, rows, tensor, with_real, zeros};
use crate::ops::select_rows;

/// The gradient of `shared`, keys, values, a weight or a table, from all deposits.
pub(in crate::ops) fn sum<B: CpuBackend>(
    deposits: Vec<Deferred<B>>,
    shared: FloatTensor<B>,
) -> FloatTensor<B> {
    let (mut rows, mut selected, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for deposit in deposits {
        match deposit {
            Deferred::Rows { input, gradient } => rows.push([input, gradient]),
            Deferred::Selected { indices, gradient } => selected.push((indices, gradient)),
            Deferred::Pairs(deposit) => pairs.push(deposit),
        }
    }
    let shared = B::readable(shared);
    with_real!(shared.dtype(), E => {
        let mut sum = zeros::<E>(&shared.shape());
        add_rows::<B, E>(rows, &mut sum);
        if !selected.is_empty() {
            select_rows::cpu::add::<B, E>(selected, &shared.shape(), &mut sum);
        }
        while let Some(last) = pairs.pop() {
            let goes_along = |other: &DeferredPairs<B>| go_together::<B, E>(other, &last);
            let (mut group, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(goes_along);
            group.push(last);
            pairs = others;
            add_group::<B, E>(group, &shared, &mut sum);
        }
        tensor::<B, E>(sum, shared.shape(), shared.dtype(), &shared)
    })
}

/// Adds the gradient of a weight, from what it was multiplied with and the gradients of the results.
fn add_rows<B: CpuBackend, E: CpuReal>(rows: Vec<[FloatTensor<B>; 2]>, sum: &mut [E]) {
    if rows.is_empty() {
        return;
    }
    let rows: Vec<_> = rows.into_iter().map(|rows| rows.map(B::readable)).collect();
    let (inputs, gradients): (Vec<_>, Vec<_>) = rows
        .iter()
        .map(|[input, gradient]| {
            let input = matrix::<B, E>(input).transposed();
            (input, matrix::<B, E>(gradient))
        })
        .unzip();
    let level = Level::current();
    product_sum(level, &inputs, &gradients, ProductStart::Sum, sum);
}

/// Whether the two can be added with their queries side by side.
fn go_together<B: CpuBackend, E: CpuReal>(a: &DeferredPairs<B>, b: &DeferredPairs<B>) -> bool {
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

/// Adds deposits that go together. Where several heads of queries share one of keys, they are queries side by side,
/// too.
fn add_group<B: CpuBackend, E: CpuReal>(
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
    // Keys without a gradient are padding: they are not looked at.
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

/// The interval of keys outside of which all pairs `[.., keys]` are 0.
fn bounds<E: CpuReal>(pairs: &[E], num_keys: usize) -> [usize; 2] {
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
