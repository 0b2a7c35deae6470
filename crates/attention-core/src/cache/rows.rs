//! The space of a cache.

use std::ops::Range;

use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor, TensorData};
use burn_fused_layers::is_in_host_memory;

use crate::owner::Owner;

/// The keys and values themselves.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// `[batch, key_heads, space, size]`, as the scoring function projected them.
    pub(super) keys: Tensor<4>,
    /// `[batch, key_heads, space, value_size]`
    pub(super) values: Tensor<4>,
    /// The scoring function that projected the keys; `None` as long as the keys were only given.
    pub(super) owner: Option<Owner>,
    /// The row of each example, if it is not its own: beams share a row until they diverge.
    pub(super) of_examples: Option<Vec<usize>>,
}

impl Rows {
    /// Makes the examples at `indices` the new examples. Nothing is copied.
    pub(super) fn select(&mut self, indices: impl Iterator<Item = usize>) {
        let rows = match &self.of_examples {
            Some(rows) => indices.map(|index| rows[index]).collect(),
            None => indices.collect(),
        };
        self.of_examples = Some(rows);
    }

    /// Gives each example a row of its own, to write to.
    pub(super) fn part(&mut self) {
        let Some(rows) = self.of_examples.take() else {
            return;
        };
        let [count, ..] = self.keys.dims();
        if rows.iter().copied().eq(0..count) {
            return;
        }
        let len = rows.len();
        if len == 0 {
            for tensor in [&mut self.keys, &mut self.values] {
                let [_, heads, space, size] = tensor.dims();
                let options = (&tensor.device(), tensor.dtype());
                *tensor = Tensor::empty([0, heads, space, size], options);
            }
            return;
        }
        let rows = rows.into_iter().map(|row| row as i64).collect();
        let rows = TensorData::new::<i64, _>(rows, [len]);
        let rows = Tensor::<1, Int>::from_data(rows, &self.keys.device());
        for tensor in [&mut self.keys, &mut self.values] {
            *tensor = tensor.clone().select(0, rows.clone());
        }
    }
}

/// The tokens of an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Example {
    /// The number of tokens before the kept ones.
    pub(super) evicted: usize,
    pub(super) kept: usize,
}

/// Writes the tokens of new rows, the second of each pair, after the kept ones.
pub(super) fn write(
    pairs: &mut [(&mut Tensor<4>, Tensor<4>)],
    before: &[Example],
    tokens: &[Range<usize>],
    is_even: bool,
) {
    let mut places = None;
    for (stored, new) in pairs {
        let [batch, heads, num_rows, size] = new.dims();
        if batch * heads * num_rows * size == 0 {
            continue;
        }
        // While it is written, nobody else holds the tensor, so the write is in place.
        let placeholder = Tensor::empty([1, 1, 1, 1], &new.device());
        let all = std::mem::replace(*stored, placeholder);
        **stored = if is_even {
            let first = before[0].kept;
            let slices = [0..batch, 0..heads, first..first + num_rows, 0..size];
            all.slice_assign(slices, new.clone())
        } else {
            let sizes = [num_rows, all.dims()[2]];
            let of = || Places::of(before, tokens, heads, sizes, &new.device());
            places.get_or_insert_with(of).write(all, new.clone())
        };
    }
}

/// The rows of a call that are tokens, and the places they are written to, among the rows of all heads.
struct Places {
    /// `None` if all rows are tokens.
    from: Option<Tensor<1, Int>>,
    /// `None` if no row is a token.
    to: Option<Tensor<1, Int>>,
}

impl Places {
    fn of(
        before: &[Example],
        tokens: &[Range<usize>],
        heads: usize,
        [num_rows, space]: [usize; 2],
        device: &Device,
    ) -> Self {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for (b, (of, tokens)) in before.iter().zip(tokens).enumerate() {
            for head in b * heads..(b + 1) * heads {
                from.extend(tokens.clone().map(|row| (head * num_rows + row) as i64));
                let places = of.kept..of.kept + tokens.len();
                to.extend(places.map(|row| (head * space + row) as i64));
            }
        }
        let all = from.len() == before.len() * heads * num_rows;
        let indices = |rows: Vec<i64>| {
            let count = rows.len();
            Tensor::from_data(TensorData::new(rows, [count]), device)
        };
        Self {
            from: (!all).then(|| indices(from)),
            to: (!to.is_empty()).then(|| indices(to)),
        }
    }

    /// `stored` with the tokens of `new` written into it, in one operation.
    fn write(&self, stored: Tensor<4>, new: Tensor<4>) -> Tensor<4> {
        let Some(to) = self.to.clone() else {
            return stored;
        };
        let shape @ [batch, heads, space, size] = stored.dims();
        let [_, _, num_rows, _] = new.dims();
        let in_host_memory = is_in_host_memory(&new.device());
        let mut rows = new.reshape([batch * heads * num_rows, size]);
        if let Some(from) = &self.from {
            rows = rows.select(0, from.clone());
        }
        let all = stored.reshape([batch * heads * space, size]);
        // Both write in place: flex would copy all of the target of a scatter, and a GPU would write selected rows one
        // after the other.
        let all = if in_host_memory {
            all.select_assign(0, to, rows, IndexingUpdateOp::Assign)
        } else {
            all.scatter_nd(to.unsqueeze_dim::<2>(1), rows, IndexingUpdateOp::Assign)
        };
        all.reshape(shape)
    }
}

/// # Panics
/// If the device is one of autodiff.
pub(super) fn assert_without_autodiff(device: &Device) {
    assert!(
        !device.is_autodiff(),
        "KeyValueCache: a device without autodiff expected, as generation has no gradients (`model.valid()`), got \
         {device:?}"
    );
}
