//! Sizes, and numbers to compute with.

use attention_kernels::{Dropout, Real};

/// Sizes and what else matters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) key_heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) size: usize,
    pub(crate) value_size: usize,
    /// Standard deviation of the scores.
    pub(crate) spread: f64,
    /// 0 for no bias, 1 for one of all heads, `heads` for one of each.
    pub(crate) bias_heads: usize,
    pub(crate) dropout: Option<Dropout>,
}

impl Case {
    /// Unequal and prime; smaller for Miri, which takes a thousand times as long.
    pub(crate) const SMALL: Self = Self {
        batch: if cfg!(miri) { 1 } else { 2 },
        heads: if cfg!(miri) { 1 } else { 3 },
        key_heads: if cfg!(miri) { 1 } else { 3 },
        queries: 5,
        keys: 7,
        size: if cfg!(miri) { 3 } else { 11 },
        value_size: if cfg!(miri) { 5 } else { 13 },
        spread: 1.0,
        bias_heads: 0,
        dropout: None,
    };

    /// Above every tile.
    pub(crate) const LARGE: Self = Self {
        batch: 1,
        heads: 2,
        key_heads: 1,
        queries: 211,
        keys: 307,
        ..Self::SMALL
    };

    pub(crate) fn scale(&self) -> f64 {
        self.spread / (self.size.max(1) as f64).sqrt()
    }

    pub(crate) fn inputs<E: Real>(&self, seed: u64) -> Inputs<E> {
        let &Self {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            size,
            value_size,
            ..
        } = self;
        let mut numbers = Numbers(seed);
        let mut draw = |count: usize| (0..count).map(|_| numbers.normal()).collect::<Vec<E>>();
        Inputs {
            queries: draw(batch * heads * queries * size),
            keys: draw(batch * key_heads * keys * size),
            values: draw(batch * key_heads * keys * value_size),
            bias: draw(batch * self.bias_heads * keys),
            context_gradient: draw(batch * heads * queries * value_size),
        }
    }
}

/// Repeatable numbers.
pub(crate) struct Numbers(pub u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A sum of uniform numbers, rounded to `f32` so that all types compute with the same.
    pub(crate) fn normal<E: Real>(&mut self) -> E {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        E::from_f64(f64::from((sum - 6.0) as f32))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Inputs<E> {
    pub(crate) queries: Vec<E>,
    pub(crate) keys: Vec<E>,
    pub(crate) values: Vec<E>,
    pub(crate) bias: Vec<E>,
    pub(crate) context_gradient: Vec<E>,
}
