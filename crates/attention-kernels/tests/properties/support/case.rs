//! Inputs of attention, for either score.

use std::fmt;

use attention_kernels::Dropout;

use super::bytes::Bytes;
use super::owned_mask::OwnedMask;
use super::random::Random;
use super::sizes::Sizes;
use super::tensor::{Storage, Tensor};

/// The kernel that is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    AdditiveScore,
    AdditiveAttention,
    DotProduct,
}

/// Queries, keys, values and what else there is.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) sizes: Sizes,
    pub(super) queries: Tensor,
    pub(super) keys: Tensor,
    pub(super) values: Tensor,
    /// That of the dot product, `[batch, heads or 1, 1, keys]`.
    pub(super) bias: Option<Tensor>,
    pub(super) context_gradient: Tensor,
    /// `[batch, heads, queries, keys]`
    pub(super) score_gradient: Tensor,
    /// That of the additive score, `[units]`.
    pub(super) weight: Vec<f64>,
    /// That of the dot product.
    pub(super) scale: f64,
    pub(super) mask: OwnedMask,
    pub(super) dropout: Option<Dropout>,
    /// An order of the examples.
    pub(super) order: Vec<usize>,
}

impl Case {
    pub(super) fn from_bytes(bytes: &[u8], kind: Kind) -> Self {
        let bytes = &mut Bytes::new(bytes);
        let sizes = Sizes::from_bytes(bytes);
        let Sizes {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            size,
            value_size,
        } = sizes;
        let mask = OwnedMask::from_bytes(bytes, sizes.scores());
        let amplitude = bytes.one_of(&[1.0, 0.125, 4.0, 32.0]);
        let tensor = |bytes: &mut Bytes, [heads, rows, size]: [usize; 3], amplitude| {
            Tensor::from_bytes(bytes, [batch, heads, rows, size], amplitude)
        };
        let queries = tensor(bytes, [heads, queries, size], amplitude);
        let keys = tensor(bytes, [key_heads, keys, size], amplitude);
        let values = tensor(bytes, [key_heads, sizes.keys, value_size], 1.0);
        let context_gradient = tensor(bytes, [heads, sizes.queries, value_size], 1.0);
        let mut random = Random::new(bytes.next() as u64);
        let bias_heads = match kind {
            Kind::DotProduct => bytes.one_of(&[None, Some(1), Some(heads)]),
            _ => None,
        };
        let bias = bias_heads.map(|heads| {
            let mut bias = tensor(bytes, [heads, 1, sizes.keys], 2.0);
            if bytes.next() % 2 == 1 {
                for element in &mut bias.data {
                    *element = if random.below(9) == 0 {
                        f64::NEG_INFINITY
                    } else {
                        *element
                    };
                }
            }
            bias
        });
        let dropout = bytes.one_of(&[None, None, Some(0.0), Some(0.3), Some(1.0)]);
        let mut order: Vec<usize> = (0..batch).collect();
        for at in 1..batch {
            order.swap(at, random.below(at + 1));
        }
        let some_are_small = bytes.next() % 2 == 1;
        let weight = |random: &mut Random| match some_are_small.then(|| random.below(4)) {
            Some(0) => 0.0,
            Some(1) => f64::from((random.element() * 1e-7) as f32),
            _ => random.element(),
        };
        let scale = f64::from(1.0 / (size.max(1) as f32).sqrt());
        Self {
            kind,
            sizes,
            queries,
            keys,
            values,
            bias,
            context_gradient,
            score_gradient: Tensor::from_bytes(bytes, sizes.scores(), 1.0),
            weight: (0..size).map(|_| weight(&mut random)).collect(),
            scale: bytes.one_of(&[scale, -scale, 0.0]),
            mask,
            dropout: dropout.map(|probability| Dropout::new(probability, 17)),
            order,
        }
    }

    /// How many elements context and log-sum-exp have.
    pub(super) fn output_lens(&self) -> [usize; 2] {
        let Sizes {
            batch,
            heads,
            queries,
            value_size,
            ..
        } = self.sizes;
        [
            batch * heads * queries * value_size,
            batch * heads * queries,
        ]
    }

    /// Copies in order, the examples in another order.
    pub(super) fn reordered(&self, order: &[usize]) -> Self {
        Self {
            queries: self.queries.reordered(order),
            keys: self.keys.reordered(order),
            values: self.values.reordered(order),
            bias: self.bias.as_ref().map(|bias| bias.reordered(order)),
            context_gradient: self.context_gradient.reordered(order),
            score_gradient: self.score_gradient.reordered(order),
            mask: self.mask.reordered(order),
            ..self.clone()
        }
    }

    /// A copy whose tensors hold elements of `storage`.
    pub(super) fn rounded(&self, storage: Storage) -> Self {
        Self {
            queries: self.queries.rounded(storage),
            keys: self.keys.rounded(storage),
            values: self.values.rounded(storage),
            bias: self.bias.as_ref().map(|bias| bias.rounded(storage)),
            context_gradient: self.context_gradient.rounded(storage),
            score_gradient: self.score_gradient.rounded(storage),
            ..self.clone()
        }
    }

    /// NaN and infinities in everything that no pair needs but masked ones: keys, values and biases of keys that no
    /// query attends to, queries that attend to no key and the gradients of what they get, and the gradients of masked
    /// scores.
    pub(super) fn poisoned(&self) -> Self {
        let Sizes {
            heads,
            queries,
            keys,
            ..
        } = self.sizes;
        let attends = |at| self.mask.attends(at);
        let query = |[b, h, i, _]: [usize; 4]| (0..keys).any(|j| attends([b, h, i, j]));
        let key = |b, j, is_of: &dyn Fn(usize) -> bool| {
            let mut heads = (0..heads).filter(|head| is_of(*head));
            heads.any(|h| (0..queries).any(|i| attends([b, h, i, j])))
        };
        let group = |[b, key_head, j, _]: [usize; 4]| {
            key(b, j, &|head| self.sizes.key_head(head) == key_head)
        };
        let bias = self.bias.as_ref().map(|bias| {
            let is_shared = bias.shape[1] == 1;
            bias.poisoned(|[b, bias_head, _, j]| key(b, j, &|head| is_shared || head == bias_head))
        });
        Self {
            queries: self.queries.poisoned(query),
            keys: self.keys.poisoned(group),
            values: self.values.poisoned(group),
            bias,
            context_gradient: self.context_gradient.poisoned(query),
            score_gradient: self.score_gradient.poisoned(attends),
            ..self.clone()
        }
    }
}

/// Without the elements, which are many.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            kind,
            sizes,
            scale,
            dropout,
            mask,
            ..
        } = self;
        write!(
            f,
            "{kind:?}, {sizes:?}, scale {scale}, {dropout:?}, {mask:?}"
        )
    }
}
