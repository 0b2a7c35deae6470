//! Names of values in nested maps or groups.

/// The most bytes of all names: a shared value has a name for each place.
const MAX_BYTES: usize = 1 << 26;

/// The name of the value that is visited, after the names of all maps or groups around it.
#[derive(Default)]
pub(crate) struct Path {
    pub(crate) name: String,
    bytes: usize,
}

impl Path {
    /// Adds a name, and returns the length before.
    ///
    /// # Errors
    /// If the names so far are too long together, as of what contains itself.
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
