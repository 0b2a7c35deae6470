//! Tensors in this process's memory as the kernels of attention read them.

use std::sync::Arc;

use attention_kernels::{AttentionReal, Mask, Rows};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
pub(super) use burn_fused_layers::harness::host::{
    CpuBackend, CpuReal, elements, readable, tensor, unwritten, whole, with_real, zeros,
};
use burn_fused_layers::harness::host::{Elements, Strided, flags, indices, strided};
use cpu_kernels::Half;

use super::mask::{DeviceMask, HostMask, Intervals, Keep, ResolvedMask};

/// A type that the kernels of attention compute in.
pub(super) trait AttentionElement: CpuReal + AttentionReal {}

impl<E: CpuReal + AttentionReal> AttentionElement for E {}

/// A readable tensor of four axes.
pub(super) fn rows<B: CpuBackend, E: AttentionElement>(tensor: &FloatTensor<B>) -> Rows<'_, E> {
    fn strides<N>(elements: &Strided<N>) -> [usize; 3] {
        [
            elements.strides[0],
            elements.strides[1],
            elements.strides[2],
        ]
    }
    let shape = tensor.shape().dims();
    match B::elements(tensor) {
        Elements::F16(elements) => Rows::half(Half::F16(elements.data), shape, strides(&elements)),
        Elements::Bf16(elements) => {
            Rows::half(Half::Bf16(elements.data), shape, strides(&elements))
        }
        whole => {
            let elements = strided::<B, E>(&whole, tensor);
            Rows::strided(elements.data, shape, strides(elements))
        }
    }
}

/// A mask that was resolved for a device, on the host.
pub(super) fn to_host<B: CpuBackend>(mask: ResolvedMask<B>) -> ResolvedMask<B> {
    let ResolvedMask::Device { mask } = mask else {
        return mask;
    };
    let (bounds, keep) = match mask {
        DeviceMask::Intervals { start, end } => (Some([start, end]), None),
        DeviceMask::Keep { keep } => (None, Some(keep)),
        DeviceMask::IntervalsAndKeep { start, end, keep } => (Some([start, end]), Some(keep)),
    };
    let intervals = bounds.map(|[start, end]| {
        let from = intervals_of::<B>(start, |start| [start, usize::MAX]);
        let to = intervals_of::<B>(end, |end| [0, end]);
        from.intersect(&to)
    });
    let keep = keep.map(|keep| Keep {
        shape: keep.shape().dims(),
        flags: flags::<B>(keep),
    });
    let mask = Arc::new(HostMask { intervals, keep });
    ResolvedMask::Host { mask }
}

/// An interval for each element of `[batch or 1, 1, queries or 1, 1]`.
fn intervals_of<B: CpuBackend>(
    tensor: IntTensor<B>,
    interval: fn(usize) -> [usize; 2],
) -> Intervals {
    let [batch, _, queries, _] = tensor.shape().dims();
    Intervals {
        bounds: indices::<B>(tensor).into_iter().map(interval).collect(),
        shape: [batch, queries],
    }
}

/// The mask as the kernels read it.
///
/// # Panics
/// If it lies on a device.
pub(super) fn on_host<B: Backend>(mask: &ResolvedMask<B>) -> Mask<'_> {
    match mask {
        ResolvedMask::None => Mask::none(),
        ResolvedMask::Host { mask } => mask.view(),
        _ => panic!("expected a mask that was resolved on the host, got one on a device"),
    }
}
