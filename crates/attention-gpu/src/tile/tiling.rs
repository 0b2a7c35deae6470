//! How the work on pairs of queries and keys is divided.

/// The number of rows, keys or elements in one iteration of a loop. Otherwise loops would be long, and Mesa's software
/// Vulkan silently ends them after 65,535 iterations of one unit.
pub(crate) const UNROLLED: usize = 8;

/// [`UNROLLED`], or `count` if that is less; `count` must be a multiple of the result.
pub(crate) const fn unrolled(count: usize) -> usize {
    if count < UNROLLED { count } else { UNROLLED }
}

/// A tile of queries and keys, and the division of its pairs among the units of a cube.
///
/// The units of a cube form `row_groups` rows of `key_groups`. A unit computes `rows` neighbouring queries by `keys`
/// keys that are `key_groups` apart, so that neighbouring units read neighbouring keys.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Tiling {
    pub(crate) row_groups: usize,
    pub(crate) rows: usize,
    pub(crate) key_groups: usize,
    pub(crate) keys: usize,
    /// The number of elements of a query or key that are in shared memory at a time.
    pub(crate) chunk: usize,
}

impl Tiling {
    /// All tilings.
    pub(crate) const ALL: [Self; 3] = [Self::MANY, Self::FEW, Self::ONE];
    /// 15.2 KiB of shared memory: WebGPU guarantees 16.
    const MANY: Self = Self {
        row_groups: 8,
        rows: 4,
        key_groups: 32,
        keys: 2,
        chunk: 16,
    };
    /// The tiling for few queries.
    const FEW: Self = Self {
        rows: 1,
        ..Self::MANY
    };
    /// The tiling for a single query, such as a decoder's.
    const ONE: Self = Self {
        row_groups: 1,
        rows: 1,
        key_groups: 64,
        keys: 1,
        chunk: 32,
    };

    /// The tiling for `queries` queries.
    pub(crate) fn new(queries: usize) -> Self {
        Self::of(queries)[0]
    }

    /// The tilings that may be the fastest for `queries` queries; the first one is the default.
    pub(crate) fn of(queries: usize) -> [Self; 2] {
        if queries > Self::FEW.query_tile() {
            [Self::MANY, Self::FEW]
        } else if queries > 1 {
            [Self::FEW, Self::ONE]
        } else {
            [Self::ONE, Self::FEW]
        }
    }

    /// The number of units of a cube.
    pub(crate) const fn units(&self) -> usize {
        self.row_groups * self.key_groups
    }

    pub(crate) const fn query_tile(&self) -> usize {
        self.row_groups * self.rows
    }

    pub(crate) const fn key_tile(&self) -> usize {
        self.key_groups * self.keys
    }

    /// The shared memory of a cube, in bytes.
    pub(crate) const fn shared_memory(&self) -> usize {
        let stage = self.chunk * (self.query_tile() + self.key_tile() + 3);
        let pairs = self.query_tile() * self.key_tile();
        4 * (stage + pairs + self.units() + self.query_tile() + 1)
    }

    /// The number of pairs of a unit.
    pub(crate) const fn pairs(&self) -> usize {
        self.rows * self.keys
    }

    /// The number of distances all of whose pairs are in a tile of queries and a tile of keys that begins at the first
    /// distance from the first query.
    pub(crate) const fn distances(&self) -> usize {
        self.key_tile() - self.query_tile() + 1
    }

    /// The number of units that share one query's keys.
    pub(crate) const fn lanes(&self) -> usize {
        self.units() / self.query_tile()
    }

    /// The number of units that share a column of the stage when gradients of additive scores are summed.
    pub(crate) const fn gradient_groups(&self) -> usize {
        self.units() / self.chunk
    }

    /// The number of queries of each of these groups; the last ones may have none.
    pub(crate) const fn gradient_rows(&self) -> usize {
        self.query_tile().div_ceil(self.gradient_groups())
    }

    /// The number of keys of each of these groups.
    pub(crate) const fn gradient_keys(&self) -> usize {
        self.key_tile().div_ceil(self.gradient_groups())
    }

    /// The number of keys of a unit when products with queries are summed.
    pub(crate) const fn keys_of_group(&self) -> usize {
        self.key_tile() / self.row_groups
    }
}

/// The rows of a tile: its queries or its keys.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Side {
    Queries,
    Keys,
}

impl Side {
    /// The number of rows.
    pub(crate) const fn tile(self, tiling: Tiling) -> usize {
        match self {
            Self::Queries => tiling.query_tile(),
            Self::Keys => tiling.key_tile(),
        }
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Queries => Self::Keys,
            Self::Keys => Self::Queries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tilings_fit_into_what_webgpu_promises() {
        for tiling in Tiling::ALL {
            assert!(tiling.units() <= 256 && tiling.shared_memory() <= 16_384);
            assert_eq!(tiling.units() % tiling.query_tile(), 0);
            assert_eq!(tiling.units() % tiling.chunk, 0);
            assert_eq!(tiling.key_tile() % tiling.row_groups, 0);
            assert!(tiling.query_tile() <= tiling.key_tile());
            assert!(tiling.distances() <= tiling.units());
            assert!(tiling.gradient_rows() <= UNROLLED);
            for count in [
                tiling.query_tile(),
                tiling.key_tile(),
                tiling.chunk,
                tiling.gradient_keys(),
                tiling.keys_of_group(),
            ] {
                assert_eq!(count % unrolled(count), 0, "{tiling:?}");
            }
        }
    }
}
