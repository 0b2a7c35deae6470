//! Masks: the keys that a query attends to.

use burn_backend::TensorMetadata;
use burn_backend::ops::{BoolTensorOps, IntTensorOps};
use burn_backend::{DType, IntDType};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use crate::host::tensors::{contiguous, contiguous_i32, cube_count, empty};
use crate::tile::tiling::Tiling;

/// The value of a masked pair's score, or of its gradient.
pub(crate) const MASKED: f32 = f32::MIN;

/// A mask in a kernel: intervals and flags; each may be absent.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Mask {
    /// The first key and one past the last one of each query, then of each tile of queries, covering all keys that its
    /// queries attend to.
    pub(crate) bounds: ComptimeOption<OwnedTensor<i32>>,
    /// Nonzero where a query attends to a key.
    pub(crate) keep: ComptimeOption<OwnedTensor<i32>>,
    pub(crate) strides: Strides,
}

/// Strides of a mask's entries; 0 along an axis that it does not have.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Strides {
    pub(crate) bounds_batch: usize,
    pub(crate) bounds_query: usize,
    /// The index of the first tile's entry.
    pub(crate) tiles: usize,
    pub(crate) tiles_batch: usize,
    pub(crate) tiles_query: usize,
    pub(crate) keep_batch: usize,
    pub(crate) keep_head: usize,
    pub(crate) keep_query: usize,
    pub(crate) keep_key: usize,
}

#[cube]
impl Mask {
    /// The first key that a query attends to.
    pub(crate) fn start(&self, batch: usize, query: usize) -> usize {
        let at = batch * self.strides.bounds_batch + query * self.strides.bounds_query;
        #[comptime]
        match &self.bounds {
            ComptimeOption::Some(bounds) => usize::cast_from(bounds[2 * at]),
            ComptimeOption::None => 0usize.runtime(),
        }
    }

    /// One past the last key that a query attends to, of `keys`.
    pub(crate) fn end(&self, batch: usize, query: usize, keys: usize) -> usize {
        let at = batch * self.strides.bounds_batch + query * self.strides.bounds_query;
        #[comptime]
        match &self.bounds {
            ComptimeOption::Some(bounds) => usize::cast_from(bounds[2 * at + 1]),
            ComptimeOption::None => keys,
        }
    }

    /// The first key that a query of a tile attends to.
    pub(crate) fn tile_start(&self, batch: usize, tile: usize) -> usize {
        let strides = self.strides;
        let at = strides.tiles + batch * strides.tiles_batch + tile * strides.tiles_query;
        #[comptime]
        match &self.bounds {
            ComptimeOption::Some(bounds) => usize::cast_from(bounds[2 * at]),
            ComptimeOption::None => 0usize.runtime(),
        }
    }

    /// One past the last key that a query of a tile attends to.
    pub(crate) fn tile_end(&self, batch: usize, tile: usize, keys: usize) -> usize {
        let strides = self.strides;
        let at = strides.tiles + batch * strides.tiles_batch + tile * strides.tiles_query;
        #[comptime]
        match &self.bounds {
            ComptimeOption::Some(bounds) => usize::cast_from(bounds[2 * at + 1]),
            ComptimeOption::None => keys,
        }
    }

    /// Whether the flags let a query attend to a key.
    pub(crate) fn keeps(&self, batch: usize, head: usize, query: usize, key: usize) -> bool {
        let strides = self.strides;
        let at = batch * strides.keep_batch
            + head * strides.keep_head
            + query * strides.keep_query
            + key * strides.keep_key;
        #[comptime]
        match &self.keep {
            ComptimeOption::Some(keep) => keep[at] != 0,
            ComptimeOption::None => true.runtime(),
        }
    }
}

/// A mask on a device: every query attends to the keys that lie in its interval and are kept.
#[derive(Clone, Debug)]
pub struct DeviceMask {
    queries: usize,
    /// The tiling of `bounds`, and of kernels that read them.
    tiling: Tiling,
    /// The first key and one past the last one of each query, `[batch or 1, 1, queries or 1, 1]`.
    intervals: Option<[CubeTensor; 2]>,
    bounds: Option<CubeTensor>,
    keep: Option<CubeTensor>,
    /// The fields of [`Strides`], in order.
    strides: [usize; 9],
}

impl DeviceMask {
    /// A mask for `num_queries` queries, each of which attends to every key.
    pub fn new(num_queries: usize) -> Self {
        Self {
            queries: num_queries,
            tiling: Tiling::new(num_queries),
            intervals: None,
            bounds: None,
            keep: None,
            strides: [0; 9],
        }
    }

    /// # Panics
    /// If it was made for another number of queries.
    pub(crate) fn check(&self, num_queries: usize) {
        let got = self.queries;
        assert!(
            got == num_queries,
            "attention: mask expected for {num_queries} queries, got one for {got}"
        );
    }

    pub(crate) fn tiling(&self) -> Tiling {
        self.tiling
    }

    /// This mask for kernels in another tiling.
    pub(crate) fn in_tiles_of(&self, tiling: Tiling) -> Self {
        let mut mask = self.clone();
        if tiling != self.tiling {
            mask.tiling = tiling;
            mask.find_bounds();
        }
        mask
    }

