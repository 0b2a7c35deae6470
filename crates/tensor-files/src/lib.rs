#![doc = include_str!("../README.md")]

mod archive;
mod element_type;
mod file;
#[rustfmt::skip] // tables of formats, with lines of Python
mod foreign;
mod layout;
mod legacy;
mod machine;
mod objects;
mod pickle;
mod safetensors;
mod stored;
mod text;

pub use element_type::ElementType;
pub use file::{Error, TensorFile};
pub use stored::StoredTensor;
pub use text::shown;
