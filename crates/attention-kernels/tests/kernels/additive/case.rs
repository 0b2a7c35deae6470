//! Inputs of the additive score.

use attention_kernels::AttentionReal;
use attention_oracle::Axes;

use crate::owned_mask::{OwnedMask, pair};

/// Inputs in `f64`, and which keys each query attends to.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// batch, heads, queries, keys, units
    pub(crate) sizes: [usize; 5],
    /// A divisor of the heads.
    pub(crate) key_heads: usize,
    pub(crate) queries: Vec<f64>,
    pub(crate) keys: Vec<f64>,
    pub(crate) weight: Vec<f64>,
    pub(crate) mask: OwnedMask,
    /// The gradient of the scores.
    pub(crate) gradient: Vec<f64>,
}

/// Elements in `-1..1` that look random and are the same every time. The bounds of precision are relative to the error
/// that plain loops make with these very elements: with others, the error of a single sum may happen to be far smaller.
pub(crate) fn elements(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let element = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // To `f32` and back, so that both types start from the same elements.
        f64::from(((state >> 40) as f32) / (1_u64 << 23) as f32 - 1.0)
    };
    (0..count).map(element).collect()
}

impl Case {
    /// A key head for each head.
    pub(crate) fn new(sizes: [usize; 5]) -> Self {
        let [_, heads, ..] = sizes;
        Self::grouped(sizes, heads)
    }

    pub(crate) fn grouped(sizes: [usize; 5], key_heads: usize) -> Self {
        let [batch, heads, queries, keys, units] = sizes;
        let scaled = |elements: Vec<f64>| elements.into_iter().map(|x| x * 2.0).collect();
        Self {
            sizes,
            key_heads,
            queries: scaled(elements(1, batch * heads * queries * units)),
            keys: scaled(elements(2, batch * key_heads * keys * units)),
            weight: elements(3, units),
            mask: OwnedMask::default(),
            gradient: elements(4, batch * heads * queries * keys),
        }
    }

    pub(crate) fn with_intervals(
        mut self,
        shape: [usize; 2],
        f: impl Fn(usize, usize) -> [usize; 2],
    ) -> Self {
        let pairs = (0..shape[0] * shape[1]).map(|at| f(at / shape[1], at % shape[1]));
        self.mask.intervals = Some((pairs.collect(), shape));
        self
    }

    pub(crate) fn with_keep(mut self, shape: [usize; 4], f: impl Fn([usize; 4]) -> bool) -> Self {
        let flags = (0..shape.iter().product()).map(|at| f(pair(shape, at)));
        self.mask.keep = Some((flags.collect(), shape));
        self
    }

    pub(crate) fn axes(&self) -> Axes {
        let [batch, heads, queries, keys, _] = self.sizes;
        let key_heads = self.key_heads;
        Axes {
            batch,
            heads,
            key_heads,
            queries,
            keys,
        }
    }

    /// Where the key head of the `head`-th head of all examples stands among all key heads.
    pub(crate) fn key_head(&self, head: usize) -> usize {
        let [_, heads, ..] = self.sizes;
        head / heads * self.key_heads + head % heads * self.key_heads / heads
    }

    /// Whether a query of the `head`-th head of all examples attends to a key.
    pub(crate) fn attends(&self, head: usize, query: usize, key: usize) -> bool {
        let [_, heads, ..] = self.sizes;
        self.mask.attends([head / heads, head % heads, query, key])
    }
}

pub(crate) fn from_f64<E: AttentionReal>(elements: &[f64]) -> Vec<E> {
    elements.iter().map(|x| E::from_f64(*x)).collect()
}

pub(crate) fn to_f64<E: AttentionReal>(elements: &[E]) -> Vec<f64> {
    elements.iter().map(|x| x.to_f64()).collect()
}