    /// Whether examples, and whether queries, have their own intervals; `None` without intervals.
    #[cfg(feature = "autotune")]
    pub(crate) fn form_of_intervals(&self) -> Option<[bool; 2]> {
        self.intervals.as_ref().map(|[start, _]| {
            let [batch, _, queries, _] = start.shape().dims();
            [batch > 1, queries > 1]
        })
    }

    /// Whether there are flags.
    #[cfg(feature = "autotune")]
    pub(crate) fn has_flags(&self) -> bool {
        self.keep.is_some()
    }

    /// Query `i` attends to no key outside `start_i .. end_i`.
    ///
    /// # Shapes
    /// - `start` and `end`: `[batch or 1, 1, queries or 1, 1]`, integers with `0 <= start` and `end <= keys`
    pub fn with_intervals(mut self, start: CubeTensor, end: CubeTensor) -> Self {
        let [start_batch, _, start_queries, _] = start.shape().dims();
        let [end_batch, _, end_queries, _] = end.shape().dims();
        let (batch, queries) = (start_batch.max(end_batch), start_queries.max(end_queries));
        let expanded = |tensor| CubeBackend::int_expand(tensor, [batch, 1, queries, 1].into());
        self.intervals = Some([start, end].map(|bounds| contiguous_i32(expanded(bounds))));
        self.find_bounds();
        self
    }

    /// Computes the bounds of each query and of each tile, if there are intervals.
    fn find_bounds(&mut self) {
        let Some([start, end]) = self.intervals.clone() else {
            return;
        };
        let [batch, _, queries, _] = start.shape().dims();
        let tile = self.tiling.query_tile();
        let tiles = queries.div_ceil(tile);
        let bounds = empty(&start, [batch * (queries + tiles), 2], DType::I32);
        let client = start.client.clone();
        let units = CubeDim::new_1d(64);
        bounds_of_tiles::launch(
            &client,
            cube_count(&client, (batch * tiles).div_ceil(64)),
            units,
            bounds.required_address_type(),
            start.into_buffer_arg(),
            end.into_buffer_arg(),
            bounds.clone().into_buffer_arg(),
            batch,
            queries,
            tile,
        );
        self.bounds = Some(bounds);
        let along = |count, stride| if count > 1 { stride } else { 0 };
        self.strides[..5].copy_from_slice(&[
            along(batch, queries),
            along(queries, 1),
            batch * queries,
            along(batch, tiles),
            along(tiles, 1),
        ]);
    }

    /// Queries attend to no key whose flag is false.
    ///
    /// # Shapes
    /// - `keep`: `[batch or 1, heads or 1, queries or 1, keys or 1]`, flags
    pub fn with_keep(mut self, keep: CubeTensor) -> Self {
        let [batch, heads, queries, keys] = keep.shape().dims();
        self.keep = Some(contiguous(CubeBackend::bool_into_int(keep, IntDType::I32)));
        let along = |count, stride| if count > 1 { stride } else { 0 };
        self.strides[5..].copy_from_slice(&[
            along(batch, heads * queries * keys),
            along(heads, queries * keys),
            along(queries, keys),
            along(keys, 1),
        ]);
        self
    }

    pub(crate) fn arg(&self) -> MaskLaunch {
        let tensor = |tensor: &Option<CubeTensor>| tensor.clone().map(CubeTensor::into_tensor_arg);
        let [bb, bq, t, tb, tq, kb, kh, kq, kk] = self.strides;
        let strides = StridesLaunch::new(bb, bq, t, tb, tq, kb, kh, kq, kk);
        MaskLaunch::new(
            tensor(&self.bounds).into(),
            tensor(&self.keep).into(),
            strides,
        )
    }

    pub(crate) fn address_type(&self) -> AddressType {
        let tensors = self.bounds.iter().chain(&self.keep);
        let widest = tensors.map(CubeTensor::required_address_type).max();
        widest.unwrap_or_default()
    }
}

/// Writes the interval of each query, then the interval of each tile of queries, which covers the intervals of its
/// queries.
#[cube(launch, address_type = "dynamic")]
fn bounds_of_tiles(
    start: &[i32],
    end: &[i32],
    bounds: &mut [i32],
    batch: usize,
    queries: usize,
    tile: usize,
) {
    let tiles = queries.div_ceil(tile);
    if ABSOLUTE_POS >= batch * tiles {
        terminate!();
    }
    let first = ABSOLUTE_POS / tiles * queries + ABSOLUTE_POS % tiles * tile;
    let count = min(tile, queries - ABSOLUTE_POS % tiles * tile);
    let mut tile_start = 0;
    let mut tile_end = 0;
    for n in 0..count {
        let from = start[first + n];
        let to = end[first + n];
        bounds[2 * (first + n)] = from;
        bounds[2 * (first + n) + 1] = to;
        if from < to {
            if tile_start == tile_end {
                tile_start = from;
                tile_end = to;
            } else {
                tile_start = min(tile_start, from);
                tile_end = max(tile_end, to);
            }
        }
    }
    bounds[2 * (batch * queries + ABSOLUTE_POS)] = tile_start;
    bounds[2 * (batch * queries + ABSOLUTE_POS) + 1] = tile_end;
}
