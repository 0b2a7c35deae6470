//! Names of what lies in maps or groups that lie in each other.

use crate::objects::MAX_NAME_BYTES;

/// The deepest nesting.
const MAX_DEPTH: usize = 64;

/// The name of what is visited: the names of all that it lies in, with a slash between them.
#[derive(Default)]
pub(crate) struct Path {
    pub(crate) name: String,
    depth: usize,
    /// Of all names so far.
    bytes: usize,
}

impl Path {
    /// Visits what is called `key` here.
    ///
    /// # Errors
    /// If it lies too deep, or the names together are too long, as of what contains itself.
    pub(crate) fn under(
        &mut self,
        key: &str,
        visit: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let len = self.name.len();
        let slash = if len > 0 { "/" } else { "" };
        self.name.push_str(&format!("{slash}{key}"));
        self.bytes += self.name.len();
        self.depth += 1;
        if self.depth > MAX_DEPTH || self.bytes > MAX_NAME_BYTES {
            return Err("its parts contain each other without end".to_string());
        }
        visit(self)?;
        self.depth -= 1;
        self.name.truncate(len);
        Ok(())
    }
}
