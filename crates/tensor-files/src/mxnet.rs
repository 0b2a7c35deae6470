//! MXNet's `.params`, as written by Gluon's `save_parameters` and by `mxnet.nd.save`: arrays, followed by their names.

use std::fs::File;
use std::io::BufReader;

use crate::ElementType;
use crate::input::Input;
use crate::layout::MAX_AXES;
use crate::stored::{FoundTensor, StoredTensor, Tensors};

/// The magic number with which the file starts.
pub(crate) const START: &[u8] = b"\x12\x01\0\0\0\0\0\0";

/// The numbers with which an array starts; for the second, an array may have no axes and one element.
const ARRAYS: [u64; 2] = [0xF993_FAC9, 0xF993_FACA];

/// The arrays by name, or by number if they have no names.
pub(crate) fn tensors(file: &File, len: u64) -> Result<Tensors, String> {
    let input = &mut Input::of_file(file, len)?;
    input.skip(16)?;
    let count = input.number(8)?;
    let mut arrays = Vec::new();
    for index in 0..count {
        let array = array(input).map_err(|reason| format!("array {index} of {count}: {reason}"))?;
        arrays.push((index.to_string(), array));
    }
    let names = input.number(8)?;
    if names != 0 && names != count {
        return Err(format!("expected {count} names, got {names}"));
    }
    for (name, _) in arrays.iter_mut().take(names as usize) {
        let len = input.number(8)?;
        *name = input.text(len)?;
    }
    Ok(Tensors::of(arrays.into_iter().collect()))
}

/// The next array. If its end is unknown, the whole file is in error.
fn array(input: &mut Input<BufReader<&File>>) -> Result<FoundTensor, String> {
    let (start, storage) = (input.number(4)?, input.number(4)?);
    if !ARRAYS.contains(&start) || storage != 0 {
        return Err(format!(
            "expected a dense one of MXNet 1.0 or later, got the start {start:#x} and the kind {storage}"
        ));
    }
    let axes = input.number(4)?;
    if axes == 0 && start == ARRAYS[0] {
        return Ok(Err("expected elements, got an array without".to_string()));
    }
    let sizes = (0..axes.min(MAX_AXES as u64 + 1)).map(|_| input.number(8));
    let shape = sizes.collect::<Result<Vec<_>, _>>()?;
    input.skip(8)?; // of the device
    let element_type = ElementType::of(&format!("MXNet:{}", input.number(4)?))?;
    let size = element_type.size() as u64;
    let len = shape.iter().copied().try_fold(size, u64::checked_mul);
    let bytes = input.skip(len.unwrap_or(u64::MAX))?;
    Ok(StoredTensor::in_order(element_type, shape, bytes))
}
