//! Splits: if too few cubes would run, several share the tiles of one, and their results are combined.

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::host::mask::MASKED;
use crate::host::tensors::{cube_count, empty};
use crate::tile::math::{error_of_sum, exp, greater, reciprocal_in_two_parts};

/// Splits of the tiles that a cube would process, with a cube for each split. They depend only on sizes, so that a sum
/// has the same order on every device.
///
/// Dao et al., 2023, "Flash-Decoding for long-context inference".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Splits {
    pub(crate) count: usize,
    /// The number of tiles of each split.
    pub(crate) tiles: usize,
}

impl Splits {
    /// The number of cubes that keep a large device busy.
    const CUBES: usize = 256;
    /// The smallest number of tiles that are worth a cube.
    const TILES: usize = 4;
    /// The largest number of elements of a tensor of all splits: a quarter of the buffer size that WebGPU guarantees.
    const ELEMENTS: usize = 1 << 23;

    /// Splits for `cubes` cubes that each process `tiles` tiles, and together write `elements` elements per split.
    pub(crate) fn new(cubes: usize, tiles: usize, elements: usize) -> Self {
        let wanted = Self::CUBES / cubes.max(1);
        let most = (tiles / Self::TILES).min(Self::ELEMENTS / elements.max(1));
        let tiles_of_split = tiles.div_ceil(wanted.min(most).max(1)).max(1);
        Self {
            count: tiles.div_ceil(tiles_of_split).max(1),
            tiles: tiles_of_split,
        }
    }
}

/// Combines the contexts and the statistics of the splits of each query's keys: `[splits, rows.., size]` and
/// `[splits, rows.., 2]`.
pub(crate) fn combine_splits(contexts: CubeTensor, statistics: CubeTensor) -> [CubeTensor; 2] {
    let [splits, batch, heads, queries, size] = contexts.shape().dims();
    let rows = batch * heads * queries;
    let context = empty(&contexts, [rows, size], contexts.dtype());
    let whole = empty(&contexts, [rows, 2], contexts.dtype());
    let client = contexts.client.clone();
    combine::launch(
        &client,
        cube_count(&client, rows),
        CubeDim::new_1d(UNITS as u32),
        contexts.required_address_type(),
        contexts.into_buffer_arg(),
        statistics.into_buffer_arg(),
        context.clone().into_buffer_arg(),
        whole.clone().into_buffer_arg(),
        splits,
        rows,
        size,
    );
    [context, whole]
}

/// The number of units of a cube of [`combine`].
const UNITS: usize = 64;

/// A cube processes one query. Each of its units sums the exponentials' sums itself, since they are few.
#[cube(launch, address_type = "dynamic")]
fn combine(
    contexts: &[f32],
    statistics: &[f32],
    context: &mut [f32],
    whole: &mut [f32],
    splits: usize,
    rows: usize,
    size: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let mut maximum = MASKED.runtime();
    for split in 0..splits {
        maximum = greater(statistics[2 * (split * rows + row)], maximum);
    }
    let mut total = 0.0f32;
    let mut error = 0.0f32;
    for split in 0..splits {
        let at = 2 * (split * rows + row);
        let factor = exp(statistics[at] - maximum);
        let sum = factor * statistics[at + 1];
        let next = total + sum;
        error += fma(factor, statistics[at + 1], -sum) + error_of_sum(total, sum, next);
        total = next;
    }
    // 0 for a query without keys.
    let (reciprocal, rest) = reciprocal_in_two_parts(total, error);
    if UNIT_POS == 0 {
        whole[2 * row] = maximum;
        whole[2 * row + 1] = reciprocal;
    }
    let mut column = UNIT_POS as usize;
    while column < size {
        let mut sum = 0.0f32;
        for split in 0..splits {
            let factor = exp(statistics[2 * (split * rows + row)] - maximum);
            sum = fma(factor, contexts[(split * rows + row) * size + column], sum);
        }
        context[row * size + column] = fma(sum, reciprocal, sum * rest);
        column += UNITS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_cover_all_tiles() {
        for cubes in [1, 3, 64, 255, 256, 10_000] {
            for tiles in [0, 1, 7, 8, 100, 1001] {
                let splits = Splits::new(cubes, tiles, 1);
                assert!(splits.count * splits.tiles >= tiles);
                assert!(
                    (splits.count - 1) * splits.tiles < tiles.max(1),
                    "{splits:?}"
                );
                assert!(splits.count == 1 || cubes * splits.count <= Splits::CUBES);
                assert!(splits.count == 1 || splits.tiles >= Splits::TILES);
            }
        }
        assert_eq!(Splits::new(1, 1024, 1).count, 256);
        assert_eq!(Splits::new(1, 1024, 1 << 20).count, 8);
        assert_eq!(Splits::new(1, 1024, 1 << 23).count, 1);
    }
}
