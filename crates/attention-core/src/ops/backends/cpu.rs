//! The kernels of `attention-kernels` and `cpu-kernels`, for backends whose tensors lie in this process's memory.

use burn::backend::Backend;
use burn::backend::tensor::FloatTensor;
use burn::tensor::DType;

use crate::ops::attention_backend::Kernels;
use crate::ops::host::CpuBackend;
use crate::ops::kernel::{Backward, Kernel, TrainedKernel};
use crate::ops::{
    additive_attention, additive_score, cross_entropy, deferred_gradients, dot_product_attention,
    linear, masked_softmax, pack_additive_keys, recurrent, select_rows,
};

/// The kernels, a line for each operation.
#[rustfmt::skip]
pub(super) const fn kernels<B: CpuBackend>() -> Kernels<B> {
    Kernels {
        runs_on: |_, _| true,
        statistics: DType::F64,
        additive_attention: kernel(additive_attention::cpu::forward, additive_attention::cpu::backward),
        dot_product_attention: kernel(dot_product_attention::cpu::forward, dot_product_attention::cpu::backward),
        additive_score: kernel(additive_score::cpu::forward, additive_score::cpu::backward),
        masked_softmax: kernel(masked_softmax::cpu::forward, masked_softmax::cpu::backward),
        pack_additive_keys: Some(pack_additive_keys::cpu),
        linear: kernel(linear::cpu::forward, linear::cpu::backward),
        select_rows: kernel(select_rows::cpu::forward, select_rows::cpu::backward),
        cross_entropy: Some(TrainedKernel {
            infer: cross_entropy::cpu::infer,
            train: Kernel { forward: cross_entropy::cpu::forward, backward: cross_entropy::cpu::backward },
        }),
        recurrent: Some(TrainedKernel {
            infer: recurrent::cpu::infer,
            train: Kernel { forward: recurrent::cpu::forward, backward: recurrent::cpu::backward },
        }),
        sum_deferred: Some(deferred_gradients::cpu::sum),
    }
}

const fn kernel<B: Backend, I, S, const N: usize>(
    forward: fn(I) -> (FloatTensor<B>, S),
    backward: Backward<B, S, N>,
) -> Option<Kernel<B, I, S, N>> {
    Some(Kernel { forward, backward })
}
