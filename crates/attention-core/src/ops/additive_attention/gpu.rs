//! By the kernels of a GPU.

use attention_gpu::{Form, Problem, cast};
use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::AdditiveAttentionInputs;
use crate::ops::fused::gpu::GpuAttention;
use crate::ops::gpu::device_mask;
use crate::ops::kernel::Gradient;

impl GpuAttention for AdditiveAttentionInputs<CubeBackend> {
    fn dropout(&self) -> f64 {
        self.dropout
    }

    fn problem(&self, seed: Option<CubeTensor>) -> Problem {
        let [_, _, num_keys, _] = self.keys.shape().dims();
        Problem {
            form: Form::Additive,
            queries: self.queries.clone(),
            keys: self.keys.clone(),
            values: self.values.clone(),
            weight: Some(cast(self.weight.clone(), DType::F32)),
            bias: None,
            mask: device_mask(&self.mask, &self.queries, num_keys),
            scale: 1.0,
            dropout: self.dropout,
            seed,
        }
    }

    fn last_gradient(&self, gradient: CubeTensor) -> Gradient<CubeBackend> {
        Gradient::Whole(cast(gradient, self.weight.dtype()))
    }
}
