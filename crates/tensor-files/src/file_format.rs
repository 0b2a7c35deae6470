//! The supported formats.

use std::fmt;

/// The format of a file: a framework's own, or one that many programs write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// Written by `torch.save`, `torch.jit.save` or `torch.export.save`.
    PyTorch,
    /// Written by many programs.
    Safetensors,
    /// `.npy` and `.npz`, written by many programs.
    NumPy,
    /// MXNet's `.params`.
    MxNet,
    /// HDF5, by itself or in a `.keras` file.
    Keras,
    /// Paddle's `.pdparams` of a state dict.
    Paddle,
    /// Other pickles of NumPy arrays, written by many programs.
    Pickle,
    /// Flax' MessagePack.
    Flax,
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PyTorch => "PyTorch's file",
            Self::Safetensors => "a file of safetensors",
            Self::NumPy => "NumPy's `.npy` or `.npz`",
            Self::MxNet => "MXNet's `.params`",
            Self::Keras => "Keras' HDF5",
            Self::Paddle => "Paddle's `.pdparams`",
            Self::Pickle => "a pickle of NumPy's arrays",
            Self::Flax => "Flax' MessagePack",
        })
    }
}
