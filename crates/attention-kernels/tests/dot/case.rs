//! Sizes, and elements to compute with.

use attention_kernels::AttentionReal;
use attention_kernels::Dropout;

use crate::modifiers::{Modifiers, OwnedModifiers};
use crate::random::Random;

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
    pub(crate) modifiers: Modifiers,
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
        modifiers: Modifiers::NONE,
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

    /// `[batch, heads, queries, keys]`
    pub(crate) fn pairs(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }

    pub(crate) fn inputs<E: AttentionReal>(&self, seed: u64) -> Inputs<E> {
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
        let mut random = Random::new(seed);
        let mut draw = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<E>>();
        Inputs {
            queries: draw(batch * heads * queries * size),
            keys: draw(batch * key_heads * keys * size),
            values: draw(batch * key_heads * keys * value_size),
            context_gradient: draw(batch * heads * queries * value_size),
            modifiers: self.modifiers.with_elements(self.pairs(), draw),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Inputs<E> {
    pub(crate) queries: Vec<E>,
    pub(crate) keys: Vec<E>,
    pub(crate) values: Vec<E>,
    pub(crate) context_gradient: Vec<E>,
    pub(crate) modifiers: OwnedModifiers<E>,
}
