//! Files of `torch.save`, written by hand: what PyTorch would not write, too.

use std::fs::File;
use std::io::Write;
use std::path::Path;

pub use zip::CompressionMethod;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A storage of f32 and a view of it.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The key of the storage.
    pub storage: &'a str,
    /// The elements that it is said to have.
    pub len: i64,
    /// The elements before the first of the view.
    pub offset: i64,
    /// The shape of the view.
    pub shape: &'a [i64],
    /// Its strides, in elements.
    pub strides: &'a [i64],
}

macro_rules! with {
    ($($method:ident: $field:ident, $type:ty;)*) => {
        /// The same with another field.
        #[allow(missing_docs)]
        impl<'a> View<'a> {
            $(#[must_use]
            pub fn $method(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

with! {
    with_storage: storage, &'a str;
    with_len: len, i64;
    with_offset: offset, i64;
    with_shape: shape, &'a [i64];
    with_strides: strides, &'a [i64];
}

impl View<'_> {
    /// The tensor, in opcodes of a pickle.
    pub fn pickled(&self) -> Vec<u8> {
        let id = [
            text("storage"),
            b"ctorch\nFloatStorage\n".to_vec(),
            text(self.storage),
            text("cpu"),
            int(self.len),
        ];
        let arguments = [
            [tuple(&id), b"Q".to_vec()].concat(),
            int(self.offset),
            ints(self.shape),
            ints(self.strides),
            b"\x89".to_vec(),
            b"N".to_vec(),
        ];
        call("torch._utils\n_rebuild_tensor_v2", &tuple(&arguments))
    }
}

/// A text, in opcodes of a pickle.
pub fn text(text: &str) -> Vec<u8> {
    let len = (text.len() as u32).to_le_bytes();
    [b"X", &len[..], text.as_bytes()].concat()
}

/// An integer of 8 bytes.
pub fn int(int: i64) -> Vec<u8> {
    [b"\x8a\x08", &int.to_le_bytes()[..]].concat()
}

fn ints(values: &[i64]) -> Vec<u8> {
    tuple(&values.iter().map(|value| int(*value)).collect::<Vec<_>>())
}

/// A tuple of values.
pub fn tuple(values: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &values.concat()[..], b"t"].concat()
}

/// A call of a function by its module and name, which stand in two lines, with a tuple.
pub fn call(function: &str, arguments: &[u8]) -> Vec<u8> {
    [b"c", function.as_bytes(), b"\n", arguments, b"R"].concat()
}

/// A dict.
pub fn dict(items: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let item = |(name, value): &(&str, Vec<u8>)| [text(name), value.clone()].concat();
    let items: Vec<_> = items.iter().map(item).collect();
    [b"}(", &items.concat()[..], b"u"].concat()
}

/// A pickle of one value.
pub fn pickle(value: &[u8]) -> Vec<u8> {
    [b"\x80\x02", value, b"."].concat()
}

/// Writes an archive with a pickle and other entries: `data/0` is the storage with the key 0.
///
/// # Panics
/// If the file cannot be written.
pub fn write_archive(
    path: &Path,
    method: CompressionMethod,
    pickle: &[u8],
    others: &[(&str, &[u8])],
) {
    let mut archive = ZipWriter::new(File::create(path).expect("a folder to write in"));
    let options = SimpleFileOptions::default().compression_method(method);
    let mut entry = |name: String, content: &[u8]| {
        let started = archive.start_file(name, options);
        started.expect("an archive takes another entry");
        let written = archive.write_all(content);
        written.expect("an entry takes its content");
    };
    entry("archive/data.pkl".into(), pickle);
    for (name, content) in others {
        entry(format!("archive/{name}"), content);
    }
    archive.finish().expect("an archive has an end");
}
