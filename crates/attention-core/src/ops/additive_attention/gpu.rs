//! By the kernels of a GPU.

use attention_gpu::{AttentionGradients, AttentionInputs, Dropout, Score, Wanted, cast};
use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::CubeBackend;

use super::AdditiveAttentionInputs;
use crate::ops::fused::gpu::{GpuAttention, GradientOf, modifiers};
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
            modifiers: modifiers(&self.modifiers),
            mask: device_mask(&self.mask, &self.queries, num_keys),
            dropout,
        }
    }

    fn wanted([queries, keys, values, weight, bias, relative_bias, sinks]: [bool; 7]) -> Wanted {
        Wanted {
            queries,
            keys,
            values,
            weight,
            bias,
            relative_bias,
            sinks,
        }
    }

    fn in_order(&self, gradients: AttentionGradients) -> [GradientOf<'_>; 7] {
        let modifiers = &self.modifiers;
        [
            (gradients.queries, Some(&self.queries)),
            (gradients.keys, Some(&self.keys)),
            (gradients.values, Some(&self.values)),
            (gradients.weight, Some(&self.weight)),
            (gradients.bias, modifiers.bias.as_option()),
            (gradients.relative_bias, modifiers.relative_bias.as_option()),
            (gradients.sinks, modifiers.sinks.as_option()),
        ]
    }
}
