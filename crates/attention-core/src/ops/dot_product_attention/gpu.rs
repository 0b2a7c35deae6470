//! By the kernels of a GPU.

use attention_gpu::{AttentionInputs, Dropout, Score, cast};
use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use burn_fused_layers::harness::kernel::Gradient;

use super::DotProductAttentionInputs;
use crate::ops::fused::gpu::GpuAttention;
use crate::ops::gpu::device_mask;

impl GpuAttention for DotProductAttentionInputs<CubeBackend> {
    fn dropout(&self) -> f64 {
        self.dropout
    }

    fn kernel_inputs(&self, dropout: Option<Dropout>) -> AttentionInputs {
        let [_, _, num_keys, _] = self.keys.shape().dims();
        let bias = self.bias.as_option();
        AttentionInputs {
            queries: self.queries.clone(),
            keys: self.keys.clone(),
            values: self.values.clone(),
            score: Score::DotProduct {
                scale: self.scale,
                bias: bias.map(|bias| cast(bias.clone(), DType::F32)),
            },
            mask: device_mask(&self.mask, &self.queries, num_keys),
            dropout,
        }
    }

    fn parameter_gradient(&self, mut gradient: CubeTensor) -> Gradient<CubeBackend> {
        let Some(bias) = self.bias.as_option() else {
            return Gradient::Absent;
        };
        if bias.shape()[1] == 1 {
            gradient = CubeBackend::float_sum_dim(gradient, 1);
        }
        Gradient::Whole(cast(gradient, bias.dtype()))
    }
}
