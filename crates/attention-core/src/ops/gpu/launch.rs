//! From the inputs of an operation to the arguments of kernels.

use std::sync::Once;

use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeDevice, cubecl};
use cubecl::prelude::*;

use super::mask::{DeviceMask, MaskLaunch};
use super::pairs::Form;
use super::problem::{DropoutLaunch, SizesLaunch};
use super::tensors::empty;
use super::tiling::Tiling;

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
