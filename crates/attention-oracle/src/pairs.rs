//! The pairs of queries and keys that a mask allows.
//!
//! Tensors of queries are `[batch, heads, queries, size]`, tensors of keys `[batch, key_heads, keys, size]`, tensors of
//! pairs `[batch, heads, queries, keys]`. Elements that only concern masked pairs are never read.

/// The sizes of all axes except the last, of queries and keys.
#[derive(Clone, Copy, Debug)]
pub struct Axes {
    /// The number of examples.
    pub batch: usize,
    /// The number of query heads.
    pub heads: usize,
    /// The number of heads of keys and values, a divisor of `heads`.
    pub key_heads: usize,
    /// The number of queries of an example.
    pub queries: usize,
    /// The number of keys of an example.
    pub keys: usize,
}

/// A query that attends to a key.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Its index in a tensor of pairs.
    pub at: usize,
    /// The row of the query.
    pub query: usize,
    /// The row of the key.
    pub key: usize,
    /// The indices of example, head, query and key.
    pub place: [usize; 4],
}

/// The unmasked pairs.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// The pairs, in the order of a tensor of pairs.
    pub attended: Vec<Pair>,
    /// The sizes.
    pub axes: Axes,
}

impl Pairs {
    /// The pairs `[example, head, query, key]` for which `attends` is true.
    pub fn new(axes: Axes, attends: impl Fn([usize; 4]) -> bool) -> Self {
        let mut attended = Vec::new();
        for b in 0..axes.batch {
            for h in 0..axes.heads {
                let key_head = b * axes.key_heads + h * axes.key_heads / axes.heads;
                for i in 0..axes.queries {
                    for j in 0..axes.keys {
                        if !attends([b, h, i, j]) {
                            continue;
                        }
                        let query = (b * axes.heads + h) * axes.queries + i;
                        attended.push(Pair {
                            at: query * axes.keys + j,
                            query,
                            key: key_head * axes.keys + j,
                            place: [b, h, i, j],
                        });
                    }
                }
            }
        }
        Self { attended, axes }
    }

    /// The number of rows of queries.
    pub fn query_rows(&self) -> usize {
        self.axes.batch * self.axes.heads * self.axes.queries
    }

    /// The number of rows of keys.
    pub fn key_rows(&self) -> usize {
        self.axes.batch * self.axes.key_heads * self.axes.keys
    }

    /// The number of all pairs.
    pub fn count(&self) -> usize {
        self.query_rows() * self.axes.keys
    }

    /// The head of a row of queries.
    pub(crate) fn head(&self, query: usize) -> usize {
        query / self.axes.queries % self.axes.heads
    }
}
