//! Biases of positions.

use std::any::type_name;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{DType, Device, Tensor};

use crate::functional::along_diagonals;

/// A bias on scores that depends on the positions of query and key, not on their content.
pub trait PositionBias: Module + ModuleDisplay + 'static {
    /// The bias of all pairs, with query `i` at position `i + num_keys - num_queries`; neither number is 0. By default
    /// it is computed from the bias of distances.
    ///
    /// [`Biased`](crate::score::Biased) asks for `f32` or `f64`: half precision rounds neighbouring biases to one.
    ///
    /// # Shapes
    /// - result `[1, heads or 1, num_queries, num_keys]`, on `device` and of type `dtype`
    fn bias(
        &self,
        num_queries: usize,
        num_keys: usize,
        device: &Device,
        dtype: DType,
    ) -> Tensor<4> {
        let of_distances = self.relative_bias(num_queries, num_keys, device, dtype);
        let name = type_name::<Self>();
        let of_distances = of_distances.unwrap_or_else(|| {
            panic!("{name}: expected a PositionBias with `bias` or `relative_bias`")
        });
        along_diagonals(of_distances, num_queries)
    }

    /// The bias of each distance, if the bias depends on distance alone: element `j - i + num_queries - 1` is the
    /// [`bias`](Self::bias) of query `i` and key `j`. It stays in the fused kernels; a
    /// [`bias`](Self::bias) alone is added to composed scores.
    ///
    /// # Shapes
    /// - result `[1, heads or 1, 1, num_queries + num_keys - 1]`, on `device` and of type `dtype`
    fn relative_bias(
        &self,
        _num_queries: usize,
        _num_keys: usize,
        _device: &Device,
        _dtype: DType,
    ) -> Option<Tensor<4>> {
        None
    }
}
