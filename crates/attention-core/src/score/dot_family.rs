//! Scores that are a dot product once queries and keys are mapped.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Tensor;

use super::{ScoringFunction, pool};
use crate::{Mask, Memory, ops};

/// A score of the form `scale * map(q) . map(k) + bias(k)`: it goes through the streaming dot-product kernel, which
/// stores neither scores nor weights, in training too (but for the steps of a decoder, whose backward pass keeps both,
/// a row for each step, until it adds up the gradients of all of them).
///
/// Implement this instead of [`ScoringFunction`], which comes with it.
///
/// ```
/// use attention_core::{Attention, DotFamily, Mask};
/// use burn::module::Module;
/// use burn::prelude::*;
///
/// /// `q . k` of the first halves alone.
/// #[derive(Module, Debug)]
/// struct HalfScore {}
///
/// impl HalfScore {
///     fn half(&self, rows: Tensor<4>) -> Tensor<4> {
///         let size = rows.dims()[3];
///         rows.narrow(3, 0, size / 2)
///     }
/// }
///
/// impl DotFamily for HalfScore {
///     fn map_queries(&self, queries: Tensor<4>) -> Tensor<4> {
///         self.half(queries)
///     }
///
///     fn map_keys(&self, keys: Tensor<4>) -> Tensor<4> {
///         self.half(keys)
///     }
/// }
///
/// let device = Device::flex();
/// let rows = Tensor::<3>::ones([1, 5, 4], &device);
/// let attention = Attention::new(HalfScore {}, 0.0);
/// let context = attention.forward(rows.clone(), rows.clone(), rows, &Mask::none());
/// assert_eq!(context.dims(), [1, 5, 4]);
/// ```
pub trait DotFamily: Module + ModuleDisplay + 'static {
    /// The queries, mapped to the size in which they meet the keys.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, query_size]`, result `[batch, heads, queries, size]`
    fn map_queries(&self, queries: Tensor<4>) -> Tensor<4> {
        queries
    }

    /// The keys, mapped to the size in which they meet the queries; [`Memory`] keeps them.
    ///
    /// # Shapes
    /// - keys `[batch, heads, keys, key_size]`, result `[batch, heads, keys, size]`
    fn map_keys(&self, keys: Tensor<4>) -> Tensor<4> {
        keys
    }

    /// What is added to the scores of each mapped key, if anything; [`Memory`] keeps it.
    ///
    /// # Shapes
    /// - keys `[batch, heads, keys, size]`, result `[batch, heads, 1, keys]`
    fn key_bias(&self, _keys: &Tensor<4>) -> Option<Tensor<4>> {
        None
    }

    /// What is added to all scores of a mapped query, if anything. Softmax ignores it, other normalizers do not.
    ///
    /// # Shapes
    /// - queries `[batch, heads, queries, size]`, result `[batch, heads, queries, 1]`
    fn query_bias(&self, _queries: &Tensor<4>) -> Option<Tensor<4>> {
        None
    }

    /// The factor on the dot product, for mapped queries and keys of `size`.
    fn scale(&self, _size: usize) -> f64 {
        1.0
    }
}

impl<S: DotFamily> ScoringFunction for S {
    fn project_queries(&self, queries: Tensor<4>) -> Tensor<4> {
        self.map_queries(queries)
    }

    fn project_keys(&self, keys: Tensor<4>) -> Tensor<4> {
        self.map_keys(keys)
    }

    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, mask: &Mask) -> Tensor<4> {
        let [_, _, _, size] = queries.dims();
        let biases = [self.key_bias(&keys), self.query_bias(&queries)];
        let scores = ops::dot_product_score(queries, keys, mask, self.scale(size));
        biases.into_iter().flatten().fold(scores, Tensor::add)
    }

    fn extend_keys(
        &self,
        keys: &Tensor<4>,
        _mask: &Mask,
        _num_queries: usize,
    ) -> Option<Tensor<4>> {
        self.key_bias(keys)
    }

    fn attend(&self, queries: Tensor<4>, memory: &Memory, dropout: f64) -> Tensor<4> {
        stream(self, queries, memory, dropout, None)
    }

    fn attend_with_bias(
        &self,
        queries: Tensor<4>,
        memory: &Memory,
        dropout: f64,
        bias: Tensor<4>,
    ) -> Tensor<4> {
        let [_, _, rows, _] = bias.dims();
        if rows == 1 {
            return stream(self, queries, memory, dropout, Some(bias));
        }
        let scores = self.score(queries, memory.keys(), memory.mask());
        pool(scores + bias, memory, dropout)
    }
}

/// The context by the streaming kernel, with a second bias per key, `[batch or 1, heads or 1, 1, keys]`.
fn stream<S: DotFamily>(
    score: &S,
    queries: Tensor<4>,
    memory: &Memory,
    dropout: f64,
    second: Option<Tensor<4>>,
) -> Tensor<4> {
    let [_, _, _, size] = queries.dims();
    let first = memory
        .extension
        .clone()
        .or_else(|| score.key_bias(&memory.keys));
    let bias = [first, second].into_iter().flatten().reduce(Tensor::add);
    memory
        .pooling(queries, dropout)
        .attention(bias, score.scale(size))
}
