//! Values that are no tensors, as scalars.

use std::slice::Iter;
use std::sync::Arc;

use burn::backend::ir::ScalarIr;

/// A value that goes to a server, as scalars.
pub trait AsScalars: Sized {
    /// Writes it.
    fn write(&self, to: &mut ScalarWriter);

    /// Reads what was written.
    ///
    /// # Panics
    /// If something else was.
    fn read(from: &mut ScalarReader) -> Self;
}

/// Scalars that are written.
#[derive(Debug, Default)]
pub struct ScalarWriter(pub(super) Vec<ScalarIr>);

impl ScalarWriter {
    /// Writes a value.
    pub fn write(&mut self, value: &impl AsScalars) {
        value.write(self);
    }
}

/// Scalars that are read, in the order in which they were written.
#[derive(Debug)]
pub struct ScalarReader<'a>(pub(super) Iter<'a, ScalarIr>);

impl ScalarReader<'_> {
    /// Reads a value.
    ///
    /// # Panics
    /// If something else was written.
    pub fn read<T: AsScalars>(&mut self) -> T {
        T::read(self)
    }
}

fn refuse(expected: &str, got: Option<&ScalarIr>) -> ! {
    panic!("an operation from a client: expected {expected}, got {got:?}")
}

impl AsScalars for f64 {
    fn write(&self, to: &mut ScalarWriter) {
        to.0.push(ScalarIr::Float(*self));
    }

    fn read(from: &mut ScalarReader) -> Self {
        match from.0.next() {
            Some(ScalarIr::Float(value)) => *value,
            other => refuse("a number", other),
        }
    }
}

impl AsScalars for bool {
    fn write(&self, to: &mut ScalarWriter) {
        to.0.push(ScalarIr::Bool(*self));
    }

    fn read(from: &mut ScalarReader) -> Self {
        match from.0.next() {
            Some(ScalarIr::Bool(value)) => *value,
            other => refuse("a flag", other),
        }
    }
}

impl AsScalars for usize {
    fn write(&self, to: &mut ScalarWriter) {
        to.0.push(ScalarIr::UInt(*self as u64));
    }

    fn read(from: &mut ScalarReader) -> Self {
        match from.0.next() {
            Some(ScalarIr::UInt(value)) => *value as usize,
            other => refuse("a size", other),
        }
    }
}

impl<T: AsScalars> AsScalars for Option<T> {
    fn write(&self, to: &mut ScalarWriter) {
        to.write(&self.is_some());
        if let Some(value) = self {
            to.write(value);
        }
    }

    fn read(from: &mut ScalarReader) -> Self {
        from.read::<bool>().then(|| from.read())
    }
}

impl<T: AsScalars> AsScalars for Vec<T> {
    fn write(&self, to: &mut ScalarWriter) {
        to.write(&self.len());
        for value in self {
            to.write(value);
        }
    }

    fn read(from: &mut ScalarReader) -> Self {
        let count: usize = from.read();
        // As many as there are: a count that lies ends in a panic, and in no allocation of its size, which `collect`
        // would begin with.
        let mut values = Self::new();
        for _ in 0..count {
            values.push(from.read());
        }
        values
    }
}

impl<T: AsScalars, const N: usize> AsScalars for [T; N] {
    fn write(&self, to: &mut ScalarWriter) {
        for value in self {
            to.write(value);
        }
    }

    fn read(from: &mut ScalarReader) -> Self {
        std::array::from_fn(|_| from.read())
    }
}

impl<T: AsScalars> AsScalars for Arc<T> {
    fn write(&self, to: &mut ScalarWriter) {
        T::write(self, to);
    }

    fn read(from: &mut ScalarReader) -> Self {
        Self::new(from.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: AsScalars + PartialEq + std::fmt::Debug>(value: T) {
        let mut writer = ScalarWriter::default();
        writer.write(&value);
        let mut reader = ScalarReader(writer.0.iter());
        assert_eq!(reader.read::<T>(), value);
        assert_eq!(reader.0.next(), None);
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        there_and_back(Some([0.1, f64::NEG_INFINITY]));
        there_and_back([None, Some(usize::MAX)]);
        there_and_back(vec![Some(Arc::new(true)), None]);
        there_and_back(Vec::<usize>::new());
    }

    #[test]
    #[should_panic(expected = "expected a size, got Some(Float(1.0))")]
    fn another_scalar_is_refused() {
        let mut writer = ScalarWriter::default();
        writer.write(&1.0);
        ScalarReader(writer.0.iter()).read::<usize>();
    }

    #[test]
    #[should_panic(expected = "expected a flag, got None")]
    fn a_count_that_lies_is_refused() {
        let mut writer = ScalarWriter::default();
        writer.write(&(1_usize << 50));
        ScalarReader(writer.0.iter()).read::<Vec<bool>>();
    }
}
