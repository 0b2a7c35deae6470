//! On the host: inputs and results, the devices, and which tiling a kernel runs in.

#[cfg(feature = "autotune")]
pub(crate) mod autotune;
pub(crate) mod choice;
pub(crate) mod device;
pub(crate) mod dropout;
pub(crate) mod inputs;
pub(crate) mod mask;
pub(crate) mod modifiers;
pub(crate) mod tensors;
#[cfg(feature = "autotune")]
pub(crate) mod trials;
