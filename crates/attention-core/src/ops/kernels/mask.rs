//! Masks, from tensors to slices.

use attention_kernels::Mask;
use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use burn::tensor::{TensorData, try_read_sync};

use super::slices::synchronously;
use crate::ops::MaskPrimitive;

/// A mask as the kernels read it.
#[derive(Clone, Debug, Default)]
pub(in crate::ops) struct HostMask {
    intervals: Option<(Vec<[usize; 2]>, [usize; 2])>,
    keep: Option<(Vec<bool>, [usize; 4])>,
}

impl HostMask {
    pub(in crate::ops) fn read<B: Backend>(mask: MaskPrimitive<B>) -> Self {
        let intervals = |start, end| {
            let (start, start_shape) = read_bounds::<B>(start);
            let (end, end_shape) = read_bounds::<B>(end);
            let shape = [0, 1].map(|axis: usize| start_shape[axis].max(end_shape[axis]));
            let at = |bounds: &[usize], [batches, queries]: [usize; 2], batch, query| {
                let batch = if batches == 1 { 0 } else { batch };
                bounds[batch * queries + if queries == 1 { 0 } else { query }]
            };
            let pairs = (0..shape[0] * shape[1]).map(|index| {
                let (batch, query) = (index / shape[1], index % shape[1]);
                [
                    at(&start, start_shape, batch, query),
                    at(&end, end_shape, batch, query),
                ]
            });
            Some((pairs.collect(), shape))
        };
        let keep = |keep| {
            let shape = B::BoolTensorPrimitive::shape(&keep).dims();
            let data = synchronously(try_read_sync(B::bool_into_data(keep)));
            Some((data.iter::<bool>().collect(), shape))
        };
        match mask {
            MaskPrimitive::None => Self::default(),
            MaskPrimitive::Intervals { start, end } => Self {
                intervals: intervals(start, end),
                keep: None,
            },
            MaskPrimitive::Dense { keep: flags } => Self {
                intervals: None,
                keep: keep(flags),
            },
            MaskPrimitive::IntervalsAndDense {
                start,
                end,
                keep: flags,
            } => Self {
                intervals: intervals(start, end),
                keep: keep(flags),
            },
        }
    }

    /// The keys that no query sees, true where hidden, `[batch, heads or 1, 1, keys]`; `None` if there are none. In
    /// time that grows with queries + keys but for a dense mask.
    pub(in crate::ops) fn padding(
        &self,
        batch: usize,
        num_keys: usize,
    ) -> Option<(Vec<bool>, [usize; 4])> {
        let heads = self.keep.as_ref().map_or(1, |(_, shape)| shape[1]);
        let queries = [
            self.intervals.as_ref().map_or(1, |(_, shape)| shape[1]),
            self.keep.as_ref().map_or(1, |(_, shape)| shape[2]),
        ];
        let num_queries = queries[0].max(queries[1]);
        let mask = self.as_mask();
        let mut hidden = Vec::with_capacity(batch * heads * num_keys);
        for row in 0..batch * heads {
            let seen = mask.seen_keys(row / heads, row % heads, num_queries, num_keys);
            hidden.extend(seen.into_iter().map(|seen| !seen));
        }
        hidden
            .contains(&true)
            .then_some((hidden, [batch, heads, 1, num_keys]))
    }

    pub(super) fn as_mask(&self) -> Mask<'_> {
        let mask = Mask::none();
        let mask = match &self.intervals {
            Some((bounds, shape)) => mask.with_intervals(bounds, *shape),
            None => mask,
        };
        match &self.keep {
            Some((keep, shape)) => mask.with_keep(keep, *shape),
            None => mask,
        }
    }
}

/// Bounds of intervals, `[batch or 1, 1, queries or 1, 1]`.
fn read_bounds<B: Backend>(tensor: B::IntTensorPrimitive) -> (Vec<usize>, [usize; 2]) {
    let [batch, _, queries, _] = tensor.shape().dims();
    let data = synchronously(try_read_sync(B::int_into_data(tensor)));
    let bounds = data
        .iter::<i64>()
        .map(|bound| usize::try_from(bound).unwrap_or(0));
    (bounds.collect(), [batch, queries])
}

/// Where [`crate::ops::AttentionOps::fill_padding`] fills: the rows of `[batch, heads, keys, size]` that no query sees.
pub(in crate::ops) fn padding<B: Backend>(
    tensor: &FloatTensor<B>,
    mask: &HostMask,
) -> Option<BoolTensor<B>> {
    let [batch, _, num_keys, _] = tensor.shape().dims();
    let (hidden, [batch, heads, _, _]) = mask.padding(batch, num_keys)?;
    let data = TensorData::new(hidden, [batch, heads, num_keys, 1]);
    let device = tensor.device();
    let dtype = get_device_settings::<B>(&device).bool_dtype;
    let hidden = B::bool_from_data(data.convert_dtype(dtype.into()), &device);
    Some(B::bool_expand(hidden, tensor.shape()))
}
