//! Names of what lies in maps or groups that lie in each other.

/// The most bytes of all names: what is shared has a name for each place.
const MAX_BYTES: usize = 1 << 26;

/// The name of what is visited, of the names of all that it lies in.
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
