//! Between the operations and the kernels of `attention-gpu`: what the `gpu.rs` of each operation shares.

mod inputs;
mod mask;

pub(super) use inputs::readable;
pub(super) use mask::device_mask;
