//! The streaming kernels: attention without its matrix of scores.
//!
//! Keys come in tiles. Per query the forward pass keeps a running maximum `m` of the scores, a running sum `l` of
//! `e^(s - m)` and a running weighted sum of values, both rescaled when the maximum grows (Milakov & Gimelshein 2018,
//! Dao et al. 2022). What remains is the context and the logarithm of the sum, `lse = m + ln l`, from which the
//! backward pass computes the weights of a tile again: `p = e^(s - lse)`.

mod backward;
mod forward;
mod pack;
mod pool;
mod running;
mod score;
mod task;
mod tile;
mod upstream;

use crate::{Dropout, Mask, Real, Rows};

pub(crate) use backward::{Gradients, Outputs, backward};
pub(crate) use forward::forward;
pub(crate) use pack::{
    FiniteRows, clear_rows, find_non_finite, multiply_panels, pack_panels, pack_rows, padded,
};
pub(crate) use pool::equal_parts;
pub(crate) use score::{Pass, Place, Sizes, TileScore};

/// What is computed from any score.
#[derive(Debug)]
pub(crate) struct Attention<'a, E, T> {
    pub score: &'a T,
    /// `[batch, key heads, keys, value_size]`
    pub values: Rows<'a, E>,
    /// Added to the scores of each key, `[batch, heads or 1, 1, keys]`. Minus infinity hides a key.
    pub bias: Option<Rows<'a, E>>,
    pub mask: &'a Mask<'a>,
    pub dropout: Option<Dropout>,
}

impl<E: Real, T: TileScore<E>> Attention<'_, E, T> {
    /// What completed scores are multiplied with to be base-2 logits: they are natural ones if a bias was added.
    fn unit(&self) -> E {
        match self.bias {
            Some(_) => E::from_f64(std::f64::consts::LOG2_E),
            None => self.score.unit(),
        }
    }

    /// The sizes of the score.
    ///
    /// # Panics
    /// If values, bias or mask do not fit them.
    fn check(&self) -> Sizes {
        let sizes = self.score.sizes();
        let Sizes {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            ..
        } = sizes;
        self.mask.check([batch, heads, queries, keys]);
        assert!(
            key_heads > 0 && heads.is_multiple_of(key_heads) || heads == 0,
            "attention: expected key heads that divide {heads} heads, got {key_heads}"
        );
        let [.., value_size] = self.values.shape();
        let expected = [batch, key_heads, keys, value_size];
        let got = self.values.shape();
        assert!(
            got == expected,
            "attention: expected values {expected:?}, got {got:?}"
        );
        if let Some(bias) = self.bias {
            let got = bias.shape();
            let expected = [batch, if got[1] == 1 { 1 } else { heads }, 1, keys];
            assert!(
                got == expected,
                "attention: expected a bias {expected:?}, got {got:?}"
            );
        }
        sizes
    }

    /// The sizes of the score.
    ///
    /// # Panics
    /// If values, bias or outputs do not fit them.
    pub(crate) fn check_forward(&self, context: &[E], lse: &[E]) -> Sizes {
        let sizes = self.check();
        let Sizes {
            batch,
            heads,
            queries,
            ..
        } = sizes;
        let [.., value_size] = self.values.shape();
        assert_len(
            "context",
            context.len(),
            [batch, heads, queries, value_size],
        );
        assert_len("lse", lse.len(), [batch, heads, queries]);
        sizes
    }

    /// The sizes of the score.
    ///
    /// # Panics
    /// If values, bias, outputs or gradients do not fit them.
    pub(crate) fn check_backward(&self, outputs: &Outputs<E>, gradients: &Gradients<E>) -> Sizes {
        let sizes = self.check_outputs(outputs);
        let Sizes {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            query_size,
            key_size,
            shared,
        } = sizes;
        let [.., value_size] = self.values.shape();
        assert_len(
            "query gradient",
            gradients.queries.len(),
            [batch, heads, queries, query_size],
        );
        assert_len(
            "key gradient",
            gradients.keys.len(),
            [batch, key_heads, keys, key_size],
        );
        assert_len(
            "value gradient",
            gradients.values.len(),
            [batch, key_heads, keys, value_size],
        );
        assert_len("shared gradient", gradients.shared.len(), [shared]);
        self.check_bias(&sizes, gradients.bias);
        sizes
    }

    /// # Panics
    /// If the sizes of inputs and outputs do not fit together.
    pub(crate) fn check_outputs(&self, outputs: &Outputs<E>) -> Sizes {
        let sizes = self.check();
        let Sizes {
            batch,
            heads,
            queries,
            ..
        } = sizes;
        assert_len("lse", outputs.lse.len(), [batch, heads, queries]);
        let [.., value_size] = self.values.shape();
        let expected = [batch, heads, queries, value_size];
        let rows = [
            ("context", &outputs.context),
            ("context gradient", &outputs.context_gradient),
        ];
        for (name, rows) in rows {
            let got = rows.shape();
            assert!(
                got == expected,
                "attention: expected a {name} {expected:?}, got {got:?}"
            );
        }
        sizes
    }

    /// # Panics
    /// If `gradient` is not that of the bias, nor empty.
    pub(crate) fn check_bias(&self, sizes: &Sizes, gradient: &[E]) {
        if !gradient.is_empty() {
            let bias_heads = self.bias.map_or(0, |bias| bias.shape()[1]);
            let shape = [sizes.batch, bias_heads, sizes.keys];
            assert_len("bias gradient", gradient.len(), shape);
        }
    }
}

/// # Panics
/// If a slice has not as many numbers as its shape.
pub(crate) fn assert_len<const N: usize>(name: &str, got: usize, shape: [usize; N]) {
    let expected: usize = shape.iter().product();
    assert!(
        got == expected,
        "attention: {name} {shape:?} expected {expected} numbers, got {got}"
    );
}
