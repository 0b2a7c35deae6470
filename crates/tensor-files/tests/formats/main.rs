//! Files of each format, written by hand: honest ones, and headers that lie. Each of these is an error that says where,
//! and takes no more memory than the file has bytes. (Files of the packages themselves are read in the tests of the
//! whole repository.)
#![allow(clippy::unwrap_used)]

mod check;
mod counted;
mod files;

use std::fs;
use std::path::PathBuf;

use check::check_file;
use counted::counted;
use files::{archive, exported, message_pack, mxnet, npy, paddle, weights_of, with_type};
use tempfile::TempDir;
use tensor_files::{ElementType, FileFormat, TensorFile};

/// What a reader may take beside the bytes of a file, its buffers, and for each of these.
const BUFFERS: usize = 1 << 18;
const FOR_EACH: usize = 40;

/// A file of these bytes, whatever it is called, in a folder that is removed with the first.
fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.txt");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// The result of opening and reading a file of these bytes.
fn read(bytes: &[u8]) -> Result<usize, String> {
    let (_folder, path) = written(bytes);
    let (read, peak) = counted(|| check_file(&path));
    let most = BUFFERS + FOR_EACH * bytes.len();
    assert!(peak <= most, "{peak} bytes of memory, {most} allowed");
    read
}

/// A file of these bytes, opened.
fn opened(bytes: &[u8]) -> (TempDir, TensorFile) {
    let (folder, path) = written(bytes);
    (folder, TensorFile::open(&path).unwrap())
}

/// The error of a file, or of the one tensor that it has.
#[track_caller]
fn assert_says(bytes: impl AsRef<[u8]>, expected: &str) {
    let bytes = bytes.as_ref();
    let error = match read(bytes) {
        Err(error) => error,
        Ok(0) => {
            let (_folder, file) = opened(bytes);
            let name = file.names().first().expect("a tensor");
            let found = file.find(name).and_then(|tensor| file.read(&tensor));
            found.expect_err("a tensor that cannot be read").to_string()
        }
        Ok(_) => panic!("a file that lies is read"),
    };
    let says = error.contains(expected);
    assert!(says, "`{error}` does not say `{expected}`");
}

#[test]
fn each_format_is_told_by_its_content() {
    for (format, bytes, name) in files::all() {
        let (_folder, file) = opened(&bytes);
        assert!(file.names().iter().eq([name]), "{format}");
        let tensor = file.find(name).unwrap();
        assert_eq!(tensor.element_type(), ElementType::F32, "{format}");
        assert_eq!(tensor.shape(), [2, 3], "{format}");
        assert_eq!(file.read(&tensor).unwrap(), weights_of([2, 3]), "{format}");
        // The second row alone.
        let row = file.read(&tensor.narrow(1, 1)).unwrap();
        assert_eq!(row, weights_of([2, 3])[12..], "{format}");
    }
}

#[test]
fn an_error_names_the_file_and_the_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.params");
    let file = path.display();
    let missing = TensorFile::open(&path).unwrap_err();
    let reason = missing.reason();
    let expected = format!("cannot read `{file}`: {reason}");
    assert_eq!(missing.to_string(), expected);
    // As `main` prints it.
    assert_eq!(format!("{missing:?}"), missing.to_string());
    fs::write(&path, mxnet(0, &[2, 3], 24)).unwrap();
    let opened = TensorFile::open(&path).unwrap();
    assert_eq!(opened.format(), FileFormat::MxNet);
    let error = opened.find("V").map(drop).unwrap_err();
    let expected = format!("cannot read `V` of `{file}`: no tensor has this name");
    assert_eq!(error.to_string(), expected);
    let other = TensorFile::open(&path).unwrap();
    let error = opened.read(&other.find("W").unwrap()).unwrap_err();
    let expected = "expected a tensor of this file, got one of another";
    let expected = format!("cannot read `{file}`: {expected}");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for (format, bytes, _) in files::all() {
        for len in (0..bytes.len()).step_by(3) {
            let read = read(&bytes[..len]);
            assert!(!matches!(read, Ok(1..)), "{format}: the first {len} bytes");
        }
    }
}

