//! From tensors to the arguments of kernels.

use std::sync::Once;

use burn::backend::TensorMetadata;
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::tensor::{DType, FloatDType, IntDType, Shape, bf16, f16};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice, cubecl};
use cubecl::client::Client;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::mask::{DeviceMask, MaskLaunch};
use super::pairs::Form;
use super::problem::{DropoutLaunch, SizesLaunch};
use super::tiling::Tiling;
use crate::ops::OptionalTensor;
use crate::ops::backends::{TensorMap, TrackedInputs};

/// Of the kernel that has most: thirteen tensors, and what CubeCL adds.
const MAX_BINDINGS: u32 = 14;

/// What goes into the kernels of an attention or a score; all tensors contiguous.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Problem {
    pub(in crate::ops) form: Form,
    /// `[batch, heads, queries, size]`
    pub(in crate::ops) queries: CubeTensor,
    /// `[batch, key_heads, keys, size]`
    pub(in crate::ops) keys: CubeTensor,
    /// `[batch, key_heads, keys, value_size]`, or the keys again where there are no values.
    pub(in crate::ops) values: CubeTensor,
    /// Of additive scores, `[size]` in f32.
    pub(in crate::ops) weight: Option<CubeTensor>,
    /// Of dot products, `[batch, heads or 1, 1, keys]` in f32.
    pub(in crate::ops) bias: Option<CubeTensor>,
    pub(in crate::ops) mask: DeviceMask,
    /// The factor on the products.
    pub(in crate::ops) scale: f64,
    /// The probability to drop a weight.
    pub(in crate::ops) dropout: f64,
    /// What dropout draws from, if it is active.
    pub(in crate::ops) seed: Option<CubeTensor>,
}

impl Problem {
    pub(super) fn tiling(&self) -> Tiling {
        let [_, _, queries, _] = self.queries.shape().dims();
        Tiling::new(queries)
    }

    /// An uninitialised tensor of f32.
    pub(super) fn empty(&self, shape: impl Into<Shape>) -> CubeTensor {
        empty(&self.queries, shape, DType::F32)
    }

    pub(super) fn sizes(&self) -> SizesLaunch {
        let [batch, heads, queries, size] = self.queries.shape().dims();
        let [_, key_heads, keys, _] = self.keys.shape().dims();
        let [_, _, _, value_size] = self.values.shape().dims();
        let bias_heads = self.bias.as_ref().map_or(0, |bias| bias.shape()[1]);
        let bias_head = if bias_heads > 1 { keys } else { 0 };
        SizesLaunch::new(
            batch,
            heads,
            key_heads,
            queries,
            keys,
            size,
            value_size,
            bias_heads * keys,
            bias_head,
            self.scale as f32,
        )
    }

    pub(super) fn weight_arg(&self) -> ComptimeOptionArgs<OwnedTensor<f32>> {
        self.weight.clone().map(CubeTensor::into_tensor_arg).into()
    }

    pub(super) fn bias_arg(&self) -> ComptimeOptionArgs<OwnedTensor<f32>> {
        self.bias.clone().map(CubeTensor::into_tensor_arg).into()
    }

    pub(super) fn mask_arg(&self) -> MaskLaunch {
        self.mask.arg()
    }

    pub(super) fn dropout_arg(&self) -> DropoutLaunch {
        let probability = self.dropout;
        DropoutLaunch::new(
            self.seed.clone().map(CubeTensor::into_tensor_arg).into(),
            // As on the CPU.
            (probability * 4_294_967_296.0).min(4_294_967_295.0) as u32,
            (1.0 / (1.0 - probability)) as f32,
        )
    }

    /// The widest index that any of its tensors, or of `others`, needs.
    pub(super) fn address_type(&self, others: &[&CubeTensor]) -> AddressType {
        let own = [&self.queries, &self.keys, &self.values];
        let tensors = own
            .into_iter()
            .chain(&self.bias)
            .chain(others.iter().copied());
        let widest = tensors.map(CubeTensor::required_address_type).max();
        widest.unwrap_or_default().max(self.mask.address_type())
    }
}

