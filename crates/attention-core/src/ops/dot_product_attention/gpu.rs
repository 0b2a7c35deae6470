//! By the kernels of a GPU.

use attention_gpu::{Form, Problem, cast};
use burn::backend::TensorMetadata;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::DotProductAttentionInputs;
use crate::ops::fused::gpu::GpuAttention;
use crate::ops::gpu::device_mask;
use crate::ops::kernel::Gradient;

impl GpuAttention for DotProductAttentionInputs<CubeBackend> {
    fn dropout(&self) -> f64 {
        self.dropout
    }

    fn problem(&self, seed: Option<CubeTensor>) -> Problem {
        let [_, _, num_keys, _] = self.keys.shape().dims();
        let bias = self.bias.as_option();
        Problem {
            form: Form::Dot,
            queries: self.queries.clone(),
            keys: self.keys.clone(),
            values: self.values.clone(),
            weight: None,
            bias: bias.map(|bias| cast(bias.clone(), DType::F32)),
            mask: device_mask(&self.mask, &self.queries, num_keys),
            scale: self.scale,
            dropout: self.dropout,
            seed,
        }
    }

    fn last_gradient(&self, mut gradient: CubeTensor) -> Gradient<CubeBackend> {
        let Some(bias) = self.bias.as_option() else {
            return Gradient::Absent;
        };
        if bias.shape()[1] == 1 {
            gradient = CubeBackend::float_sum_dim(gradient, 1);
        }
        Gradient::Whole(cast(gradient, bias.dtype()))
    }
}
