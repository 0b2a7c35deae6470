//! Inputs of attention, for either score.

use std::collections::BTreeSet;
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
    /// Pairwise attention by the additive term.
    Pairwise,
}

/// Queries, keys, values and what else there is.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) sizes: Sizes,
    pub(super) queries: Tensor,
    pub(super) keys: Tensor,
    pub(super) values: Tensor,
    pub(super) soft_cap: Option<f64>,
    /// `[batch, heads or 1, queries or 1, keys]`
    pub(super) bias: Option<Tensor>,
    /// `[batch, heads or 1, 1, queries + keys - 1]`
    pub(super) relative_bias: Option<Tensor>,
    /// `[heads]`
    pub(super) sinks: Option<Vec<f64>>,
    pub(super) context_gradient: Tensor,
    /// `[batch, heads, queries, keys]`
    pub(super) score_gradient: Tensor,
    /// The weight of the additive score, `[units]`.
    pub(super) weight: Vec<f64>,
    /// The scale of the dot product.
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
        let ([batch, heads, queries, keys], key_heads) = (sizes.scores(), sizes.key_heads);
        let (size, value_size) = (sizes.size, sizes.value_size);
        let mask = OwnedMask::from_bytes(bytes, sizes.scores());
        let amplitude = bytes.one_of(&[1.0, 0.125, 4.0, 32.0]);
        let tensor = |bytes: &mut Bytes, [heads, rows, size]: [usize; 3], amplitude| {
            Tensor::from_bytes(bytes, [batch, heads, rows, size], amplitude)
        };
        let of_queries = tensor(bytes, [heads, queries, size], amplitude);
        let of_keys = tensor(bytes, [key_heads, keys, size], amplitude);
        let values = tensor(bytes, [key_heads, keys, value_size], 1.0);
        let context_gradient = tensor(bytes, [heads, queries, value_size], 1.0);
        let mut random = Random::new(bytes.next() as u64);
        let has_modifiers = kind != Kind::AdditiveScore;
        let mut bias = |bytes: &mut Bytes, rows: usize, size: usize| {
            let heads = bytes.one_of(&[None, Some(1), Some(heads)]);
            let heads = heads.filter(|_| has_modifiers)?;
            let mut bias = tensor(bytes, [heads, rows, size], 2.0);
            if bytes.next() % 2 == 1 {
                let elements = bias.data.iter_mut().filter(|_| random.below(9) == 0);
                elements.for_each(|element| *element = f64::NEG_INFINITY);
            }
            Some(bias)
        };
        let bias_rows = bytes.one_of(&[1, queries]);
        let pair_bias = bias(bytes, bias_rows, keys);
        let relative_bias = bias(bytes, 1, (queries + keys).saturating_sub(1));
        let soft_cap = bytes.one_of(&[None, Some(0.5), Some(8.0)]);
        let largest_sink = bytes.one_of(&[None, Some(1.0), Some(30.0)]);
        let mut sink = |largest| match random.below(7) {
            0 => f64::NEG_INFINITY,
            _ => largest * random.element(),
        };
        let sinks = largest_sink.map(|largest| (0..heads).map(|_| sink(largest)).collect());
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
            queries: of_queries,
            keys: of_keys,
            values,
            soft_cap: soft_cap.filter(|_| has_modifiers),
            bias: pair_bias,
            relative_bias,
            sinks: sinks.filter(|_| has_modifiers),
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
        let [batch, heads, queries, _] = self.sizes.scores();
        let rows = batch * heads * queries;
        [rows * self.sizes.value_size, rows]
    }

    /// Copies in order, the examples in another order.
    pub(super) fn reordered(&self, order: &[usize]) -> Self {
        let [bias, relative] = [&self.bias, &self.relative_bias].map(Option::as_ref);
        Self {
            queries: self.queries.reordered(order),
            keys: self.keys.reordered(order),
            values: self.values.reordered(order),
            bias: bias.map(|bias| bias.reordered(order)),
            relative_bias: relative.map(|bias| bias.reordered(order)),
            context_gradient: self.context_gradient.reordered(order),
            score_gradient: self.score_gradient.reordered(order),
            mask: self.mask.reordered(order),
            ..self.clone()
        }
    }

    /// A copy whose tensors hold elements of `storage`.
    pub(super) fn rounded(&self, storage: Storage) -> Self {
        let [bias, relative] = [&self.bias, &self.relative_bias].map(Option::as_ref);
        Self {
            queries: self.queries.rounded(storage),
            keys: self.keys.rounded(storage),
            values: self.values.rounded(storage),
            bias: bias.map(|bias| bias.rounded(storage)),
            relative_bias: relative.map(|bias| bias.rounded(storage)),
            context_gradient: self.context_gradient.rounded(storage),
            score_gradient: self.score_gradient.rounded(storage),
            ..self.clone()
        }
    }

    /// NaN and infinities in everything that no pair needs but masked ones: keys, values and biases of keys that no
    /// query attends to, queries that attend to no key and the gradients of what they get, and the gradients of masked
    /// scores.
    pub(super) fn poisoned(&self) -> Self {
        let [_, heads, queries, keys] = self.sizes.scores();
        let attends = |at| self.mask.attends(at);
        let query = |[b, h, i, _]: [usize; 4]| (0..keys).any(|j| attends([b, h, i, j]));
        let group = |[b, key_head, j, _]: [usize; 4]| {
            let mut heads = (0..heads).filter(|head| self.sizes.key_head(*head) == key_head);
            heads.any(|h| (0..queries).any(|i| attends([b, h, i, j])))
        };
        let pairs = (0..self.sizes.pairs()).map(|at| self.sizes.pair(at));
        let attended: Vec<[usize; 4]> = pairs.filter(|at| attends(*at)).collect();
        let bias = self.bias.as_ref().map(|bias| {
            let read: BTreeSet<_> = attended.iter().map(|at| bias.broadcast(*at)).collect();
            bias.poisoned(|at| read.contains(&at))
        });
        let relative_bias = self.relative_bias.as_ref().map(|bias| {
            let distances = attended.iter().map(|at| self.sizes.distance(*at));
            let read: BTreeSet<_> = distances.map(|at| bias.broadcast(at)).collect();
            bias.poisoned(|at| read.contains(&at))
        });
        Self {
            queries: self.queries.poisoned(query),
            keys: self.keys.poisoned(group),
            values: self.values.poisoned(group),
            bias,
            relative_bias,
            context_gradient: self.context_gradient.poisoned(query),
            score_gradient: self.score_gradient.poisoned(attends),
            ..self.clone()
        }
    }
}

/// Without the elements, which are many.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (kind, sizes, scale, dropout) = (self.kind, self.sizes, self.scale, self.dropout);
        write!(
            f,
            "{kind:?}, {sizes:?}, scale {scale}, {dropout:?}, {:?}",
            self.mask
        )?;
        let shape = |bias: &Option<Tensor>| bias.as_ref().map(|bias| bias.shape);
        let [bias, relative_bias] = [&self.bias, &self.relative_bias].map(shape);
        write!(f, ", soft-cap {:?}, bias {bias:?}", self.soft_cap)?;
        write!(
            f,
            ", relative bias {relative_bias:?}, sinks {:?}",
            self.sinks
        )
    }
}
