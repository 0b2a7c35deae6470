//! The types of elements.

use crate::text::shown;

pub(crate) const BIG_ENDIAN: &str =
    "expected numbers in little-endian order, got them as a big-endian machine writes them";

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
#[rustfmt::skip] // a list
pub enum ElementType {
    F64, F32, F16, Bf16, I64, I32, I16, I8, U64, U32, U16, U8,
    /// One byte each, 0 or 1.
    Bool,
}

/// For each type its size in bytes and its names (of safetensors; NumPy, where mlx and Keras write bf16 as untyped
/// bytes; PyTorch and JAX; and storages) and its numbers in MXNet and in `torch.export`.
#[rustfmt::skip] // a table
const TYPES: [(ElementType, usize, &str); 13] = [
    (ElementType::F64, 8, "F64 f8 float64 DoubleStorage MXNet:1 torch.export:8"),
    (ElementType::F32, 4, "F32 f4 float32 FloatStorage MXNet:0 torch.export:7"),
    (ElementType::F16, 2, "F16 f2 float16 HalfStorage MXNet:2 torch.export:6"),
    (ElementType::Bf16, 2, "BF16 V2 bfloat16 BFloat16Storage MXNet:12 torch.export:13"),
    (ElementType::I64, 8, "I64 i8 int64 LongStorage MXNet:6 torch.export:5"),
    (ElementType::I32, 4, "I32 i4 int32 IntStorage MXNet:4 torch.export:4"),
    (ElementType::I16, 2, "I16 i2 int16 ShortStorage torch.export:3"),
    (ElementType::I8, 1, "I8 i1 int8 CharStorage MXNet:5 torch.export:2"),
    (ElementType::U64, 8, "U64 u8 uint64 torch.export:35"),
    (ElementType::U32, 4, "U32 u4 uint32 torch.export:34"),
    (ElementType::U16, 2, "U16 u2 uint16 torch.export:28"),
    (ElementType::U8, 1, "U8 u1 uint8 ByteStorage MXNet:3 torch.export:1"),
    (ElementType::Bool, 1, "BOOL b1 bool BoolStorage MXNet:7 torch.export:12"),
];

impl ElementType {
    /// The size of an element in bytes.
    pub fn size(self) -> usize {
        TYPES[self as usize].1
    }

    /// The type that has this name in a format; NumPy puts the byte order before it.
    pub(crate) fn of(name: &str) -> Result<Self, String> {
        let own = name.trim_start_matches(['<', '>', '|', '=']);
        let is_its = |names: &str| names.split(' ').any(|of_format| of_format == own);
        match TYPES.iter().find(|(.., names)| is_its(names)) {
            Some((_, size, _)) if name.starts_with('>') && *size > 1 => Err(BIG_ENDIAN.to_string()),
            Some((found, ..)) => Ok(*found),
            None => Err(format!(
                "expected a tensor of real numbers of 8 to 64 bits, got {}",
                shown(name)
            )),
        }
    }
}
