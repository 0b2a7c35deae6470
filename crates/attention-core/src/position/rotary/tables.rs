//! Tables of sines and cosines, extended as texts grow.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{DType, Device, Tensor, TensorData};

use super::scaling::Angles;
use crate::position::Positions;

/// The number of positions of the first table; texts grow by single tokens.
const FIRST: usize = 64;

/// The cosine and sine of each position's angles, times the attention factor, `[positions, pairs]`, for positions in `0
/// .. max_positions`. Clones share the tables.
#[derive(Clone)]
pub(super) struct Tables {
    angles: Arc<Angles>,
    dtype: DType,
    max_positions: usize,
    /// The tables of each device, without autodiff: constants for any rows.
    made: Arc<Mutex<Vec<OnDevice>>>,
}

/// Cosines and sines on one device.
struct OnDevice {
    device: Device,
    tables: [Tensor<2>; 2],
}

impl Tables {
    /// No tables yet; their elements will have the type `dtype`.
    pub(super) fn new(angles: Angles, dtype: DType, max_positions: usize) -> Self {
        Self {
            angles: Arc::new(angles),
            dtype,
            max_positions,
            made: Arc::default(),
        }
    }

    /// The rows of cosines and sines at the positions of `num_rows` rows of `batch` examples on `device`.
    ///
    /// # Shapes
    /// - result `[batch or 1, num_rows, pairs]` each
    ///
    /// # Panics
    /// As [`Positions::select`].
    pub(super) fn select(
        &self,
        positions: &Positions,
        rows: [usize; 2],
        device: &Device,
    ) -> [Tensor<3>; 2] {
        let device = &device.clone().inner();
        let needed = positions.end(self.max_positions, rows[1]);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let found = made.iter().position(|of| of.device == *device);
        let at = found.unwrap_or_else(|| {
            made.push(OnDevice {
                device: device.clone(),
                tables: self.make(FIRST.max(needed), device),
            });
            made.len() - 1
        });
        let OnDevice { tables, .. } = &mut made[at];
        if tables[0].dims()[0] < needed {
            // Up to twice the length needed, so that a growing text makes few tables.
            *tables = self.make(needed.next_power_of_two(), device);
        }
        let tables = tables.clone();
        drop(made);
        tables.map(|table| positions.select(&table, rows))
    }

    fn make(&self, len: usize, device: &Device) -> [Tensor<2>; 2] {
        let (frequencies, factor) = (&self.angles.frequencies, self.angles.factor);
        let len = len.min(self.max_positions);
        let functions: [fn(f64) -> f64; 2] = [f64::cos, f64::sin];
        functions.map(|of_angle| {
            let of_position = |position| {
                let element = move |of: &f64| factor * of_angle(position as f64 * of);
                frequencies.iter().map(element)
            };
            let elements: Vec<f64> = (0..len).flat_map(of_position).collect();
            let data = TensorData::new(elements, [len, frequencies.len()]);
            Tensor::from_data(data, (device, self.dtype))
        })
    }
}

impl Debug for Tables {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tables(max_positions: {})", self.max_positions)
    }
}
