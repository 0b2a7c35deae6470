//! The tensors of a `.safetensors` file.

use std::io::{Read, Seek, SeekFrom};

use burn::tensor::{BoolStore, DType};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::{Layout, Place, Stored, Tensors, shown};

/// Bytes before the header, which are its length.
const PREFIX: u64 = 8;

/// The longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;

/// Whether a file that starts with `start` has a header in JSON after its length.
pub(super) fn starts(start: &[u8]) -> bool {
    match start.split_first_chunk() {
        Some((len, [b'{', ..])) => u64::from_le_bytes(*len) <= MAX_HEADER,
        _ => false,
    }
}

/// Reads the header. `SafeTensors::deserialize` would want the whole file in memory.
pub(super) fn tensors(mut file: impl Read + Seek, file_len: u64) -> Result<Tensors, String> {
    let malformed = |reason: String| format!("its header is malformed: {}", shown(&reason));
    let mut len = [0; PREFIX as usize];
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_exact(&mut len))
        .map_err(|error| malformed(error.to_string()))?;
    let len = u64::from_le_bytes(len);
    let data = PREFIX + len.min(MAX_HEADER);
    if len > MAX_HEADER || data > file_len {
        return Err(malformed(format!(
            "its length is {len} bytes, in a file of {file_len}"
        )));
    }
    let mut header = vec![0; len as usize];
    file.read_exact(&mut header)
        .map_err(|error| malformed(error.to_string()))?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|error| malformed(error.to_string()))?;
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

fn stored(info: &TensorInfo, data: u64) -> Result<Stored, String> {
    let Some(dtype) = element_type(info.dtype) else {
        return Err(format!(
            "expected a tensor of real numbers of 8 to 64 bits, got {:?}",
            info.dtype
        ));
    };
    let (start, end) = info.data_offsets;
    Ok(Stored {
        layout: Layout::contiguous(dtype, info.shape.clone(), (end - start) / dtype.size())?,
        place: Place::Bytes(data + start as u64..data + end as u64),
    })
}

fn element_type(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        Dtype::BOOL => DType::Bool(BoolStore::Native),
        _ => return None,
    })
}
