//! Weights that PyTorch stores as a length and a direction: `w = g v / |v|` (Salimans and Kingma, 2016).

use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::wide::wide;

use super::state_dict::StateDict;

impl StateDict {
    /// The names of g and v of the weight `name`, as `torch.nn.utils.weight_norm` writes them or
    /// `torch.nn.utils.parametrizations.weight_norm`; `None` if the file has no such two tensors.
    pub(super) fn weight_norm(&self, name: &str) -> Option<[String; 2]> {
        let start = name.rfind('.').map_or(0, |dot| dot + 1);
        let (module, own) = name.split_at(start);
        let pairs = [
            ["_g", "_v"].map(|end| format!("{name}{end}")),
            [0, 1].map(|index| format!("{module}parametrizations.{own}.original{index}")),
        ];
        let is_stored = |pair: &[String; 2]| pair.iter().all(|name| self.is_stored(name));
        pairs.into_iter().find(is_stored)
    }

    /// Whether the stored tensor `part` is the tensor `name`, or g or v of it.
    pub(super) fn is_part(&self, part: &str, name: &str) -> bool {
        let pair = self.weight_norm(name);
        part == name || pair.is_some_and(|pair| pair.iter().any(|of_pair| of_pair == part))
    }

    /// The weight of g and v, of this shape, as the rows of its first axis. There is one g for each row (`dim=0` of
    /// PyTorch's functions), for each column of a matrix (`dim=1`) or for all (`dim=None`).
    ///
    /// # Errors
    /// If one of the two has another shape or cannot be read.
    pub(super) fn normalized_rows(
        &self,
        [length, direction]: [String; 2],
        shape: &[usize],
        (device, dtype): (&Device, DType),
    ) -> Result<Tensor<2>, String> {
        let options = (device, wide(dtype));
        let direction = self.rows(&direction, shape, options)?;
        let [rows, columns] = direction.dims();

        let mut of_rows = vec![1; shape.len()];
        of_rows[0] = rows;
        let mut of_columns = shape.to_vec();
        of_columns[0] = 1;
        let got = self.shape(&length)?;
        let of_length = if got == of_rows {
            [rows, 1]
        } else if got == of_columns && shape.len() == 2 {
            [1, columns]
        } else if got.is_empty() {
            [1, 1]
        } else {
            let full = self.full(&length);
            return Err(format!(
                "`{full}`: expected the shape {of_rows:?}, {of_columns:?} or [], got {got:?}"
            ));
        };
        let length = self.rows(&length, &got, options)?.reshape(of_length);
        let mut squares = direction.clone().square();
        for (axis, size) in of_length.into_iter().enumerate() {
            if size == 1 {
                squares = squares.sum_dim(axis);
            }
        }
        Ok((direction * (length / squares.sqrt())).cast(dtype))
    }
}
