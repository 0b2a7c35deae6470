//! Inputs of all kernels.

use attention_kernels::{AttentionOutputs, AttentionReal, Dropout, LogSumExp, Mask, Rows};

use crate::modifiers::{Modifiers, OwnedModifiers};
use crate::random::Random;

pub(crate) const BATCH: usize = 2;
pub(crate) const HEADS: usize = 4;
pub(crate) const KEY_HEADS: usize = 2;
/// More than a task takes.
pub(crate) const KEYS: usize = 301;
pub(crate) const SIZE: usize = 19;
pub(crate) const VALUE_SIZE: usize = 13;
pub(crate) const PAIRS: usize = BATCH * HEADS * KEYS;
/// The elements of the queries' gradients for each query, of the keys' and of the values'.
pub(crate) const LENS: [usize; 3] = [
    BATCH * HEADS * SIZE,
    BATCH * KEY_HEADS * KEYS * SIZE,
    BATCH * KEY_HEADS * KEYS * VALUE_SIZE,
];

/// Decoding with both scores, with additive ones alone, and with neither.
const QUERIES: [usize; 3] = [1, 3, 7];

const BOUNDS: [[usize; 2]; BATCH] = [[3, KEYS], [0, 270]];

/// Elements, and whether queries attend to some keys only.
#[derive(Clone, Debug)]
pub(crate) struct Case<E> {
    pub(crate) num_queries: usize,
    queries: Vec<E>,
    keys: Vec<E>,
    values: Vec<E>,
    context_gradient: Vec<E>,
    /// The weight of the additive score.
    pub(crate) weight: Vec<E>,
    pub(crate) modifiers: OwnedModifiers<E>,
    is_masked: bool,
    pub(crate) dropout: Option<Dropout>,
}

impl<E: AttentionReal> Case<E> {
    /// Plain, masked with dropout, and with elements that are large or not finite; each with its name.
    pub(crate) fn all() -> Vec<(String, Self)> {
        let of = |num_queries| {
            let plain = Self::new(num_queries);
            let mut masked = plain.clone();
            (masked.is_masked, masked.dropout) = (true, Some(Dropout::new(0.3, 5)));
            let mut extreme = masked.clone();
            (extreme.queries[4], extreme.keys[SIZE * 4]) = (E::from_f64(9.0), E::from_f64(-40.0));
            extreme.keys[SIZE * 11] = E::from_f64(f64::NAN);
            extreme.values[VALUE_SIZE * 17] = E::INFINITY;
            extreme.context_gradient[1] = -E::INFINITY;
            let cases = [("plain", plain), ("masked", masked), ("extreme", extreme)];
            cases.map(|(name, case)| (format!("{name}, {num_queries} queries"), case))
        };
        QUERIES.into_iter().flat_map(of).collect()
    }

    fn new(num_queries: usize) -> Self {
        let mut random = Random::new(1);
        let mut draw = |count: usize| (0..count).map(|_| random.normal()).collect::<Vec<E>>();
        let [of_query, of_keys, of_values] = LENS;
        Self {
            num_queries,
            queries: draw(of_query * num_queries),
            keys: draw(of_keys),
            values: draw(of_values),
            context_gradient: draw(BATCH * HEADS * num_queries * VALUE_SIZE),
            weight: draw(SIZE),
            modifiers: Modifiers::ALL.with_elements([BATCH, HEADS, num_queries, KEYS], draw),
            is_masked: false,
            dropout: None,
        }
    }

    fn of_queries<'a>(&self, elements: &'a [E], size: usize) -> Rows<'a, E> {
        Rows::contiguous(elements, [BATCH, HEADS, self.num_queries, size])
    }

    pub(crate) fn queries(&self) -> Rows<'_, E> {
        self.of_queries(&self.queries, SIZE)
    }

    pub(crate) fn keys(&self) -> Rows<'_, E> {
        Rows::contiguous(&self.keys, [BATCH, KEY_HEADS, KEYS, SIZE])
    }

    pub(crate) fn values(&self) -> Rows<'_, E> {
        Rows::contiguous(&self.values, [BATCH, KEY_HEADS, KEYS, VALUE_SIZE])
    }

    /// The numbers of elements and of rows of the context.
    pub(crate) fn context_len(&self) -> [usize; 2] {
        let rows = BATCH * HEADS * self.num_queries;
        [rows * VALUE_SIZE, rows]
    }

    /// The outputs of a forward pass.
    pub(crate) fn outputs<'a>(
        &'a self,
        context: &'a [E],
        lse: &'a [LogSumExp],
    ) -> AttentionOutputs<'a, E> {
        AttentionOutputs {
            context: self.of_queries(context, VALUE_SIZE),
            lse,
            weights: None,
            context_gradient: self.of_queries(&self.context_gradient, VALUE_SIZE),
        }
    }

    pub(crate) fn mask(&self) -> Mask<'_> {
        match self.is_masked {
            true => Mask::none().with_intervals(&BOUNDS, [BATCH, 1]),
            false => Mask::none(),
        }
    }
}
