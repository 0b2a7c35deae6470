//! Paddle's `.pdparams`: a pickle of NumPy's arrays.

use std::fs::File;

use crate::foreign;
use crate::input::Input;
use crate::objects::{self, Elements};
use crate::pickle::Pickle;
use crate::stored::{Place, Tensors};

/// The tensors of a file that is one pickle.
pub(crate) fn tensors(file: &File, len: u64) -> Result<Tensors, String> {
    let pickle = Pickle::read(&mut Input::of_file(file, len)?)?;
    let tensors = objects::tensors(pickle, |elements| match elements {
        Elements::Bytes(bytes) => Ok(Place::Bytes(bytes)),
        Elements::Storage(_) => Err("expected an array of NumPy, got a tensor of PyTorch".into()),
    })?;
    match tensors.names.is_empty() {
        true => Err(foreign::refused(foreign::PICKLE)),
        false => Ok(tensors),
    }
}
