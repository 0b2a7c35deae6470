//! Rows that hold nothing.

use burn::tensor::{Device, Tensor};

use crate::functional::fill_padding;
use crate::rank::{from_four_axes, to_four_axes};
use crate::{Mask, NewRows};

/// The padding among the rows of a stack of layers.
///
/// It is cleared before the first layer, as the gradient of a gain or a weight multiplies by what stands there, and
/// after the last one, so that no gradient comes back to it.
pub(super) struct Padding {
    /// A mask of keys that says the same for all queries, resolved for one; `None` if no row is padding.
    rows: Option<Mask>,
    heads: usize,
}

impl Padding {
    /// The rows that `mask` hides from every row, whichever it is.
    pub(super) fn of_mask(mask: &Mask, rows: &Tensor<3>) -> Self {
        let [batch, num_rows, _] = rows.dims();
        Self::of_keys(mask.of_keys_alone(), [batch, num_rows], &rows.device())
    }

    /// The rows that are no tokens.
    pub(super) fn of_new(new: NewRows, rows: &Tensor<3>) -> Self {
        let [batch, num_rows, _] = rows.dims();
        let tokens = new.ranges([batch, num_rows]);
        let is_whole = tokens.iter().all(|of| *of == (0..num_rows));
        let mask = if is_whole {
            Mask::none()
        } else {
            let bounds = tokens.iter().map(|of| [[of.start, of.end]]);
            Mask::intervals(&bounds.collect::<Vec<_>>())
        };
        Self::of_keys(mask, [batch, num_rows], &rows.device())
    }

    fn of_keys(mask: Mask, [batch, num_rows]: [usize; 2], device: &Device) -> Self {
        let heads = mask.heads_over(1);
        let shape = [batch, heads, 1, num_rows];
        let rows = (!mask.is_none()).then(|| mask.resolved_for(shape, device));
        Self { rows, heads }
    }

    /// The rows, with zeros for padding.
    pub(super) fn clear(&self, rows: Tensor<3>) -> Tensor<3> {
        match &self.rows {
            Some(mask) => from_four_axes(fill_padding(to_four_axes(rows), mask, [self.heads, 1])),
            None => rows,
        }
    }
}
