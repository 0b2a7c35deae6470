//! How the work on pairs of queries and keys is divided.

/// A tile of queries and keys, and which of its pairs each unit of a cube computes.
///
/// The units of a cube stand in `row_groups` rows of `key_groups`. A unit computes `rows` neighbouring queries by
/// `keys` keys that are `key_groups` apart, so that neighbouring units read neighbouring keys.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) struct Tiling {
    pub(super) row_groups: usize,
    pub(super) rows: usize,
    pub(super) key_groups: usize,
    pub(super) keys: usize,
    /// The elements of a vector that lie in shared memory at a time.
    pub(super) chunk: usize,
}

impl Tiling {
    /// 15.2 KiB of shared memory: WebGPU promises 16.
    const MANY: Self = Self {
        row_groups: 8,
        rows: 4,
        key_groups: 32,
        keys: 2,
        chunk: 16,
    };
    /// For few queries.
    const FEW: Self = Self {
        rows: 1,
        ..Self::MANY
    };

    /// The one for so many queries.
    pub(super) fn new(queries: usize) -> Self {
        if queries > Self::FEW.query_tile() {
            Self::MANY
        } else {
            Self::FEW
        }
    }

    /// The units of a cube.
    pub(super) const fn units(&self) -> usize {
        self.row_groups * self.key_groups
    }

    pub(super) const fn query_tile(&self) -> usize {
        self.row_groups * self.rows
    }

    pub(super) const fn key_tile(&self) -> usize {
        self.key_groups * self.keys
    }

    /// The bytes of shared memory that a cube takes.
    pub(super) const fn shared_memory(&self) -> usize {
        let stage = self.chunk * (self.query_tile() + self.key_tile() + 3);
        let pairs = self.query_tile() * self.key_tile();
        4 * (stage + pairs + self.units() + self.query_tile() + 1)
    }

    /// The pairs of a unit.
    pub(super) const fn pairs(&self) -> usize {
        self.rows * self.keys
    }

    /// Where one query's keys are shared by several units: how many.
    pub(super) const fn lanes(&self) -> usize {
        self.units() / self.query_tile()
    }

    /// The units that share a column of the stage where gradients of additive scores are added up.
    pub(super) const fn gradient_groups(&self) -> usize {
        self.units() / self.chunk
    }

    /// The queries of each of these.
    pub(super) const fn gradient_rows(&self) -> usize {
        self.query_tile().div_ceil(self.gradient_groups())
    }

    /// The keys of each of these.
    pub(super) const fn gradient_keys(&self) -> usize {
        self.key_tile().div_ceil(self.gradient_groups())
    }
}
