//! Pickles of NumPy arrays, such as Paddle's `.pdparams`.

use std::fs::File;

use crate::FileFormat;
use crate::foreign;
use crate::input::Input;
use crate::objects::{self, Elements};
use crate::pickle::Pickle;
use crate::stored::{Place, Tensors};

/// A key that Paddle adds to the tensors of a state dict.
const MARK: &str = "StructuredToParameterName@@";

/// The tensors of a file with a single pickle, and whether Paddle's key says that Paddle wrote it.
pub(crate) fn tensors(file: &File, len: u64) -> Result<(FileFormat, Tensors), String> {
    let pickle = Pickle::read(&mut Input::of_file(file, len)?)?;
    let format = match pickle.get(pickle.root, MARK) {
        Some(_) => FileFormat::Paddle,
        None => FileFormat::Pickle,
    };
    let tensors = objects::tensors(pickle, |elements| match elements {
        Elements::Bytes(bytes) => Ok(Place::Bytes(bytes)),
        Elements::Storage(_) => Err("expected an array of NumPy, got a tensor of PyTorch".into()),
    })?;
    match tensors.names.is_empty() {
        true => Err(foreign::refused(foreign::PICKLE)),
        false => Ok((format, tensors)),
    }
}
