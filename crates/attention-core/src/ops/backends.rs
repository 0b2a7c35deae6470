//! Which backends take part: the ones in memory with kernels, CubeCL's with the composed defaults. (Training is in
//! `autodiff.rs`.)

#[cfg(any(feature = "host", feature = "cubecl-backend"))]
use super::AttentionOps;
#[cfg(feature = "host")]
use super::{MaskPrimitive, kernels, kernels::HostMask};
#[cfg(feature = "host")]
use burn::backend::tensor::FloatTensor;

/// [`AttentionOps`] by the kernels.
#[cfg(feature = "host")]
macro_rules! host_ops {
    ($backend:ty) => {
        impl AttentionOps for $backend {
            fn additive_score(
                queries: FloatTensor<Self>,
                keys: FloatTensor<Self>,
                weight: FloatTensor<Self>,
                mask: MaskPrimitive<Self>,
            ) -> FloatTensor<Self> {
                kernels::additive_score::<Self>(queries, keys, weight, &HostMask::read(mask))
            }

            fn masked_softmax(
                scores: FloatTensor<Self>,
                mask: MaskPrimitive<Self>,
            ) -> FloatTensor<Self> {
                kernels::masked_softmax::<Self>(scores, &HostMask::read(mask))
            }
        }
    };
}

#[cfg(feature = "flex")]
host_ops!(burn::backend::Flex);

#[cfg(feature = "ndarray")]
host_ops!(burn::backend::NdArray);

#[cfg(feature = "cubecl-backend")]
impl AttentionOps for burn_cubecl::CubeBackend {}
