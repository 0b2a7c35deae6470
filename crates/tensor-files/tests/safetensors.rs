//! A file of safetensors, written by hand. PyTorch's files are read in the tests of the whole repository.

use std::fs;

use tempfile::TempDir;
use tensor_files::{ElementType, TensorFile};

/// A matrix of two rows, a scalar, and a type that is not read.
fn file() -> (TempDir, TensorFile) {
    let header = r#"{"matrix":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
        "scalar":{"dtype":"I64","shape":[],"data_offsets":[24,32]},
        "small":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[32,33]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend((0..6_u8).flat_map(|x| f32::from(x).to_le_bytes()));
    bytes.extend(7_i64.to_le_bytes());
    bytes.push(0);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tensors");
    fs::write(&path, bytes).expect("written");
    (folder, TensorFile::open(&path).expect("opened"))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let elements = bytes.chunks_exact(4);
    let read = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four"));
    elements.map(read).collect()
}

#[test]
fn tensors_are_found_by_their_names() {
    let (_folder, file) = file();
    assert!(file.names().iter().eq(["matrix", "scalar", "small"]));
    let matrix = file.find("matrix").expect("found");
    assert_eq!(matrix.element_type(), ElementType::F32);
    assert_eq!(matrix.shape(), [2, 3]);
    let error = file.find("matrices").expect_err("no such name");
    assert_eq!(error.reason(), "no tensor has this name");
    let error = file.find("small").expect_err("a type that is not read");
    assert!(error.to_string().contains("F8_E5M2"), "{error}");
}

#[test]
fn parts_and_transposes_are_read_row_by_row() {
    let (_folder, file) = file();
    let matrix = || file.find("matrix").expect("found");
    let read = |tensor| floats(&file.read(&tensor).expect("read"));
    assert_eq!(read(matrix()), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(read(matrix().narrow(1, 1)), [3.0, 4.0, 5.0]);
    assert_eq!(read(matrix().transpose()), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(read(matrix().transpose().narrow(2, 1)), [2.0, 5.0]);
    assert!(read(matrix().narrow(2, 0)).is_empty());
    let scalar = file.find("scalar").expect("found");
    assert_eq!(file.read(&scalar).expect("read"), 7_i64.to_le_bytes());
}

#[test]
#[should_panic(expected = "expected 1 and 2 more within the first axis of [2, 3]")]
fn a_part_beyond_the_axis_is_refused() {
    let (_folder, file) = file();
    let _ = file.find("matrix").expect("found").narrow(1, 2);
}

#[test]
#[should_panic(expected = "within the first axis of []")]
fn a_scalar_has_no_part() {
    let (_folder, file) = file();
    let _ = file.find("scalar").expect("found").narrow(0, 0);
}

#[test]
fn a_tensor_of_another_file_is_refused() {
    let ((_folder, one), (_other_folder, other)) = (file(), file());
    let matrix = one.find("matrix").expect("found");
    let error = other.read(&matrix).expect_err("of another file");
    let expected = "expected a tensor of this file, got one of another";
    assert_eq!(error.reason(), expected);
}
