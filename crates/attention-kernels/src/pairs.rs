//! What becomes of the pairs of query and key in the gradients of few queries.

use crate::stream::equal_parts;

/// Where what each pair gives the gradients of keys and values goes.
pub(crate) enum Pairs<'a, E> {
    /// It is added to the gradients of keys and values.
    Add {
        keys: &'a mut [E],
        values: &'a mut [E],
    },
    /// What they are made of is written, `[batch, heads, queries, keys]`: the gradients of the scores, and the weights after
    /// dropout.
    Keep {
        scores: &'a mut [E],
        weights: &'a mut [E],
    },
}

impl<E> Pairs<'_, E> {
    /// Those of each of `count` heads of keys.
    pub(crate) fn split(self, count: usize) -> Vec<Self> {
        let zip = |a, b| equal_parts(a, count).into_iter().zip(equal_parts(b, count));
        match self {
            Self::Add { keys, values } => zip(keys, values)
                .map(|(keys, values)| Pairs::Add { keys, values })
                .collect(),
            Self::Keep { scores, weights } => zip(scores, weights)
                .map(|(scores, weights)| Pairs::Keep { scores, weights })
                .collect(),
        }
    }
}
