//! On the host: inputs and results, devices, and the choice of a kernel's tiling.

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
