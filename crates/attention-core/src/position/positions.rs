//! The positions of rows.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_fused_layers::harness::checks::{Argument, assert_together};

/// The positions of rows `[batch, heads, rows, size]` of queries or keys, which all heads share.
///
/// ```
/// use attention_core::position::Positions;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let read = |positions: Positions| {
///     let positions = positions.tensor([2, 3], &device);
///     positions.try_into_vec_as::<i64>().unwrap()
/// };
/// assert_eq!(read(Positions::consecutive(4)), [4, 5, 6]);
/// // Examples whose caches hold 4 and 1 keys already.
/// assert_eq!(read(Positions::per_example([4, 1])), [4, 5, 6, 1, 2, 3]);
/// ```
#[derive(Clone, Debug)]
pub struct Positions(Kind);

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for a call")]
enum Kind {
    Consecutive {
        start: i64,
    },
    PerExample {
        starts: Vec<i64>,
    },
    PerToken {
        positions: Tensor<2, Int>,
        /// The smallest and the largest position; `None` if there are none.
        bounds: Option<[i64; 2]>,
    },
}

impl Positions {
    /// `start`, `start + 1`, .., the same in all examples.
    pub fn consecutive(start: i64) -> Self {
        Self(Kind::Consecutive { start })
    }

    /// The positions `starts[b]`, `starts[b] + 1`, .. in example `b`, because the examples of a cache differ in length.
    /// Positions below 0 are padding.
    ///
    /// For starts on a device, add `0, 1, ..` and use positions [per token](Self::per_token).
    pub fn per_example(starts: impl Into<Vec<i64>>) -> Self {
        let starts = starts.into();
        Self(Kind::PerExample { starts })
    }

    /// Any position for each row: for packed segments, whose positions start again, or for a tree of drafts.
    ///
    /// They are read from the device here, once, so that no later call has to wait to check them.
    ///
    /// # Shapes
    /// - positions `[batch or 1, rows]`
    pub fn per_token(positions: Tensor<2, Int>) -> Self {
        let data = positions.clone().into_data();
        let widened = |bounds: Option<[i64; 2]>, position: i64| {
            let [first, last] = bounds.unwrap_or([position; 2]);
            Some([first.min(position), last.max(position)])
        };
        let bounds = data.iter::<i64>().fold(None, widened);
        Self(Kind::PerToken { positions, bounds })
    }

    /// The first position, if positions are [consecutive](Self::consecutive) and the same in all examples.
    pub fn start(&self) -> Option<i64> {
        match self.0 {
            Kind::Consecutive { start } => Some(start),
            _ => None,
        }
    }

    /// Any position for each row, row by row, `[batch, rows]`.
    pub(crate) fn of_rows(positions: Vec<i64>, shape: [usize; 2], device: &Device) -> Self {
        let bounds = positions.iter().min().zip(positions.iter().max());
        Self(Kind::PerToken {
            bounds: bounds.map(|(first, last)| [*first, *last]),
            positions: Tensor::from_data(TensorData::new(positions, shape), device),
        })
    }

    /// The positions of some rows of example `b`. Positions of single tokens must have rows for each example.
    pub(crate) fn of_example(&self, b: usize, rows: Range<usize>) -> Self {
        match &self.0 {
            Kind::Consecutive { start } => Self::consecutive(start + rows.start as i64),
            Kind::PerExample { starts } => Self::consecutive(starts[b] + rows.start as i64),
            Kind::PerToken { positions, .. } => {
                let own = positions.clone().narrow(0, b, 1);
                Self::per_token(own.narrow(1, rows.start, rows.len()))
            }
        }
    }

    /// The position of each of `num_rows` rows of `batch` examples on `device`, `[batch or 1, num_rows]`.
    ///
    /// # Panics
    /// If the number of positions differs, or they lie on another device.
    pub fn tensor(&self, rows: [usize; 2], device: &Device) -> Tensor<2, Int> {
        self.check(rows, device);
        let [_, num_rows] = rows;
        let from_starts = |starts: &[i64]| {
            let of_example = |start: &i64| *start..*start + num_rows as i64;
            let positions: Vec<i64> = starts.iter().flat_map(of_example).collect();
            let data = TensorData::new(positions, [starts.len(), num_rows]);
            Tensor::from_data(data, device)
        };
        match &self.0 {
            Kind::Consecutive { start } => from_starts(&[*start]),
            Kind::PerExample { starts } => from_starts(starts),
            Kind::PerToken { positions, .. } => positions.clone(),
        }
    }

