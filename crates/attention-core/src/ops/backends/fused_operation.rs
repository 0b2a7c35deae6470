//! The fused attentions, as what queues or sends them sees them.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;
use burn_fused_layers::harness::tracked::TrackedInputs;
#[cfg(feature = "remote")]
use burn_fused_layers::paths::Operation;

use crate::ops::attention_backend::AttentionBackend;
use crate::ops::fused::AttentionKernel;
use crate::ops::{AdditiveAttentionInputs, DotProductAttentionInputs};

/// A fused attention.
pub(super) trait FusedOperation<B: Backend, const N: usize>: TrackedInputs<B, N> {
    #[cfg(feature = "remote")]
    const OPERATION: Operation;
    const FORWARD: &'static str;
    #[cfg(feature = "remote")]
    const BACKWARD: &'static str;

    fn kernel() -> Option<AttentionKernel<B, Self, N>>
    where
        B: AttentionBackend;

    fn values(&self) -> &FloatTensor<B>;

    fn dropout(&self) -> f64;
}

macro_rules! fused_operation {
    ($inputs:ident[$count:literal], $operation:ident, $kernel:ident) => {
        impl<B: Backend> FusedOperation<B, $count> for $inputs<B> {
            #[cfg(feature = "remote")]
            const OPERATION: Operation = Operation::$operation;
            const FORWARD: &'static str = stringify!($kernel);
            #[cfg(feature = "remote")]
            const BACKWARD: &'static str = concat!(stringify!($kernel), ".backward");

            fn kernel() -> Option<AttentionKernel<B, Self, $count>>
            where
                B: AttentionBackend,
            {
                B::KERNELS.$kernel
            }

            fn values(&self) -> &FloatTensor<B> {
                &self.values
            }

            fn dropout(&self) -> f64 {
                self.dropout
            }
        }
    };
}

fused_operation!(
    AdditiveAttentionInputs[7],
    AdditiveAttention,
    additive_attention
);
fused_operation!(
    DotProductAttentionInputs[6],
    DotProductAttention,
    dot_product_attention
);
