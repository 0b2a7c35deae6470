//! The places of a tensor's elements in its storage.

use std::ops::Range;

use crate::ElementType;

/// A strided view of a storage.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    element_type: ElementType,
    shape: Vec<usize>,
    /// For each axis, the distance in the storage from one index to the next, in elements.
    strides: Vec<usize>,
    /// The number of elements of the storage before the first one of the view.
    offset: usize,
}

/// An axis to gather: its length, and its strides in the storage and in the result, in elements.
#[derive(Clone, Copy)]
struct Axis {
    len: usize,
    from: usize,
    to: usize,
}

/// The largest number of axes of a PyTorch tensor.
pub(crate) const MAX_AXES: usize = 64;

/// A window of at most this many elements is read as a whole, even if few of them are used.
const SMALL_WINDOW: usize = 1 << 12;

impl Layout {
    /// A view of a storage of `capacity` elements.
    pub(crate) fn new(
        element_type: ElementType,
        shape: Vec<usize>,
        strides: Vec<usize>,
        offset: usize,
        capacity: usize,
    ) -> Result<Self, String> {
        let mut layout = Self {
            element_type,
            shape,
            strides,
            offset,
        };
        if layout.shape.len() > MAX_AXES || layout.strides.len() > MAX_AXES {
            return Err(format!("it has more than {MAX_AXES} axes"));
        }
        match layout.checked_end() {
            Some(end) if end <= capacity => {
                if layout.len() == 0 {
                    // They are not used, and may have any value.
                    layout.strides.fill(0);
                }
                Ok(layout)
            }
            _ => Err(format!(
                "the shape {:?} with the strides {:?} from {offset} does not fit its storage of {capacity} elements",
                layout.shape, layout.strides
            )),
        }
    }

    /// A storage of `bytes` bytes, row by row, or column by column if `is_fortran`.
    pub(crate) fn in_order(
        element_type: ElementType,
        mut shape: Vec<usize>,
        is_fortran: bool,
        bytes: u64,
    ) -> Result<Self, String> {
        let capacity = bytes as usize / element_type.size();
        if is_fortran {
            shape.reverse();
        }
        let strides = row_major(&shape);
        let layout = Self::new(element_type, shape, strides, 0, capacity)?;
        match is_fortran {
            true => Ok(layout.transpose()),
            false => Ok(layout),
        }
    }

    pub(crate) fn element_type(&self) -> ElementType {
        self.element_type
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// # Panics
    /// If the first axis has fewer indices, or there are no axes.
    pub(crate) fn narrow(mut self, start: usize, len: usize) -> Self {
        let end = start.checked_add(len);
        assert!(
            end.is_some_and(|end| self.shape.first().is_some_and(|&axis| end <= axis)),
            "narrow: expected {start} and {len} more within the first axis of {:?}",
            self.shape
        );
        self.offset += start * self.strides[0];
        self.shape[0] = len;
        self
    }

    /// The single element of a layout without axes, with `axes` axes of size 1.
    pub(crate) fn with_axes(mut self, axes: usize) -> Self {
        self.shape = vec![1; axes];
        self.strides = vec![1; axes];
        self
    }

    /// The axes in reverse order.
    pub(crate) fn transpose(mut self) -> Self {
        self.shape.reverse();
        self.strides.reverse();
        self
    }

    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The number of elements of the storage up to the tensor's last one.
    fn checked_end(&self) -> Option<usize> {
        if self.shape.len() != self.strides.len() {
            return None;
        }
        // For every tensor: its elements must be addressable in memory.
        let mut sizes = self.shape.iter();
        let len = sizes.try_fold(1, |len: usize, &axis| len.checked_mul(axis))?;
        len.checked_mul(self.element_type.size())?;
        if len == 0 {
            return Some(self.offset);
        }
        let mut axes = self.shape.iter().zip(&self.strides);
        let last = axes.try_fold(self.offset, |last, (&axis, &stride)| {
            last.checked_add(stride.checked_mul(axis - 1)?)
        });
        last?.checked_add(1)
    }

    /// The axes by decreasing stride, so that elements are read in the order of the storage.
    fn axes(&self) -> Vec<Axis> {
        let to = row_major(&self.shape);
        let axes = self.shape.iter().zip(&self.strides).zip(to);
        let axes = axes.map(|((&len, &from), to)| Axis { len, from, to });
        let mut axes: Vec<Axis> = axes.filter(|axis| axis.len != 1).collect();
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.from));
        axes
    }

    /// The bytes of the storage from the first to the last used element, unless they are many more than the used ones.
    pub(crate) fn window(&self) -> Result<Range<usize>, String> {
        let end = self.checked_end().unwrap_or(self.offset);
        if is_wide(end - self.offset, self.len()) {
            return Err(format!(
                "{} elements lie scattered in a storage that is compressed: save it uncompressed",
                self.len()
            ));
        }
        let size = self.element_type.size();
        Ok(self.offset * size..end * size)
    }

    /// The elements row by row. `read` returns a range of the storage's bytes, which is never much larger than what is
    /// used of it.
    pub(crate) fn gather(
        &self,
        mut read: impl FnMut(Range<usize>) -> Result<Vec<u8>, String>,
    ) -> Result<Vec<u8>, String> {
        if self.len() == 0 {
            return Ok(Vec::new());
        }
        let axes = self.axes();
        let size = self.element_type.size();
        if axes.iter().all(|axis| axis.from == axis.to) {
            return read(self.offset * size..(self.offset + self.len()) * size);
        }
        let mut gather = Gather {
            size,
            result: vec![0; self.len() * size],
            read: &mut read,
        };
        gather.windows(&axes, self.offset, 0)?;
        Ok(gather.result)
    }
}

struct Gather<'a, F> {
    /// The size of an element in bytes.
    size: usize,
    result: Vec<u8>,
    read: &'a mut F,
}

impl<F: FnMut(Range<usize>) -> Result<Vec<u8>, String>> Gather<'_, F> {
    /// Reads a window of the storage, or several if a single one would be much larger than what is used of it.
    fn windows(&mut self, axes: &[Axis], from: usize, to: usize) -> Result<(), String> {
        let last = axes.iter().map(|axis| (axis.len - 1) * axis.from);
        let window = 1 + last.sum::<usize>();
        let used: usize = axes.iter().map(|axis| axis.len).product();
        match axes {
            [axis, rest @ ..] if is_wide(window, used) => {
                for index in 0..axis.len {
                    self.windows(rest, from + index * axis.from, to + index * axis.to)?;
                }
            }
            _ => {
                let window = (self.read)(from * self.size..(from + window) * self.size)?;
                self.copy(axes, &window, 0, to);
            }
        }
        Ok(())
    }

    fn copy(&mut self, axes: &[Axis], window: &[u8], from: usize, to: usize) {
        let size = self.size;
        match axes {
            [] => {
                self.result[to * size..][..size].copy_from_slice(&window[from * size..][..size]);
            }
            [axis, rest @ ..] => {
                for index in 0..axis.len {
                    self.copy(rest, window, from + index * axis.from, to + index * axis.to);
                }
            }
        }
    }
}

/// Whether a window is much larger than the used part.
fn is_wide(window: usize, used: usize) -> bool {
    window > SMALL_WINDOW && window / 2 > used
}

fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        // Only the strides of a tensor without elements may overflow.
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}
