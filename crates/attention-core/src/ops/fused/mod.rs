//! Parts that the fused attentions have in common.

pub(super) mod cpu;
#[cfg(feature = "cubecl-backend")]
pub(super) mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;
use burn_fused_layers::harness::kernel::Kernel;

/// A fused attention: gradients of queries, keys, values, of what else its score has, and of bias, relative bias and
/// sinks.
pub(super) type AttentionKernel<B, I, const N: usize> = Kernel<B, I, Attended<B, I>, N>;

/// The saved state of a fused attention: no scores, and weights only of few queries; the backward pass computes them
/// again.
#[derive(Clone, Debug)]
pub(super) struct Attended<B: Backend, I> {
    pub(super) inputs: I,
    /// `[batch, heads, queries, value_size]`
    pub(super) context: FloatTensor<B>,
    /// Numbers that the backward pass makes weights of again, for each query: on the CPU the logarithm of the sum, in
    /// f64, on a GPU the greatest score and the reciprocal of the sum.
    pub(super) statistics: FloatTensor<B>,
    /// The weights before dropout, `[batch, heads, queries, keys]`, of a step of decoding by a kernel that reads them.
    pub(super) weights: Option<FloatTensor<B>>,
    /// The seed of dropout, if it is active.
    pub(super) seed: Option<FloatTensor<B>>,
}

#[cfg(feature = "fusion")]
impl<B: Backend, I> Attended<B, I> {
    /// The context, and what the backward pass needs, of a kernel that ran behind a queue or a server: its results are
    /// the context, the statistics, and the seed of dropout if it is active.
    pub(super) fn of_results(inputs: I, results: Vec<FloatTensor<B>>) -> (FloatTensor<B>, Self) {
        let mut results = results.into_iter();
        let mut next = || results.next();
        let (context, statistics) = next().zip(next()).expect("as many as were asked for");
        let saved = Self {
            inputs,
            context: context.clone(),
            statistics,
            weights: None,
            seed: next(),
        };
        (context, saved)
    }
}

/// The shapes of the context and of the statistics of its rows: two numbers each, from which the backward pass computes
/// the weights again.
pub(super) fn output_shapes<B: Backend>(
    queries: &FloatTensor<B>,
    values: &FloatTensor<B>,
) -> [Shape; 2] {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, _, value_size] = values.shape().dims();
    [
        [batch, heads, num_queries, value_size].into(),
        [batch, heads, num_queries, 2].into(),
    ]
}

/// The shape of what is known of each pair of query and key.
pub(super) fn pairs_shape<B: Backend>(queries: &FloatTensor<B>, keys: &FloatTensor<B>) -> Shape {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
    [batch, heads, num_queries, num_keys].into()
}
