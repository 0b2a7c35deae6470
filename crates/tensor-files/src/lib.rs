#![doc = include_str!("../README.md")]

mod archive;
mod archived;
mod element_type;
mod exported;
mod file;
mod file_format;
#[rustfmt::skip] // tables of formats, with lines of Python
mod foreign;
#[cfg(feature = "hdf5")]
mod hdf5;
mod input;
mod layout;
mod legacy;
mod machine;
mod message_pack;
mod mxnet;
mod npy;
mod numpy_array;
mod objects;
mod paddle;
mod path;
mod pickle;
mod safetensors;
mod stored;
mod text;

pub use element_type::ElementType;
pub use file::{Error, TensorFile};
pub use file_format::FileFormat;
pub use stored::StoredTensor;
pub use text::shown;
