//! Files of safetensors, written by hand: what its library would not write, too.

use std::path::Path;

/// A tensor's name, type, bytes of its elements, which are repeated, and shape.
pub(super) type Entry<'a> = (&'a str, &'a str, &'a [u8], &'a [usize]);

pub(super) const ONE: [u8; 4] = 1_f32.to_le_bytes();

/// A tensor of ones.
pub(super) fn ones<'a>(name: &'a str, shape: &'a [usize]) -> Entry<'a> {
    (name, "F32", &ONE, shape)
}

/// The tensors of D2L's additive attention.
pub(super) const NAMES: [&str; 3] = ["W_q.weight", "W_k.weight", "w_v.weight"];

/// [`NAMES`] with ones, of these shapes.
pub(super) fn ones_of(shapes: &[[usize; 2]; 3]) -> [Entry<'_>; 3] {
    std::array::from_fn(|at| ones(NAMES[at], &shapes[at]))
}

/// The header and the elements of tensors.
pub(super) fn parts(tensors: &[Entry]) -> (String, Vec<u8>) {
    let (mut entries, mut content) = (Vec::new(), Vec::new());
    for (name, dtype, elements, shape) in tensors {
        let size = match *dtype {
            "F64" | "I64" => 8,
            "F32" => 4,
            "F16" | "BF16" => 2,
            _ => 1,
        };
        let start = content.len();
        let len = size * shape.iter().product::<usize>();
        content.extend(elements.iter().cycle().take(len));
        let end = content.len();
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    entries.push(r#""__metadata__":{}"#.to_string());
    (format!("{{{}}}", entries.join(",")), content)
}

/// A file of a header, whatever it says, and elements.
pub(super) fn write_parts(path: &Path, header: &str, content: &[u8]) {
    let len = (header.len() as u64).to_le_bytes();
    std::fs::write(path, [&len[..], header.as_bytes(), content].concat()).unwrap();
}

/// A file of tensors.
pub(super) fn write(path: &Path, tensors: &[Entry]) {
    let (header, content) = parts(tensors);
    write_parts(path, &header, &content);
}
