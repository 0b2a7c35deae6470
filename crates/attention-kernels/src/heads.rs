//! Coordinates of heads.

use cpu_kernels::checks::check_shape;

/// One head of one example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadIndex {
    /// The example.
    pub batch: usize,
    /// The head within the example.
    pub head: usize,
}

/// A head of the queries, and the head of the keys and values that it attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadPair {
    pub query: HeadIndex,
    pub key: HeadIndex,
}

/// The number of heads, `[batch, heads]` for queries and `[batch, key_heads]` for keys and values.
///
/// Heads are grouped: head `h` attends to the key head `h * key_heads / heads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heads {
    pub batch: usize,
    pub heads: usize,
    /// A divisor of `heads`.
    pub key_heads: usize,
}

impl HeadIndex {
    /// The `index`-th head, counted over the `heads` heads of all examples.
    #[inline(always)]
    pub(crate) fn nth(index: usize, heads: usize) -> Self {
        Self {
            batch: index / heads,
            head: index % heads,
        }
    }

    /// The inverse of [`nth`](Self::nth).
    #[inline(always)]
    pub(crate) fn position(self, heads: usize) -> usize {
        self.batch * heads + self.head
    }
}

impl Heads {
    /// The heads of queries `[batch, heads, queries, size]` and keys `[batch, key_heads, keys, size]`.
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub(crate) fn of(operation: &str, queries: [usize; 4], keys: [usize; 4]) -> Self {
        let [batch, heads, _, size] = queries;
        let [_, key_heads, num_keys, _] = keys;
        let expected = [batch, key_heads, num_keys, size];
        check_shape(operation, "keys", expected, keys);
        assert!(
            heads == 0 || key_heads > 0 && heads.is_multiple_of(key_heads),
            "{operation}: key heads expected a divisor of {heads}, got {key_heads}"
        );
        Self {
            batch,
            heads,
            key_heads,
        }
    }

    /// The number of query heads in all examples.
    pub(crate) fn count(self) -> usize {
        self.batch * self.heads
    }

    /// The number of key heads in all examples.
    pub(crate) fn key_count(self) -> usize {
        self.batch * self.key_heads
    }

    /// The number of query heads that share a key head.
    #[inline(always)]
    pub(crate) fn group(self) -> usize {
        self.heads / self.key_heads.max(1)
    }

    /// The `index`-th query head with its key head.
    #[inline(always)]
    pub(crate) fn nth(self, index: usize) -> HeadPair {
        let query = HeadIndex::nth(index, self.heads);
        let head = query.head / self.group();
        HeadPair {
            query,
            key: HeadIndex { head, ..query },
        }
    }

    /// The `member`-th of the query heads that share a key head.
    #[inline(always)]
    pub(crate) fn member(self, key: HeadIndex, member: usize) -> HeadIndex {
        HeadIndex {
            head: key.head * self.group() + member,
            ..key
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_head_has_a_group_of_heads() {
        let heads = Heads {
            batch: 2,
            heads: 6,
            key_heads: 2,
        };
        for index in 0..heads.count() {
            let HeadPair { query, key } = heads.nth(index);
            assert_eq!(query.position(heads.heads), index);
            assert_eq!(key.batch, query.batch);
            assert_eq!(key.head, query.head * heads.key_heads / heads.heads);
            assert_eq!(
                heads.member(key, query.head % heads.group()),
                query,
                "{index}"
            );
        }
    }
}
