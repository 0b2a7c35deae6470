//! A table whose rows many calls select.

use burn::tensor::{Int, Tensor};

use crate::harness::parameter::dequantized;
use crate::harness::shared_weight::SharedWeight;
use crate::harness::wide::widened_in_training;
use crate::read_shared::read_weight;
use crate::select_rows::select_rows;

/// An embedding for many calls in one pass, as in the steps of a decoder. On the CPU, in `f32` and `f64`, the gradient
/// of its table is one scatter over all calls; elsewhere each call produces a gradient of the whole table, as in Burn.
/// For half precision, the gradients are summed in f32.
///
/// ```
/// use burn_fused_layers::EmbeddingTable;
/// use burn::nn::EmbeddingConfig;
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let embedding = EmbeddingConfig::new(11, 5).init(&device);
/// let table = EmbeddingTable::new(embedding.weight.val());
/// for token in [3, 1, 4] {
///     let tokens = Tensor::from_ints([token, 1], &device);
///     assert_eq!(table.rows(tokens).dims(), [2, 5]);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct EmbeddingTable {
    table: Tensor<2>,
    /// The table from which rows are selected.
    read: Tensor<2>,
    shared: SharedWeight,
}

impl EmbeddingTable {
    /// Wraps `table`, `[tokens, size]`: the weight of an embedding, or a tensor computed from it.
    pub fn new(table: Tensor<2>) -> Self {
        let table = dequantized(table);
        Self {
            read: widened_in_training(table.clone()),
            table,
            shared: SharedWeight::default(),
        }
    }

    /// The whole table, `[tokens, size]`.
    pub fn table(&self) -> Tensor<2> {
        self.table.clone()
    }

    /// The rows of `tokens`.
    ///
    /// # Shapes
    /// - tokens `[count]`, result `[count, size]`
    ///
    /// # Panics
    /// If a token does not exist, or the tokens are on another device.
    pub fn rows(&self, tokens: Tensor<1, Int>) -> Tensor<2> {
        let table = read_weight(self.read.clone(), Some(&self.shared));
        select_rows(table, tokens, Some(self.shared.slot())).cast(self.table.dtype())
    }
}
