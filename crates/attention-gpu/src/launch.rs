//! From the inputs of an operation to the arguments of kernels.

use std::sync::Once;

use burn_backend::TensorMetadata;
use burn_backend::{DType, Shape};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeDevice, cubecl};
use cubecl::prelude::*;

use crate::mask::{DeviceMask, MaskLaunch};
use crate::pairs::Form;
use crate::problem::{DropoutLaunch, SizesLaunch};
use crate::tensors::empty;
use crate::tiling::Tiling;

/// Of the kernel that has most: thirteen tensors, and what CubeCL adds.
const MAX_BINDINGS: u32 = 14;

/// What goes into the kernels of an attention or a score; all tensors contiguous.
#[derive(Clone, Debug)]
pub struct Problem {
    pub form: Form,
    /// `[batch, heads, queries, size]`
    pub queries: CubeTensor,
    /// `[batch, key_heads, keys, size]`
    pub keys: CubeTensor,
    /// `[batch, key_heads, keys, value_size]`, or the keys again where there are no values.
    pub values: CubeTensor,
    /// Of additive scores, `[size]` in f32.
    pub weight: Option<CubeTensor>,
    /// Of dot products, `[batch, heads or 1, 1, keys]` in f32.
    pub bias: Option<CubeTensor>,
    pub mask: DeviceMask,
    /// The factor on the products.
    pub scale: f64,
    /// The probability to drop a weight.
    pub dropout: f64,
    /// What dropout draws from, if it is active.
    pub seed: Option<CubeTensor>,
}

impl Problem {
    pub(crate) fn tiling(&self) -> Tiling {
        let [_, _, queries, _] = self.queries.shape().dims();
        Tiling::new(queries)
    }

    /// An uninitialised tensor of f32.
    pub(crate) fn empty(&self, shape: impl Into<Shape>) -> CubeTensor {
        empty(&self.queries, shape, DType::F32)
    }

    pub(crate) fn sizes(&self) -> SizesLaunch {
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

    pub(crate) fn weight_arg(&self) -> ComptimeOptionArgs<OwnedTensor<f32>> {
        self.weight.clone().map(CubeTensor::into_tensor_arg).into()
    }

    pub(crate) fn bias_arg(&self) -> ComptimeOptionArgs<OwnedTensor<f32>> {
        self.bias.clone().map(CubeTensor::into_tensor_arg).into()
    }

    pub(crate) fn mask_arg(&self) -> MaskLaunch {
        self.mask.arg()
    }

    pub(crate) fn dropout_arg(&self) -> DropoutLaunch {
        let probability = self.dropout;
        DropoutLaunch::new(
            self.seed.clone().map(CubeTensor::into_tensor_arg).into(),
            // As on the CPU.
            (probability * 4_294_967_296.0).min(4_294_967_295.0) as u32,
            (1.0 / (1.0 - probability)) as f32,
        )
    }

    /// The widest index that any of its tensors, or of `others`, needs.
    pub(crate) fn address_type(&self, others: &[&CubeTensor]) -> AddressType {
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
pub fn runs_on(device: &CubeDevice, dtype: DType) -> bool {
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
