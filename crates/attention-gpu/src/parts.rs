//! Where too few cubes would run, several share the tiles that one goes through, and what each found is put together.

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use crate::math::{error_of_sum, exp, greater, reciprocal_in_two_parts};
use crate::tensors::{cube_count, empty};
use crate::tile::MASKED;

/// How many parts the tiles that a cube goes through are cut into, a cube for each. By sizes alone, so that a sum has
/// the same order on every device.
///
/// Dao et al., 2023, "Flash-Decoding for long-context inference".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) count: usize,
    /// The tiles of each part.
    pub(crate) tiles: usize,
}

impl Parts {
    /// Cubes that keep a large device busy.
    const CUBES: usize = 256;
    /// The fewest tiles that are worth a cube of their own.
    const TILES: usize = 4;
    /// The elements that a tensor of all parts may have: a quarter of what WebGPU promises of a buffer.
    const ELEMENTS: usize = 1 << 23;

    /// Of `cubes` cubes that go through `tiles` tiles each and write `elements` elements together, for each part.
    pub(crate) fn new(cubes: usize, tiles: usize, elements: usize) -> Self {
        let wanted = Self::CUBES / cubes.max(1);
        let most = (tiles / Self::TILES).min(Self::ELEMENTS / elements.max(1));
        let tiles_of_part = tiles.div_ceil(wanted.min(most).max(1)).max(1);
        Self {
            count: tiles.div_ceil(tiles_of_part).max(1),
            tiles: tiles_of_part,
        }
    }
}

/// The context and the statistics of each query, from those of each part of its keys: `[parts, rows.., size]` and
/// `[parts, rows.., 2]`.
pub(crate) fn put_together(contexts: CubeTensor, statistics: CubeTensor) -> [CubeTensor; 2] {
    let [parts, batch, heads, queries, size] = contexts.shape().dims();
    let rows = batch * heads * queries;
    let context = empty(&contexts, [rows, size], contexts.dtype());
    let whole = empty(&contexts, [rows, 2], contexts.dtype());
    let client = contexts.client.clone();
    context_of_parts::launch(
        &client,
        cube_count(&client, rows),
        CubeDim::new_1d(UNITS as u32),
        contexts.required_address_type(),
        contexts.into_buffer_arg(),
        statistics.into_buffer_arg(),
        context.clone().into_buffer_arg(),
        whole.clone().into_buffer_arg(),
        parts,
        rows,
        size,
    );
    [context, whole]
}

/// The units of a cube of [`context_of_parts`].
const UNITS: usize = 64;

/// A cube has a query. Each of its units adds up the sums of exponentials, which are few.
#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments, reason = "of a kernel")]
fn context_of_parts(
    contexts: &[f32],
    statistics: &[f32],
    context: &mut [f32],
    whole: &mut [f32],
    parts: usize,
    rows: usize,
    size: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let mut maximum = MASKED.runtime();
    for part in 0..parts {
        maximum = greater(statistics[2 * (part * rows + row)], maximum);
    }
    let mut total = 0.0f32;
    let mut missed = 0.0f32;
    for part in 0..parts {
        let at = 2 * (part * rows + row);
        let factor = exp(statistics[at] - maximum);
        let sum = factor * statistics[at + 1];
        let next = total + sum;
        missed += fma(factor, statistics[at + 1], -sum) + error_of_sum(total, sum, next);
        total = next;
    }
    // Of a query without any key, 0.
    let (reciprocal, rest) = reciprocal_in_two_parts(total, missed);
    if UNIT_POS == 0 {
        whole[2 * row] = maximum;
        whole[2 * row + 1] = reciprocal;
    }
    let mut column = UNIT_POS as usize;
    while column < size {
        let mut sum = 0.0f32;
        for part in 0..parts {
            let factor = exp(statistics[2 * (part * rows + row)] - maximum);
            sum = fma(factor, contexts[(part * rows + row) * size + column], sum);
        }
        context[row * size + column] = fma(sum, reciprocal, sum * rest);
        column += UNITS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_tiles() {
        for cubes in [1, 3, 64, 255, 256, 10_000] {
            for tiles in [0, 1, 7, 8, 100, 1001] {
                let parts = Parts::new(cubes, tiles, 1);
                assert!(parts.count * parts.tiles >= tiles);
                assert!((parts.count - 1) * parts.tiles < tiles.max(1), "{parts:?}");
                assert!(parts.count == 1 || cubes * parts.count <= Parts::CUBES);
                assert!(parts.count == 1 || parts.tiles >= Parts::TILES);
            }
        }
        assert_eq!(Parts::new(1, 1024, 1).count, 256);
        assert_eq!(Parts::new(1, 1024, 1 << 20).count, 8);
        assert_eq!(Parts::new(1, 1024, 1 << 23).count, 1);
    }
}
