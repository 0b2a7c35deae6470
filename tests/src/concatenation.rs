//! A scoring function of a user.

use attention_core::{Mask, ScoringFunction};
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// A perceptron on the concatenation `[q; k]`: `tanh([q; k] W) w`, as a user would write it.
#[derive(Module, Debug)]
pub struct Concatenation {
    /// W, `[query_size + key_size, num_hiddens]`.
    pub hidden: Param<Tensor<2>>,
    /// w, `[num_hiddens, 1]`.
    pub output: Param<Tensor<2>>,
}

impl ScoringFunction for Concatenation {
    fn score(&self, queries: Tensor<4>, keys: Tensor<4>, _mask: &Mask) -> Tensor<4> {
        let [batch, heads, num_queries, query_size] = queries.dims();
        let [_, _, num_keys, key_size] = keys.dims();
        let pairs = [batch, heads, num_queries, num_keys];
        let of_pairs =
            |rows: Tensor<5>, size| rows.expand([batch, heads, num_queries, num_keys, size]);
        let queries = of_pairs(queries.unsqueeze_dim(3), query_size);
        let keys = of_pairs(keys.unsqueeze_dim(2), key_size);
        let rows = pairs.iter().product();
        let both = Tensor::cat(vec![queries, keys], 4).reshape([rows, query_size + key_size]);
        both.matmul(self.hidden.val())
            .tanh()
            .matmul(self.output.val())
            .reshape(pairs)
    }
}
