//! Files by hand, of one matrix each.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The bytes of a matrix in f32.
pub(crate) fn weights_of([rows, columns]: [u8; 2]) -> Vec<u8> {
    let elements = (0..rows * columns).map(|element| f32::from(element) / 4.0);
    elements.flat_map(f32::to_le_bytes).collect()
}

/// `len` bytes of elements.
fn elements(len: usize) -> Vec<u8> {
    weights_of([2, 3]).into_iter().cycle().take(len).collect()
}

/// An honest file of each format, and the name of its matrix `[2, 3]`.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let array = || npy("<f4", "(2, 3)", &weights_of([2, 3]));
    vec![
        ("mxnet", mxnet(0, &[2, 3], 24), "W"),
        ("npy", array(), "arr_0"),
        ("npz", archive(&[("a/W.npy", array())], false), "a/W"),
        ("npz, compressed", archive(&[("W.npy", array())], true), "W"),
        ("flax", message_pack("float32", &[2, 3], 24), "params/W"),
        ("paddle", paddle("f4", "<", &[2, 3], 24), "W"),
        ("torch.export", exported(&[2, 3], [3, 1], 0), "W"),
    ]
}

/// MXNet's, of an array of a type and a shape.
pub(crate) fn mxnet(element_type: u32, shape: &[u64], len: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for number in [0x112_u64, 0, 1] {
        file.extend(number.to_le_bytes());
    }
    for number in [0xF993_FACA_u32, 0, shape.len() as u32] {
        file.extend(number.to_le_bytes());
    }
    file.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
    for number in [1, 0, element_type] {
        file.extend(number.to_le_bytes());
    }
    file.extend(elements(len));
    for number in [1_u64, 1] {
        file.extend(number.to_le_bytes());
    }
    file.push(b'W');
    file
}

/// NumPy's, of version 1.
pub(crate) fn npy(descr: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let order = match shape.contains("fortran") {
        true => "",
        false => ", 'fortran_order': False",
    };
    let header = format!("{{'descr': '{descr}', 'shape': {shape}{order}, }}\n");
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file.extend(elements);
    file
}

/// Flax', of an array `params/W`.
pub(crate) fn message_pack(element_type: &str, shape: &[u64], len: usize) -> Vec<u8> {
    let mut array = vec![0x93, 0x90 + shape.len() as u8];
    for size in shape {
        array.push(0xcf);
        array.extend(size.to_be_bytes());
    }
    array.push(0xa0 + element_type.len() as u8);
    array.extend(element_type.bytes());
    array.extend([0xc4, len as u8]);
    array.extend(elements(len));
    let mut file = b"\x81\xa6params\x83\xa1W\xc7".to_vec();
    file.extend([array.len() as u8, 1]);
    file.extend(array);
    // Beside it a number and a list.
    file.extend(b"\xa4step\xcd\x01\x00\xa4list\x92\xc0\xcb\0\0\0\0\0\0\0\0");
    file
}

/// Paddle's, of an array of a NumPy type and its byte order.
pub(crate) fn paddle(name: &str, order: &str, shape: &[u64], len: usize) -> Vec<u8> {
    let text = |text: &str| [&[0x8c, text.len() as u8], text.as_bytes()].concat();
    let size = |size: &u64| [b"\x8a\x08", &size.to_le_bytes()[..]].concat();
    let parts = [
        &b"\x80\x04}("[..],
        &text("W"),
        b"cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85C\x01b\x87R(K\x01(",
        &shape.iter().flat_map(size).collect::<Vec<_>>(),
        b"tcnumpy\ndtype\n",
        &text(name),
        b"\x89\x88\x87R(K\x03",
        &text(order),
        b"NNNtb\x89B",
        &(len as u32).to_le_bytes(),
        &elements(len),
        b"tbu.",
    ];
    parts.concat()
}

/// A file with other bytes in the place of some.
pub(crate) fn with_type(file: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = file.windows(from.len()).position(|window| window == from);
    let mut file = file.to_vec();
    let at = at.expect("the bytes are there");
    file[at..at + from.len()].copy_from_slice(to);
    file
}

/// `torch.export`'s, of a view of six elements.
pub(crate) fn exported(shape: &[u64], strides: [u64; 2], offset: u64) -> Vec<u8> {
    let sizes = |sizes: &[u64]| {
        let sizes = sizes.iter().map(|size| format!(r#"{{"as_int":{size}}}"#));
        sizes.collect::<Vec<_>>().join(",")
    };
    let (shape, strides) = (sizes(shape), sizes(&strides));
    let config = format!(
        r#"{{"config":{{"W":{{"path_name":"weight_0","use_pickle":false,"tensor_meta":{{"dtype":7,"sizes":[{shape}],
        "strides":[{strides}],"storage_offset":{{"as_int":{offset}}},"layout":7}}}}}}}}"#
    );
    let path = "a/data/weights/model_weights_config.json";
    let config = (path, config.into_bytes());
    let weights = ("a/data/weights/weight_0", weights_of([2, 3]));
    archive(&[config, weights], false)
}

/// A zip archive.
pub(crate) fn archive(entries: &[(&str, Vec<u8>)], is_compressed: bool) -> Vec<u8> {
    let method = match is_compressed {
        true => CompressionMethod::Deflated,
        false => CompressionMethod::Stored,
    };
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(*name, options).expect("started");
        archive.write_all(content).expect("written");
    }
    archive.finish().expect("finished").into_inner()
}