#[test]
fn a_cut_file_says_where() {
    let message_pack = message_pack("float32", &[2, 3], 24);
    let paddle = paddle("f4", "<", &[2, 3], 24);
    #[rustfmt::skip]
    let cases = [
        (
            &mxnet(0, &[2, 3], 24)[..70],
            "it begins as MXNet's `.params` and is malformed: array 0 of 1: expected 24 bytes at byte 64, got 6, the \
             last ones: a copy that was cut off?",
        ),
        (&message_pack[..60], "the last ones: a copy that was cut off?"),
        (&npy("<f4", "(2, 3)", &[0; 20]), "does not fit its storage of 5 elements"),
        (&paddle[..paddle.len() - 9], "its pickle is malformed: expected 24 bytes at byte "),
    ];
    for (bytes, expected) in cases {
        assert_says(bytes, expected);
    }
}

/// A file of MXNet's with other bytes from a place on.
fn mxnet_with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = mxnet(0, &[2, 3], 24);
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn a_header_that_promises_more_than_there_is_takes_no_memory() {
    const HUGE: u64 = 1 << 40;
    let of_numpy = |shape: &str| npy("<f4", shape, &[0; 24]);
    let mut header = of_numpy("(2, 3)");
    header[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
    let zipped = archive(&[("W.npy", of_numpy("(1099511627776, 3)"))], true);
    // A map, a text and bytes of 4 GB each.
    let promised = |bytes: &[u8]| [b"\x82\xa1a\xc0\xa1b", bytes, b"\xff\xff\xff\xff\xa1"].concat();
    #[rustfmt::skip]
    let cases = [
        (mxnet(0, &[HUGE, 3], 24), "array 0 of 1: expected 13194139533312 bytes at byte 64"),
        (mxnet(0, &[u64::MAX, u64::MAX], 24), "array 0 of 1: expected 18446744073709551615"),
        (mxnet_with(16, &u64::MAX.to_le_bytes()), "array 1 of 18446744073709551615"),
        (mxnet_with(32, &(u32::MAX - 1).to_le_bytes()), "array 0 of 1: "),
        (of_numpy("(1099511627776, 3)"), "does not fit its storage of 6"),
        (of_numpy("(18446744073709551615, 18446744073709551615)"), "does not fit"),
        (header, "expected `descr`, `fortran_order` and `shape` in its header"),
        (message_pack("float32", &[HUGE, 3], 24), "does not fit its storage of 6"),
        (promised(b"\xdf"), "the last ones"),
        (promised(b"\xdb"), "the last ones"),
        (promised(b"\xc6"), "the last ones"),
        (paddle("f4", "<", &[HUGE, 3], 24), "does not fit its storage of 6"),
        (exported(&[HUGE, 3], [3, 1], 0), "does not fit its storage of 6"),
        (exported(&[2, 3], [3, 1], u64::MAX), "does not fit its storage of 6"),
        (zipped, "does not fit its storage of 6"),
    ];
    for (bytes, expected) in cases {
        assert_says(bytes, expected);
    }
}

#[test]
fn maps_in_maps_end() {
    let nested = [b"\x81\xa1a".repeat(100_000), b"\xc0".to_vec()].concat();
    assert_says(nested, "more than 64 deep");
    let lists = [&b"\x81\xa1a"[..], &b"\x91".repeat(100_000), b"\xc0"].concat();
    assert_says(lists, "more than 64 deep");
    let quotes = npy("<f4", &"(".repeat(50_000), &[]);
    let expected = "expected `descr`, `fortran_order` and `shape` in its header";
    assert_says(quotes, expected);
}

#[test]
fn big_endian_numbers_are_an_error() {
    let expected = "little-endian order, got them as a big-endian machine writes them";
    let order = ("a/byteorder", b"big".to_vec());
    let config = ("a/data/weights/model_weights_config.json", b"{}".to_vec());
    for bytes in [
        npy(">f4", "(2, 3)", &[0; 24]),
        archive(&[("W.npy", npy(">f8", "(3,)", &[0; 24]))], false),
        paddle("f4", ">", &[2, 3], 24),
        archive(&[config, order], false),
    ] {
        assert_says(bytes, expected);
    }
    // Of a byte there is no order.
    assert_eq!(read(&npy(">i1", "(2, 3)", &[0; 6])), Ok(1));
}

#[test]
fn what_is_no_array_of_numbers_is_told() {
    let names = mxnet(0, &[2, 3], 24).len() - 17;
    let (start, array) = (b"\x81\xa1a\xc7\x02\x01", b"\x93\x91\x02\xa7float32\xc4\x08");
    let long = [&start[..], array, &[0; 8]].concat();
    // A pickle of protocol 2 has arrays as texts.
    let of_bytes = paddle("f4", "<", &[2, 3], 24);
    let of_text = with_type(&of_bytes, b"B\x18\0\0\0", b"X\x18\0\0\0");
    let program = ("a/archive_format", b"pt2".to_vec());
    #[rustfmt::skip]
    let cases = [
        (npy("|O", "(2, 3)", &[0; 24]), "got |O"),
        (npy("<c8", "(3,)", &[0; 24]), "got <c8"),
        (
            mxnet(99, &[2, 3], 24),
            "array 0 of 1: expected a tensor of real numbers of 8 to 64 bits, got MXNet:99",
        ),
        (mxnet_with(28, &[1]), "expected a dense one of MXNet 1.0 or later"),
        (message_pack("complex64", &[3], 24), "got complex64"),
        (mxnet_with(names, &[9]), "expected 1 names, got 9"),
        (long, "an array goes on after byte 8"),
        (of_text, "save it with `protocol=4`"),
        (b"\x80\x04}\x94(\x8c\x01a\x94K\x01u.".to_vec(), "a pickle without tensors"),
        (archive(&[("a.txt", vec![])], false), "a zip archive without an entry `data.pkl`"),
        (archive(&[program], false), "torch.export.load("),
    ];
    for (bytes, expected) in cases {
        assert_says(bytes, expected);
    }
}

#[test]
fn types_that_numpy_has_no_name_for() {
    for (bytes, expected) in [
        (npy("|V2", "(3,)", &[0; 6]), ElementType::Bf16),
        (npy("<f2", "(3,)", &[0; 6]), ElementType::F16),
        (paddle("u2", "<", &[3], 6), ElementType::Bf16),
        (mxnet(12, &[3], 6), ElementType::Bf16),
        (message_pack("bfloat16", &[3], 6), ElementType::Bf16),
    ] {
        let (_folder, file) = opened(&bytes);
        let name = file.names().first().unwrap();
        assert_eq!(file.find(name).unwrap().element_type(), expected);
    }
}

#[test]
fn numpy_in_each_of_its_forms() {
    // Column by column, and by the longer headers of versions 2 and 3.
    let columns = npy("<f4", "(3, 2), 'fortran_order': True", &weights_of([2, 3]));
    let longer = |version: u8| {
        let mut file = npy("<f4", "(2, 3)", &weights_of([2, 3]));
        file[6] = version;
        file.splice(10..10, [0, 0]);
        file
    };
    for (bytes, shape) in [(columns, [3, 2]), (longer(2), [2, 3]), (longer(3), [2, 3])] {
        let (_folder, file) = opened(&bytes);
        let mut tensor = file.find("arr_0").unwrap();
        assert_eq!(tensor.shape(), shape);
        if shape == [3, 2] {
            tensor = tensor.transpose();
        }
        assert_eq!(file.read(&tensor).unwrap(), weights_of([2, 3]));
    }
}

#[cfg(not(feature = "hdf5"))]
#[test]
fn keras_without_its_feature_names_it() {
    let way = "turn on the feature `hdf5` of `attention-import` (or of `tensor-files`); or in Python, after `model = \
               keras.models.load_model(..)` or `model.load_weights(..)`, `w = {getattr(v, \"path\", v.name): v.numpy() \
               for v in model.weights}`, `safetensors.numpy.save_file(w, \"model.safetensors\")`";
    let hdf5 = b"\x89HDF\r\n\x1a\n\0\0";
    assert_says(hdf5, &format!("got HDF5, as Keras writes it: {way}"));
    let archive = archive(&[("model.weights.h5", vec![])], false);
    assert_says(archive, &format!("got an archive of Keras: {way}"));
}
