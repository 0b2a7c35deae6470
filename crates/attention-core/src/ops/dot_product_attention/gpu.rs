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

impl GpuAttention<6> for DotProductAttentionInputs<CubeBackend> {
    fn dropout(&self) -> f64 {
        self.dropout
    }

    fn kernel_inputs(&self, dropout: Option<Dropout>) -> AttentionInputs {
        let [_, _, num_keys, _] = self.keys.shape().dims();
        let bias = self.modifiers.bias.as_option();
        let [batch, _, _, _] = self.queries.shape().dims();
        AttentionInputs {
            queries: self.queries.clone(),
            keys: self.keys.clone(),
            values: self.values.clone(),
            score: Score::DotProduct {
                scale: self.scale,
                bias: bias.map(|bias| {
                    let [_, heads, _, keys] = bias.shape().dims();
                    let bias =
                        CubeBackend::float_expand(bias.clone(), [batch, heads, 1, keys].into());
                    cast(bias, DType::F32)
                }),
            },
            mask: device_mask(&self.mask, &self.queries, num_keys),
            dropout,
        }
    }

    fn parameter_gradients(
        &self,
        gradient: Option<CubeTensor>,
    ) -> impl IntoIterator<Item = Gradient<CubeBackend>> {
        let of_bias = gradient.zip(self.modifiers.bias.as_option());
        of_bias.map(|(mut gradient, bias)| {
            for axis in [0, 1] {
                if bias.shape()[axis] == 1 {
                    gradient = CubeBackend::float_sum_dim(gradient, axis);
                }
            }
            Gradient::Whole(cast(gradient, bias.dtype()))
        })
    }
}