    /// The rows of `table` at the positions of `num_rows` rows of `batch` examples: angles of rotary embedding, or a
    /// learned embedding of positions. Padding below 0, where positions are [per example](Self::per_example), reads row
    /// 0.
    ///
    /// # Shapes
    /// - table `[max_positions, size]`, result `[batch or 1, num_rows, size]`
    ///
    /// # Panics
    /// If a position is beyond the table, or below 0 but not per example; and as [`tensor`](Self::tensor).
    pub fn select(&self, table: &Tensor<2>, rows: [usize; 2]) -> Tensor<3> {
        let device = table.device();
        self.check(rows, &device);
        let ([max_positions, size], [_, num_rows]) = (table.dims(), rows);
        if self.end(max_positions, num_rows) == 0 || size == 0 {
            let examples = self.examples();
            return Tensor::empty([examples, num_rows, size], (&device, table.dtype()));
        }
        let table = table.clone();
        if let Some(start) = self.start() {
            return table.narrow(0, start as usize, num_rows).unsqueeze();
        }
        let positions = self.tensor(rows, &device).clamp_min(0);
        let [examples, num_rows] = positions.dims();
        let rows = table.select(0, positions.reshape([examples * num_rows]));
        rows.reshape([examples, num_rows, size])
    }

    /// The number of rows of a table that `num_rows` rows need, 0 without rows.
    ///
    /// # Panics
    /// If a position other than padding is not in `0 .. max_positions`.
    pub(crate) fn end(&self, max_positions: usize, num_rows: usize) -> usize {
        let [first, last] = self.bounds(num_rows).unwrap_or([0, -1]);
        let hint = match self.start() {
            Some(start) if start < 0 => " (there are more queries than keys)",
            _ => "",
        };
        assert!(
            first >= 0 && last < max_positions as i64,
            "Positions: within 0 .. {max_positions} expected, as configured, got {first} ..= {last}{hint}"
        );
        (last + 1) as usize
    }

    /// The smallest and the largest position of `num_rows` rows, except padding; `None` if there are none.
    fn bounds(&self, num_rows: usize) -> Option<[i64; 2]> {
        let last = num_rows as i64 - 1;
        if last < 0 {
            return None;
        }
        match &self.0 {
            Kind::Consecutive { start } => Some([*start, start.saturating_add(last)]),
            Kind::PerExample { starts } => {
                let starts = || starts.iter().copied();
                let [first, start] = [starts().min()?, starts().max()?];
                Some([first.max(0), start.saturating_add(last).max(0)])
            }
            Kind::PerToken { bounds, .. } => *bounds,
        }
    }

    /// The number of examples with positions of their own.
    fn examples(&self) -> usize {
        match &self.0 {
            Kind::Consecutive { .. } => 1,
            Kind::PerExample { starts } => starts.len(),
            Kind::PerToken { positions, .. } => positions.dims()[0],
        }
    }

    /// # Panics
    /// If the positions do not fit `num_rows` rows of `batch` examples on `device`.
    fn check(&self, [batch, num_rows]: [usize; 2], device: &Device) {
        match &self.0 {
            Kind::Consecutive { .. } => {}
            Kind::PerExample { starts } => assert!(
                starts.len() == batch,
                "Positions: a start expected for each of {batch} examples, got {}",
                starts.len()
            ),
            Kind::PerToken { positions, .. } => {
                let got @ [examples, rows] = positions.dims();
                assert!(
                    (examples == batch || examples == 1) && rows == num_rows,
                    "Positions: [{batch} or 1, {num_rows}] expected, as batch and rows are, got {got:?}"
                );
                let rows = Argument::of_device("rows", device.clone());
                let positions = Argument::on_device("positions", positions);
                assert_together("Positions", rows, [positions]);
            }
        }
    }
}
