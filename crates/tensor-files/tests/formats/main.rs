//! Files of each format, written by hand: honest ones, and headers that lie. Each of these is an error that says where,
//! and takes no more memory than the file has bytes. (Files of the packages themselves are read in the tests of the
//! whole repository.)
#![allow(clippy::unwrap_used)]

mod check;
mod counted;
mod files;

use std::fs;

use check::check_file;
use counted::counted;
use files::{archive, exported, message_pack, mxnet, npy, paddle, weights_of, with_type};
use tensor_files::{ElementType, FileFormat, TensorFile};

/// What a reader may take beside the bytes of a file, its buffers, and for each of these.
const BUFFERS: usize = 1 << 18;
const FOR_EACH: usize = 40;

/// The result of opening and reading a file of these bytes.
fn read(bytes: &[u8]) -> Result<usize, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, bytes).unwrap();
    let (read, peak) = counted(|| check_file(&path));
    let most = BUFFERS + FOR_EACH * bytes.len();
    assert!(peak <= most, "{peak} bytes of memory, {most} allowed");
    read
}

/// The error of a file, or of the one tensor that it has.
#[track_caller]
fn assert_says(bytes: &[u8], expected: &str) {
    let error = match read(bytes) {
        Err(error) => error,
        Ok(0) => {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            fs::write(&path, bytes).unwrap();
            let file = TensorFile::open(&path).unwrap();
            let name = file.names().first().expect("a tensor");
            let found = file.find(name).and_then(|tensor| file.read(&tensor));
            found.expect_err("a tensor that cannot be read").to_string()
        }
        Ok(_) => panic!("a file that lies is read"),
    };
    assert!(
        error.contains(expected),
        "`{error}` does not say `{expected}`"
    );
}

#[test]
fn each_format_is_told_by_its_content() {
    let folder = tempfile::tempdir().unwrap();
    for (format, bytes, name) in files::all() {
        // Whatever the file is called.
        let path = folder.path().join("weights.txt");
        fs::write(&path, &bytes).unwrap();
        let file = TensorFile::open(&path).unwrap();
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
    assert_eq!(
        missing.to_string(),
        format!("cannot read `{file}`: {reason}")
    );
    // As `main` prints it.
    assert_eq!(format!("{missing:?}"), missing.to_string());
    fs::write(&path, mxnet(0, &[2, 3], 24)).unwrap();
    let opened = TensorFile::open(&path).unwrap();
    assert_eq!(opened.format(), FileFormat::MxNet);
    let error = opened.find("V").map(drop).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("cannot read `V` of `{file}`: no tensor has this name")
    );
    let other = TensorFile::open(&path).unwrap();
    let error = opened.read(&other.find("W").unwrap()).unwrap_err();
    let expected = "expected a tensor of this file, got one of another";
    assert_eq!(
        error.to_string(),
        format!("cannot read `{file}`: {expected}")
    );
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
    let mut file = mxnet(0, &[2, 3], 24);
    file.truncate(70);
    assert_says(
        &file,
        "it begins as MXNet's `.params` and is malformed: array 0 of 1: expected 24 bytes at byte 64, got 6, the last \
         ones: a copy that was cut off?",
    );
    let file = message_pack("float32", &[2, 3], 24);
    assert_says(&file[..60], "the last ones: a copy that was cut off?");
    assert_says(
        &npy("<f4", "(2, 3)", &[0; 20]),
        "does not fit its storage of 5 elements",
    );
    let file = paddle("f4", "<", &[2, 3], 24);
    assert_says(
        &file[..file.len() - 9],
        "its pickle is malformed: expected 24 bytes at byte ",
    );
}

