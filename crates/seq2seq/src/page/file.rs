//! Pages for a browser.

use std::path::Path;

use attention_seq2seq::{Error, Result};

/// Whether a file name is that of a page.
pub(crate) fn is_page(file: &Path) -> bool {
    let extension = file.extension();
    let extension = extension.map(|it| it.to_string_lossy().to_lowercase());
    extension.is_some_and(|extension| ["html", "htm"].contains(&extension.as_str()))
}

/// Checks that a file name is that of a page, before anything is computed.
pub(crate) fn check_name(option: &str, file: &Path) -> Result<()> {
    let expected = "a name that ends in .html";
    match is_page(file) {
        true => Ok(()),
        false => Err(Error::config(option, expected, file.display())),
    }
}

/// A number of bytes in readable form.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_its_name() {
        for (name, expected) in [
            ("a.html", true),
            ("b/A.HTM", true),
            ("html", false),
            ("a.svg", false),
        ] {
            assert_eq!(is_page(Path::new(name)), expected, "{name}");
            assert_eq!(check_name("--report", Path::new(name)).is_ok(), expected);
        }
    }

    #[test]
    fn sizes_are_short() {
        let expected = ["1 kB", "1000 kB", "1.2 MB"];
        assert_eq!([1, 999_999, 1_250_000].map(size), expected);
    }
}
