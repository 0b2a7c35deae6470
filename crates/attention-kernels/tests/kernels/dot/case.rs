//! Sizes, and elements to compute with.

use attention_kernels::{AttentionInputs, AttentionReal, Dropout, Level, Mask, Rows, Score};

use crate::modifiers::{Modifiers, OwnedModifiers};
use crate::random::Random;
use crate::run::{Results, assert_deferred_agrees, run};

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
    /// Unequal and prime.
    pub(crate) const SMALL: Self = Self {
        batch: 2,
        heads: 3,
        key_heads: 3,
        queries: 5,
        keys: 7,
        size: 11,
        value_size: 13,
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

    /// One example and head.
    pub(crate) const fn alone(self) -> Self {
        self.with_batch(1).with_heads(1, 1)
    }

    pub(crate) const fn with_heads(mut self, heads: usize, key_heads: usize) -> Self {
        (self.heads, self.key_heads) = (heads, key_heads);
        self
    }

    pub(crate) const fn with_pairs(self, queries: usize, keys: usize) -> Self {
        self.with_queries(queries).with_keys(keys)
    }

    pub(crate) const fn with_sizes(mut self, size: usize, value_size: usize) -> Self {
        (self.size, self.value_size) = (size, value_size);
        self
    }

    pub(crate) fn scale(&self) -> f64 {
        self.spread / (self.size.max(1) as f64).sqrt()
    }

    /// Rows of queries or contexts.
    pub(crate) fn of_queries<'a, E>(&self, elements: &'a [E], size: usize) -> Rows<'a, E> {
        Rows::contiguous(elements, [self.batch, self.heads, self.queries, size])
    }

    /// `[batch, heads, queries, keys]`
    pub(crate) fn pairs(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }

    pub(crate) fn inputs<E: AttentionReal>(&self, seed: u64) -> Inputs<E> {
        let mut random = Random::new(seed);
        let mut draw = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<E>>();
        let queries = self.batch * self.heads * self.queries;
        let keys = self.batch * self.key_heads * self.keys;
        Inputs {
            queries: draw(queries * self.size),
            keys: draw(keys * self.size),
            values: draw(keys * self.value_size),
            context_gradient: draw(queries * self.value_size),
            modifiers: self.modifiers.with_elements(self.pairs(), draw),
        }
    }
}

macro_rules! with {
    ($($method:ident: $field:ident, $type:ty;)*) => {
        impl Case {
            $(pub(crate) const fn $method(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

with! {
    with_batch: batch, usize;
    with_queries: queries, usize;
    with_keys: keys, usize;
    with_spread: spread, f64;
    with_value_size: value_size, usize;
    with_modifiers: modifiers, Modifiers;
    with_dropout: dropout, Option<Dropout>;
}

#[derive(Clone, Debug)]
pub(crate) struct Inputs<E> {
    pub(crate) queries: Vec<E>,
    pub(crate) keys: Vec<E>,
    pub(crate) values: Vec<E>,
    pub(crate) context_gradient: Vec<E>,
    pub(crate) modifiers: OwnedModifiers<E>,
}

impl<E: AttentionReal> Inputs<E> {
    /// The inputs of the kernels, of a case of these sizes.
    pub(crate) fn attention<'a>(&'a self, case: &Case, mask: Mask<'a>) -> AttentionInputs<'a, E> {
        let of_keys = |elements, size| {
            Rows::contiguous(elements, [case.batch, case.key_heads, case.keys, size])
        };
        AttentionInputs {
            queries: case.of_queries(&self.queries, case.size),
            keys: of_keys(&self.keys, case.size),
            values: of_keys(&self.values, case.value_size),
            modifiers: self.modifiers.view(),
            mask,
            score: Score::DotProduct {
                scale: E::from_f64(case.scale()),
            },
            dropout: case.dropout,
        }
    }
}

/// The kernels, forward and backward.
pub(crate) fn kernels<E: AttentionReal>(
    level: Level,
    case: &Case,
    inputs: &Inputs<E>,
    mask: Mask,
) -> Results<E> {
    let attention = inputs.attention(case, mask);
    let gradient = case.of_queries(&inputs.context_gradient, case.value_size);
    let results = run(level, &attention, gradient, inputs.modifiers.zeros());
    if attention.is_decode() {
        let elements = [&inputs.queries[..], &inputs.context_gradient];
        assert_deferred_agrees(level, &attention, None, elements, &results);
    }
    results
}
