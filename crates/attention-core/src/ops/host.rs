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

use super::mask::ResolvedMask;

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

/// The shape of tensors with an element for each pair of query and key.
pub(super) fn pairs_shape<B: Backend>(queries: &FloatTensor<B>, keys: &FloatTensor<B>) -> Shape {
    let [batch, heads, num_queries, _] = queries.shape().dims();
    let [_, _, num_keys, _] = keys.shape().dims();
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
