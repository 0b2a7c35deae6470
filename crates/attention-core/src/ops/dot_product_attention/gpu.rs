//! By the kernels of a GPU.

use attention_gpu::{AttentionGradients, AttentionInputs, Dropout, Score, Wanted};
use burn::backend::TensorMetadata;
use burn_cubecl::CubeBackend;

use super::DotProductAttentionInputs;
use crate::ops::fused::gpu::{GpuAttention, GradientOf, modifiers};
use crate::ops::gpu::device_mask;

impl GpuAttention<6> for DotProductAttentionInputs<CubeBackend> {
    fn dropout(&self) -> f64 {
        self.dropout
    }

    fn kernel_inputs(&self, dropout: Option<Dropout>) -> AttentionInputs {
        let [_, _, num_keys, _] = self.keys.shape().dims();
        AttentionInputs {
            queries: self.queries.clone(),
            keys: self.keys.clone(),
            values: self.values.clone(),
            score: Score::DotProduct { scale: self.scale },
            modifiers: modifiers(&self.modifiers),
            mask: device_mask(&self.mask, &self.queries, num_keys),
            dropout,
        }
    }

    fn wanted([queries, keys, values, bias, relative_bias, sinks]: [bool; 6]) -> Wanted {
        Wanted {
            queries,
            keys,
            values,
            weight: false,
            bias,
            relative_bias,
            sinks,
        }
    }

    fn in_order(&self, gradients: AttentionGradients) -> [GradientOf<'_>; 6] {
        let modifiers = &self.modifiers;
        [
            (gradients.queries, Some(&self.queries)),
            (gradients.keys, Some(&self.keys)),
            (gradients.values, Some(&self.values)),
            (gradients.bias, modifiers.bias.as_option()),
            (gradients.relative_bias, modifiers.relative_bias.as_option()),
            (gradients.sinks, modifiers.sinks.as_option()),
        ]
    }
}
