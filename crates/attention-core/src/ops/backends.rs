//! Which backends take part. All of them use the composed defaults.

#[cfg(any(
    feature = "flex",
    feature = "ndarray",
    feature = "cubecl-backend",
    feature = "autodiff"
))]
use super::AttentionOps;

#[cfg(feature = "flex")]
impl AttentionOps for burn::backend::Flex {}

#[cfg(feature = "ndarray")]
impl AttentionOps for burn::backend::NdArray {}

#[cfg(feature = "cubecl-backend")]
impl AttentionOps for burn_cubecl::CubeBackend {}

/// The composed definition, differentiated operation by operation.
#[cfg(feature = "autodiff")]
impl<B, C> AttentionOps for burn::backend::Autodiff<B, C>
where
    B: burn::backend::Backend + AttentionOps,
    C: burn_autodiff::checkpoint::strategy::CheckpointStrategy,
{
}
