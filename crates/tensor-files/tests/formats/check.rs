//! What must hold of any file.

use std::path::Path;

use tensor_files::{Error, TensorFile};

/// The most elements of a tensor that is read: a view may have more than its file.
const MAX_LEN: usize = 1 << 20;

/// Opens the file at `path` and reads all of its tensors, and returns how many can be.
///
/// # Panics
/// If a reader panics, an error has more than one line, or a tensor has other bytes than its type and shape say.
pub(crate) fn check_file(path: &Path) -> Result<usize, String> {
    let file = TensorFile::open(path).map_err(one_line)?;
    let mut count = 0;
    for name in file.names() {
        let Ok(tensor) = file.find(name).map_err(one_line) else {
            continue;
        };
        let len = tensor.shape().iter().product::<usize>();
        if len <= MAX_LEN
            && let Ok(bytes) = file.read(&tensor).map_err(one_line)
        {
            assert_eq!(bytes.len(), len * tensor.element_type().size(), "{name}");
            count += 1;
        }
    }
    Ok(count)
}

fn one_line(error: Error) -> String {
    let error = error.to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.len() < 2_000, "{error}");
    error
}
