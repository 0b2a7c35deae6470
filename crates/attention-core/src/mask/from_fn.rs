//! Masks defined by a function.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use super::Mask;

impl Mask {
    /// Query `i` of head `h` of example `b` attends to key `j` where `attends(b, h, i, j)`; the function is called
    /// once, here. If the keys of each query are neighbours, there are several queries, and the heads agree, the mask
    /// is [intervals](Self::intervals), else [dense](Self::keep). PyTorch equivalent: `create_block_mask`.
    ///
    /// Queries and keys are counted from 0 within a call; with a cache, keys are the rows of the cache, whatever the
    /// length of an example. A step with another number of queries or keys needs another mask.
    ///
    /// # Shapes
    /// - shape `[batch, heads, queries, keys]`; an axis of size 1 is broadcast
    ///
    /// # Panics
    /// If a size is 0 or, when the mask is used, an axis is neither 1 nor as long as the axis of the scores.
    ///
    /// ```
    /// use attention_core::Mask;
    /// use burn::tensor::Device;
    ///
    /// // A prefix of three keys that all see, then what came before: an interval for each query.
    /// let prefix = Mask::from_fn([1, 1, 8, 8], &Device::flex(), |_, _, query, key| key < 3 || key <= query);
    /// # let _ = prefix;
    /// ```
    pub fn from_fn(
        shape: [usize; 4],
        device: &Device,
        attends: impl Fn(usize, usize, usize, usize) -> bool,
    ) -> Self {
        let [batch, heads, queries, keys] = shape;
        assert!(
            !shape.contains(&0),
            "Mask::from_fn: sizes above 0 expected, got {shape:?}"
        );
        let places = (0..batch * heads * queries * keys).map(|at| {
            let (row, key) = (at / keys, at % keys);
            let (head, query) = (row / queries, row % queries);
            attends(head / heads, head % heads, query, key)
        });
        let keep: Vec<bool> = places.collect();
        let of_heads: Vec<&[bool]> = keep.chunks(queries * keys).collect();
        let mut examples = of_heads.chunks(heads);
        let heads_agree = examples.all(|heads| heads.iter().all(|head| head == &heads[0]));
        let rows = |head: &&[bool]| head.chunks(keys).map(interval).collect();
        let first_heads = of_heads.iter().step_by(heads);
        let bounds: Option<Vec<Vec<[usize; 2]>>> = first_heads.map(rows).collect();
        // A mask of one query or one key becomes flags, which are broadcast.
        match bounds.filter(|_| heads_agree && queries > 1 && keys > 1) {
            Some(bounds) => Self::intervals_among(&bounds, Some(keys)),
            None => {
                let keep = TensorData::new(keep, shape);
                Self::of_pairs("Mask::from_fn", Tensor::<4, Bool>::from_data(keep, device))
            }
        }
    }
}

/// The start and the end of the keys that are kept; `None` if there is a gap.
fn interval(keep: &[bool]) -> Option<[usize; 2]> {
    let start = keep.iter().position(|keep| *keep).unwrap_or(0);
    let len = keep[start..].iter().take_while(|keep| **keep).count();
    let has_gap = keep[start + len..].contains(&true);
    (!has_gap).then_some([start, start + len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_keys_of_all_heads_are_intervals() {
        let mask = |attends: fn(usize, usize, usize, usize) -> bool| {
            let mask = Mask::from_fn([2, 3, 4, 5], &Device::default(), attends);
            let parts = mask.parts();
            (parts.intervals.is_some(), parts.flags.is_some())
        };
        assert_eq!(
            mask(|batch, _, query, key| key <= query + batch),
            (true, false)
        );
        assert_eq!(mask(|_, _, query, _| query == 1), (true, false));
        assert_eq!(mask(|_, head, _, key| key > head), (false, true));
        assert_eq!(mask(|_, _, query, key| key != query), (false, true));
    }
}
