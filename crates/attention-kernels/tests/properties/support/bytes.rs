//! Choices, taken from bytes.

/// Bytes to choose with; zeros follow the last.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn next(&mut self) -> usize {
        self.0
            .split_off_first()
            .map_or(0, |first| usize::from(*first))
    }

    /// One of `choices`.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.next() % choices.len()]
    }
}