/// Whether the kernels run on a device, with tensors of a type. If the device has not the means, the log says so.
pub(crate) fn runs_on(device: &CubeDevice, dtype: DType) -> bool {
    let client = device.client();
    let hardware = &client.properties().hardware;
    let tiling = Tiling::new(usize::MAX);
    let means = [
        (
            "units in a cube",
            hardware.max_units_per_cube as usize,
            tiling.units(),
        ),
        (
            "bytes of shared memory",
            hardware.max_shared_memory_size,
            tiling.shared_memory(),
        ),
        (
            "bindings",
            hardware.max_bindings as usize,
            MAX_BINDINGS as usize,
        ),
    ];
    let missing = means.iter().find(|(_, has, needs)| has < needs);
    if let Some((what, has, needs)) = missing {
        static WARNING: Once = Once::new();
        WARNING.call_once(|| {
            log::warn!(
                "attention runs without kernels: they need {needs} {what}, {device:?} has {has}"
            );
        });
    }
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16) && missing.is_none()
}

/// The most bytes that a tensor on a device may have.
pub(in crate::ops) fn largest_buffer(device: &CubeDevice) -> usize {
    largest_buffer_of(&device.client())
}

fn largest_buffer_of(client: &Client) -> usize {
    let bytes = client.properties().memory.max_page_size;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// An uninitialised tensor beside `like`.
///
/// # Panics
/// If the device has no buffer that large: what a kernel writes beyond its limit would be lost without a word.
pub(super) fn empty(like: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    let shape = shape.into();
    let elements = shape.iter().copied();
    let bytes = elements.fold(dtype.size(), usize::saturating_mul);
    let largest = largest_buffer_of(&like.client);
    assert!(
        bytes <= largest,
        "attention: a tensor of at most {largest} bytes expected, which is what a buffer of {:?} holds; {:?} takes \
         {bytes}",
        like.device,
        shape.as_slice()
    );
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape, dtype)
}

/// `cubes` cubes, in whatever dimensions the device counts them.
pub(super) fn cube_count(client: &Client, cubes: usize) -> CubeCount {
    cubecl::calculate_cube_count_elemwise(client, cubes, CubeDim::new_single())
}

/// Inputs whose tensors the kernels can read.
pub(in crate::ops) fn readable<I, const N: usize>(inputs: I) -> I::On<CubeBackend>
where
    I: TrackedInputs<CubeBackend, N>,
{
    inputs.map(&mut Contiguous)
}

struct Contiguous;

impl TensorMap<CubeBackend, CubeBackend> for Contiguous {
    fn tracked(&mut self, tensor: CubeTensor) -> CubeTensor {
        contiguous(tensor)
    }

    fn tracked_option(
        &mut self,
        tensor: OptionalTensor<CubeBackend>,
    ) -> OptionalTensor<CubeBackend> {
        tensor.into_option().map(contiguous).into()
    }

    fn constant(&mut self, tensor: OptionalTensor<CubeBackend>) -> OptionalTensor<CubeBackend> {
        tensor
    }
}

/// The elements one after the other.
pub(super) fn contiguous(tensor: CubeTensor) -> CubeTensor {
    into_contiguous(tensor)
}

/// Of another type, if it is not yet, and contiguous then: what is cast may be padded.
pub(in crate::ops) fn cast(tensor: CubeTensor, dtype: DType) -> CubeTensor {
    if tensor.dtype() == dtype {
        tensor
    } else {
        contiguous(CubeBackend::float_cast(tensor, FloatDType::from(dtype)))
    }
}

/// Integers one after the other, in 32 bits.
pub(super) fn contiguous_i32(tensor: CubeTensor) -> CubeTensor {
    let is_wide = tensor.dtype() != DType::I32;
    contiguous(if is_wide {
        CubeBackend::int_cast(tensor, IntDType::I32)
    } else {
        tensor
    })
}

/// The type that elements are stored as.
pub(super) fn element_type(dtype: DType) -> ElemType {
    match dtype {
        DType::F16 => f16::elem_type_native(),
        DType::BF16 => bf16::elem_type_native(),
        _ => f32::elem_type_native(),
    }
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use cubecl::wgpu::WgpuDevice;

    use super::*;

    #[test]
    #[should_panic(expected = "bytes expected, which is what a buffer of")]
    fn a_tensor_beyond_the_largest_buffer_is_refused() {
        let device = cubecl::Device::Wgpu(WgpuDevice::default());
        let bytes = largest_buffer(&device);
        let like = CubeBackend::float_zeros([1].into(), &device, FloatDType::F32);
        empty(&like, [bytes / 4 + 1], DType::F32);
    }
}
