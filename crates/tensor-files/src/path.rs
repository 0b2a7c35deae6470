//! Names of values in nested maps or groups.

/// The largest size of all names together, in bytes: a shared value has a name for each place.
const MAX_BYTES: usize = 1 << 26;

/// The name of the visited value, preceded by the names of all maps or groups around it.
#[derive(Default)]
pub(crate) struct Path {
    pub(crate) name: String,
    bytes: usize,
}

impl Path {
    /// Appends a name, and returns the previous length.
    ///
    /// # Errors
    /// If the names so far are too long together, as for an object that contains itself.
    pub(crate) fn push(&mut self, separator: &str, name: &str) -> Result<usize, String> {
        let len = self.name.len();
        self.name.push_str(if len > 0 { separator } else { "" });
        self.name.push_str(name);
        self.bytes += self.name.len();
        match self.bytes > MAX_BYTES {
            true => Err("its objects contain each other without end".to_string()),
            false => Ok(len),
        }
    }
}
