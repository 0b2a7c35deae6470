//! Which backends take part: the ones in memory with kernels, CubeCL's with the composed defaults. (Training is in
//! `autodiff.rs`.)

#[cfg(any(feature = "host", feature = "cubecl-backend"))]
use super::AttentionOps;
#[cfg(feature = "host")]
use super::kernels::{self, AdditiveTensors, DotTensors, HostMask};
#[cfg(feature = "host")]
use super::{AttentionOptions, MaskPrimitive, OptionalTensor, SharedGradients};
#[cfg(feature = "host")]
use burn::backend::{ops::FloatTensorOps, tensor::FloatTensor};

/// [`AttentionOps`] by the kernels.
#[cfg(feature = "host")]
macro_rules! host_ops {
    ($backend:ty) => {
        impl AttentionOps for $backend {
            fn fill_padding(
                tensor: FloatTensor<Self>,
                mask: MaskPrimitive<Self>,
            ) -> FloatTensor<Self> {
                match kernels::padding::<Self>(&tensor, &HostMask::read(mask)) {
                    Some(hidden) => Self::float_mask_fill(tensor, hidden, 0.0.into()),
                    None => tensor,
                }
            }

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

            fn attention(
                queries: FloatTensor<Self>,
                keys: FloatTensor<Self>,
                values: FloatTensor<Self>,
                bias: OptionalTensor<Self>,
                mask: MaskPrimitive<Self>,
                options: AttentionOptions,
                _shared: Option<SharedGradients>,
            ) -> FloatTensor<Self> {
                let dropout = kernels::draw_dropout::<Self>(options.dropout, &queries);
                let tensors = DotTensors::<Self> {
                    queries,
                    keys,
                    values,
                    bias: bias.into_option(),
                    scale: options.scale,
                };
                kernels::attention::<Self>(tensors, &HostMask::read(mask), dropout).context
            }

            fn additive_attention(
                queries: FloatTensor<Self>,
                keys: FloatTensor<Self>,
                values: FloatTensor<Self>,
                weight: FloatTensor<Self>,
                mask: MaskPrimitive<Self>,
                packed: OptionalTensor<Self>,
                dropout: f64,
                _shared: Option<SharedGradients>,
            ) -> FloatTensor<Self> {
                let dropout = kernels::draw_dropout::<Self>(dropout, &queries);
                let packed = packed.into_option();
                let tensors = AdditiveTensors::<Self> {
                    queries,
                    keys,
                    values,
                    weight,
                    packed,
                };
                kernels::additive_attention::<Self>(tensors, &HostMask::read(mask), dropout).context
            }

            fn pack_additive_keys(
                keys: FloatTensor<Self>,
                mask: MaskPrimitive<Self>,
                num_queries: usize,
            ) -> FloatTensor<Self> {
                kernels::pack_additive_keys::<Self>(keys, &HostMask::read(mask), num_queries)
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
