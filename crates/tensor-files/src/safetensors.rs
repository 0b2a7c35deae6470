//! The tensors of a `.safetensors` file.

use std::fs::File;

use safetensors::tensor::{Metadata, TensorInfo};

use crate::ElementType;
use crate::foreign;
use crate::input::Input;
use crate::stored::{FoundTensor, StoredTensor, Tensors};
use crate::text::shown;

/// The largest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;

/// Whether a file that starts with `start` has the length of a header, and then a JSON header.
pub(crate) fn starts(start: &[u8]) -> bool {
    match start.split_first_chunk() {
        Some((len, [b'{', ..])) => u64::from_le_bytes(*len) <= MAX_HEADER,
        _ => false,
    }
}

/// Reads the header. `SafeTensors::deserialize` would need the whole file in memory.
pub(crate) fn tensors(file: &File, file_len: u64) -> Result<Tensors, String> {
    let malformed = |reason: String| format!("its header is malformed: {}", shown(&reason));
    let mut input = Input::of_file(file, file_len)?;
    let header = input.number(8).and_then(|len| input.content(len));
    let header = header.map_err(malformed)?;
    let data = input.at;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|error| malformed(error.to_string()))?;
    let texts = metadata.metadata().as_ref();
    if texts.is_some_and(|texts| texts.contains_key("DCP_SHARDING_INFO")) {
        return Err(foreign::refused(foreign::SHARDED));
    }
    let expected = data.saturating_add(metadata.data_len() as u64);
    if expected != file_len {
        return Err(format!(
            "its header tells of {expected} bytes, the file has {file_len}: a copy that was cut off?"
        ));
    }
    Ok(Tensors {
        names: metadata.offset_keys().into_iter().collect(),
        find: Box::new(move |name| metadata.info(name).map(|info| stored(info, data))),
    })
}

fn stored(info: &TensorInfo, data: u64) -> FoundTensor {
    let (start, end) = info.data_offsets;
    let bytes = data + start as u64..data + end as u64;
    let shape = info.shape.iter().map(|&size| size as u64).collect();
    StoredTensor::in_order(ElementType::of(&format!("{:?}", info.dtype))?, shape, bytes)
}
