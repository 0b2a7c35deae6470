//! Rows that are padding.

use std::ops::Range;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use crate::cache::NewRows;
use crate::functional::fill_padding;
use crate::mask::Mask;
use crate::rank::{from_four_axes, to_four_axes};

/// The padding among the rows of a stack of layers.
///
/// It is cleared before the first layer, because the gradient of a gain or a weight multiplies by it, and after the
/// last layer, so that no gradient comes back to it.
pub struct Padding {
    /// The mask of keys, equal for all queries, resolved for one query; `None` if no row is padding.
    rows: Option<Mask>,
    heads: usize,
}

impl Padding {
    /// The rows that `mask` masks for every query.
    pub fn of_mask(mask: &Mask, rows: &Tensor<3>) -> Self {
        let [batch, num_rows, _] = rows.dims();
        Self::of_keys(mask.of_keys_alone(), [batch, num_rows], &rows.device())
    }

    /// The rows that are not tokens.
    pub fn of_new(new: NewRows, rows: &Tensor<3>) -> Self {
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
    pub fn clear(&self, rows: Tensor<3>) -> Tensor<3> {
        match &self.rows {
            Some(mask) => from_four_axes(fill_padding(to_four_axes(rows), mask, [self.heads, 1])),
            None => rows,
        }
    }
}

/// The mask by which every row attends to the rows of its example that are tokens.
///
/// # Panics
/// If `rows` do not fit `[batch, num_rows]`.
pub fn mask_of_tokens(rows: NewRows, shape: [usize; 2], device: &Device) -> Mask {
    match rows {
        NewRows::All => Mask::none(),
        NewRows::First(_) => {
            let ranges = rows.ranges(shape).into_iter();
            let lens: Vec<i64> = ranges.map(|of| of.len() as i64).collect();
            Mask::valid_lens(Tensor::from_data(lens.as_slice(), device))
        }
        NewRows::Last(_) => Mask::padding(is_padding(rows, shape, device)),
    }
}

/// The tokens, with 0 for padding, which may hold invalid tokens.
///
/// # Panics
/// If `rows` do not fit the tokens.
pub fn fill_padding_tokens(tokens: Tensor<2, Int>, rows: NewRows) -> Tensor<2, Int> {
    if rows == NewRows::All {
        return tokens;
    }
    let padding = is_padding(rows, tokens.dims(), &tokens.device());
    tokens.mask_fill(padding, 0)
}

/// The row of the first token of each example, `[batch, size]`; any row for an example without tokens.
///
/// # Panics
/// If `new` does not fit `[batch, num_rows]`.
pub fn first_tokens(rows: Tensor<3>, new: NewRows, shape: [usize; 2]) -> Tensor<2> {
    let [_, num_rows] = shape;
    tokens_at(rows, new, shape, |of| of.start.min(num_rows - 1))
}

/// The row of the last token of each example, `[batch, size]`; any row for an example without tokens.
///
/// # Panics
/// If `new` does not fit `[batch, num_rows]`.
pub fn last_tokens(rows: Tensor<3>, new: NewRows, shape: [usize; 2]) -> Tensor<2> {
    tokens_at(rows, new, shape, |of| of.end.saturating_sub(1))
}

/// The row of each example at `place` of its tokens.
fn tokens_at(
    rows: Tensor<3>,
    new: NewRows,
    shape: [usize; 2],
    place: impl Fn(Range<usize>) -> usize,
) -> Tensor<2> {
    let [batch, num_rows] = shape;
    let [_, _, size] = rows.dims();
    let ranges = new.ranges(shape).into_iter().enumerate();
    let at = ranges.map(|(b, of)| (b * num_rows + place(of)) as i64);
    let at = TensorData::new(at.collect::<Vec<_>>(), [batch]);
    let at = Tensor::<1, Int>::from_data(at, &rows.device());
    rows.reshape([batch * num_rows, size]).select(0, at)
}

/// True where a row is not a token, `[batch, rows]`.
fn is_padding(rows: NewRows, shape: [usize; 2], device: &Device) -> Tensor<2, Bool> {
    let [_, num_rows] = shape;
    let of_example = |of: Range<usize>| (0..num_rows).map(move |row| !of.contains(&row));
    let padding = rows.ranges(shape).into_iter().flat_map(of_example);
    let padding = TensorData::new(padding.collect::<Vec<bool>>(), shape);
    Tensor::from_data(padding, device)
}
