//! The types that operations compute in.

use burn::tensor::DType;

/// The type in which half precision is computed, f32; other types are themselves.
pub fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        _ => dtype,
    }
}