#[test]
fn a_header_that_promises_more_than_there_is_takes_no_memory() {
    const HUGE: u64 = 1 << 40;
    assert_says(
        &mxnet(0, &[HUGE, 3], 24),
        "array 0 of 1: expected 13194139533312 bytes at byte 64",
    );
    assert_says(
        &mxnet(0, &[u64::MAX, u64::MAX], 24),
        "array 0 of 1: expected 18446744073709551615",
    );
    let mut counts = mxnet(0, &[2, 3], 24);
    counts[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_says(&counts, "array 1 of 18446744073709551615");
    let mut axes = mxnet(0, &[2, 3], 24);
    axes[32..36].copy_from_slice(&(u32::MAX - 1).to_le_bytes());
    assert_says(&axes, "array 0 of 1: ");

    assert_says(
        &npy("<f4", "(1099511627776, 3)", &[0; 24]),
        "does not fit its storage of 6",
    );
    assert_says(
        &npy(
            "<f4",
            "(18446744073709551615, 18446744073709551615)",
            &[0; 24],
        ),
        "does not fit",
    );
    let mut header = npy("<f4", "(2, 3)", &[0; 24]);
    header[8..10].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_says(
        &header,
        "expected `descr`, `fortran_order` and `shape` in its header",
    );

    assert_says(
        &message_pack("float32", &[HUGE, 3], 24),
        "does not fit its storage of 6",
    );
    // A map, a text and bytes of 4 GB each.
    for promised in [
        &b"\xdf\xff\xff\xff\xff"[..],
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ] {
        let file = [b"\x82\xa1a\xc0\xa1b", promised, b"\xa1"].concat();
        assert_says(&file, "the last ones");
    }
    assert_says(
        &paddle("f4", "<", &[HUGE, 3], 24),
        "does not fit its storage of 6",
    );
    assert_says(
        &exported(&[HUGE, 3], [3, 1], 0),
        "does not fit its storage of 6",
    );
    assert_says(
        &exported(&[2, 3], [3, 1], u64::MAX),
        "does not fit its storage of 6",
    );
    let zipped = archive(
        &[("W.npy", npy("<f4", "(1099511627776, 3)", &[0; 24]))],
        true,
    );
    assert_says(&zipped, "does not fit its storage of 6");
}

#[test]
fn maps_in_maps_end() {
    let nested = [b"\x81\xa1a".repeat(100_000), b"\xc0".to_vec()].concat();
    assert_says(&nested, "more than 64 deep");
    let lists = [&b"\x81\xa1a"[..], &b"\x91".repeat(100_000), b"\xc0"].concat();
    assert_says(&lists, "more than 64 deep");
    let quotes = npy("<f4", &"(".repeat(50_000), &[]);
    assert_says(
        &quotes,
        "expected `descr`, `fortran_order` and `shape` in its header",
    );
}

#[test]
fn big_endian_numbers_are_an_error() {
    let expected = "little-endian order, got them as a big-endian machine writes them";
    assert_says(&npy(">f4", "(2, 3)", &[0; 24]), expected);
    assert_says(
        &archive(&[("W.npy", npy(">f8", "(3,)", &[0; 24]))], false),
        expected,
    );
    assert_says(&paddle("f4", ">", &[2, 3], 24), expected);
    let order = ("a/byteorder", b"big".to_vec());
    let config = ("a/data/weights/model_weights_config.json", b"{}".to_vec());
    assert_says(&archive(&[config, order], false), expected);
    // Of a byte there is no order.
    assert_eq!(read(&npy(">i1", "(2, 3)", &[0; 6])), Ok(1));
}

#[test]
fn what_is_no_array_of_numbers_is_told() {
    assert_says(&npy("|O", "(2, 3)", &[0; 24]), "got |O");
    assert_says(&npy("<c8", "(3,)", &[0; 24]), "got <c8");
    assert_says(
        &mxnet(99, &[2, 3], 24),
        "array 0 of 1: expected a tensor of real numbers of 8 to 64 bits, got MXNet:99",
    );
    let mut sparse = mxnet(0, &[2, 3], 24);
    sparse[28] = 1;
    assert_says(&sparse, "expected a dense one of MXNet 1.0 or later");
    assert_says(&message_pack("complex64", &[3], 24), "got complex64");
    let mut names = mxnet(0, &[2, 3], 24);
    let at = names.len() - 17;
    names[at] = 9;
    assert_says(&names, "expected 1 names, got 9");
    let long = [
        &b"\x81\xa1a\xc7\x02\x01"[..],
        b"\x93\x91\x02\xa7float32\xc4\x08",
        &[0; 8],
    ]
    .concat();
    assert_says(&long, "an array goes on after byte 8");
    // A pickle of protocol 2 has arrays as texts.
    let old = with_type(
        &paddle("f4", "<", &[2, 3], 24),
        b"B\x18\0\0\0",
        b"X\x18\0\0\0",
    );
    assert_says(&old, "save it with `protocol=4`");
    assert_says(
        b"\x80\x04}\x94(\x8c\x01a\x94K\x01u.",
        "a pickle without tensors",
    );
    assert_says(
        &archive(&[("a.txt", vec![])], false),
        "a zip archive without an entry `data.pkl`",
    );
    let program = ("a/archive_format", b"pt2".to_vec());
    assert_says(&archive(&[program], false), "torch.export.load(");
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, bytes).unwrap();
        let file = TensorFile::open(&path).unwrap();
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, bytes).unwrap();
        let file = TensorFile::open(&path).unwrap();
        let tensor = file.find("arr_0").unwrap();
        assert_eq!(tensor.shape(), shape);
        let tensor = if shape == [3, 2] {
            tensor.transpose()
        } else {
            tensor
        };
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
    assert_says(&archive, &format!("got an archive of Keras: {way}"));
}
