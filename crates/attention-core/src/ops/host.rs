//! Tensors in this process's memory as the kernels of attention read them.

use attention_kernels::{AttentionReal, Mask, Rows};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;
pub(super) use burn_fused_layers::harness::host::{
    CpuBackend, CpuReal, elements, readable, tensor, unwritten, whole, with_compiled, zeros,
};
use burn_fused_layers::harness::host::{Elements, Strided, strided};
use cpu_kernels::Half;

use super::key_heads::sizes_with_heads;
use super::mask::ResolvedMask;

/// A type that the kernels of attention compute in.
pub(super) trait AttentionElement: CpuReal + AttentionReal {}

impl<E: CpuReal + AttentionReal> AttentionElement for E {}

/// A readable tensor of four axes, or of three for a single head.
pub(super) fn rows<B: CpuBackend, E: AttentionElement>(tensor: &FloatTensor<B>) -> Rows<'_, E> {
    fn strides<N>(elements: &Strided<N>) -> [usize; 3] {
        match elements.strides[..] {
            [example, row] => [example, 0, row],
            [example, head, row] => [example, head, row],
            _ => panic!("expected three or four axes"),
        }
    }
    let shape = sizes_with_heads(&tensor.shape());
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

/// The shape of tensors with an element for each pair of query and key.
pub(super) fn pairs_shape<B: Backend>(queries: &FloatTensor<B>, keys: &FloatTensor<B>) -> Shape {
    let [batch, heads, num_queries, _] = sizes_with_heads(&queries.shape());
    let [_, _, num_keys, _] = sizes_with_heads(&keys.shape());
    [batch, heads, num_queries, num_keys].into()
}

/// The mask, as the kernels read it.
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
