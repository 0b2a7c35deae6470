//! Weights that PyTorch stores as a length and a direction: `w = g v / |v|` (Salimans and Kingma, 2016).

use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::wide::wide;

use crate::Reason;
use crate::state_dict::StateDict;

impl StateDict {
    /// The names of g and v of the weight `name`, as written by `torch.nn.utils.weight_norm` or
    /// `torch.nn.utils.parametrizations.weight_norm`. `None` if the file has the weight itself or not both of them, if
    /// v is a vector, or if the parametrization has more tensors or is followed by another.
    pub(crate) fn weight_norm(&self, name: &str) -> Option<[String; 2]> {
        let start = name.rfind('.').map_or(0, |dot| dot + 1);
        let (module, own) = name.split_at(start);
        let parametrized = format!("{module}parametrizations.{own}.");
        let pairs = [
            ["_g", "_v"].map(|end| format!("{name}{end}")),
            [0, 1].map(|index| format!("{parametrized}original{index}")),
        ];
        let is_pair = |[length, direction]: &[String; 2]| {
            let axes = self.stored_shape(direction).map_or(0, |shape| shape.len());
            self.is_stored(length) && axes > 1
        };
        let pair = pairs.clone().into_iter().find(is_pair)?;
        let mut others = self.names().filter(|name| name.starts_with(&parametrized));
        let is_whole = others.all(|name| pairs[1].iter().any(|of_pair| of_pair == name));
        (is_whole && !self.is_stored(name)).then_some(pair)
    }

    /// Whether the stored tensor `part` is the tensor `name`, or its g or v.
    pub(crate) fn is_part(&self, part: &str, name: &str) -> bool {
        let pair = self.weight_norm(name);
        part == name || pair.is_some_and(|pair| pair.iter().any(|of_pair| of_pair == part))
    }

    /// The weight from g and v, with this shape, as the rows of its first axis. There is one g for each row (`dim=0` in
    /// PyTorch's functions), for each column of a matrix (`dim=1`) or for all (`dim=None`).
    ///
    /// # Errors
    /// If g or v has another shape or cannot be read, or v has length 0.
    pub(crate) fn normalized_rows(
        &self,
        [length, direction_name]: [String; 2],
        shape: &[usize],
        (device, dtype): (&Device, DType),
    ) -> Result<Tensor<2>, Reason> {
        let options = (device, wide(dtype));
        let direction = self.stored_rows(&direction_name, shape, options)?;
        let [rows, columns] = direction.dims();
        let mut of_rows = vec![1; shape.len()];
        of_rows[0] = rows;
        let expected = [of_rows, vec![1, columns]];
        let expected = &expected[..if shape.len() == 2 { 2 } else { 1 }];
        let got = self.stored_shape(&length)?;
        let of_length = match expected.iter().position(|shape| *shape == got) {
            Some(0) => [rows, 1],
            Some(_) => [1, columns],
            None if got.iter().product::<usize>() == 1 => [1, 1],
            None => {
                let full = self.full(&length);
                return Err(format!(
                    "`{full}`: expected one of the shapes {expected:?}, or one element, got {got:?}"
                )
                .into());
            }
        };
        let length = self.stored_rows(&length, &got, options)?.reshape(of_length);
        let mut squares = direction.clone().square();
        for (axis, size) in of_length.into_iter().enumerate() {
            if size == 1 {
                squares = squares.sum_dim(axis);
            }
        }
        let sums = squares.to_data();
        if let Some(index) = sums.iter::<f64>().position(|sum| sum == 0.0) {
            let full = self.full(&direction_name);
            return Err(format!(
                "`{full}`: expected directions, got zeros, which have none, at length {index}"
            )
            .into());
        }
        Ok((direction * (length / squares.sqrt())).cast(dtype))
    }
}
