//! Tensors that were found but not read yet.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use crate::ElementType;
use crate::archive::Archive;
use crate::layout::Layout;

/// A tensor in a file, or a part of one.
#[derive(Clone)]
pub struct StoredTensor {
    pub(crate) layout: Layout,
    pub(crate) place: Place,
    /// The id of the file.
    pub(crate) file: u64,
}

impl StoredTensor {
    pub(crate) fn new(layout: Layout, place: Place) -> Self {
        Self {
            layout,
            place,
            file: 0,
        }
    }

    /// The tensor whose elements are these bytes of the file, row by row.
    pub(crate) fn in_order(
        element_type: ElementType,
        shape: Vec<u64>,
        bytes: Range<u64>,
    ) -> FoundTensor {
        let shape = shape.into_iter().map(|size| size as usize).collect();
        let layout = Layout::in_order(element_type, shape, false, bytes.end - bytes.start)?;
        Ok(Self::new(layout, Place::Bytes(bytes)))
    }
}

/// A tensor, or the reason why it cannot be read.
pub(crate) type FoundTensor = Result<StoredTensor, String>;

impl fmt::Debug for StoredTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StoredTensor");
        shown.field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl StoredTensor {
    /// The type of its elements.
    pub fn element_type(&self) -> ElementType {
        self.layout.element_type()
    }

    /// The sizes of its axes.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The `len` indices from `start` on the first axis. Only their elements will be read.
    ///
    /// # Panics
    /// If the first axis has fewer indices, or the tensor has no axis.
    pub fn narrow(mut self, start: usize, len: usize) -> Self {
        self.layout = self.layout.narrow(start, len);
        self
    }

    /// The single element of a tensor without axes, with `axes` axes of size 1.
    ///
    /// # Panics
    /// If the tensor has axes.
    pub fn with_axes(mut self, axes: usize) -> Self {
        assert_eq!(self.shape(), [0; 0], "with_axes: expected no axes");
        self.layout = self.layout.with_axes(axes);
        self
    }

    /// The axes in reverse order.
    pub fn transpose(mut self) -> Self {
        self.layout = self.layout.transpose();
        self
    }
}

/// A storage in a file.
#[derive(Clone)]
pub(crate) enum Place {
    /// Bytes of the file.
    Bytes(Range<u64>),
    /// An entry of an archive, by name, and the number of its first bytes to skip.
    Entry(Rc<RefCell<Archive>>, String, usize),
}

/// The tensors of a file by name.
pub(crate) struct Tensors {
    pub(crate) names: BTreeSet<String>,
    pub(crate) find: Box<FindTensor>,
}

impl Tensors {
    /// The tensors of a header that was read completely.
    pub(crate) fn of(found: BTreeMap<String, FoundTensor>) -> Self {
        Self {
            names: found.keys().cloned().collect(),
            find: Box::new(move |name| found.get(name).cloned()),
        }
    }
}

/// Finds the tensor with a name, or the reason why it cannot be read.
pub(crate) type FindTensor = dyn Fn(&str) -> Option<FoundTensor>;
