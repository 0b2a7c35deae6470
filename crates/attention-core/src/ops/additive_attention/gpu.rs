//! By the kernels of a GPU.

use attention_gpu::{AttentionInputs, Dropout, Score, cast};
use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::kernel::Gradient;

use super::AdditiveAttentionInputs;
use crate::ops::fused::gpu::GpuAttention;
use crate::ops::gpu::device_mask;

impl GpuAttention<7> for AdditiveAttentionInputs<CubeBackend> {
    fn dropout(&self) -> f64 {
        self.dropout
    }

    fn kernel_inputs(&self, dropout: Option<Dropout>) -> AttentionInputs {
        let [_, _, num_keys, _] = self.keys.shape().dims();
        AttentionInputs {
            queries: self.queries.clone(),
            keys: self.keys.clone(),
            values: self.values.clone(),
            score: Score::Additive {
                weight: cast(self.weight.clone(), DType::F32),
            },
            mask: device_mask(&self.mask, &self.queries, num_keys),
            dropout,
        }
    }

    fn parameter_gradients(
        &self,
        gradient: Option<CubeTensor>,
    ) -> impl IntoIterator<Item = Gradient<CubeBackend>> {
        gradient.map(|gradient| Gradient::Whole(cast(gradient, self.weight.dtype())))
    }
}
