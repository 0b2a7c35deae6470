//! Tensors with any strides, and their copies in order.

use attention_kernels::{AttentionReal, Rows};
use cpu_kernels::Half;
use half::{bf16, f16};

use super::bytes::Bytes;
use super::random::Random;

/// How elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Storage {
    /// In the type that kernels compute with.
    Whole,
    F16,
    Bf16,
}

impl Storage {
    /// The nearest element, of a finite one the nearest finite one.
    pub(super) fn round(self, x: f64) -> f64 {
        let largest = f16::MAX.to_f64();
        match self {
            Self::Whole => x,
            Self::F16 if x.is_finite() => f16::from_f64(x.clamp(-largest, largest)).to_f64(),
            Self::F16 => x,
            Self::Bf16 => bf16::from_f64(x).to_f64(),
        }
    }
}

/// Elements in memory.
pub(super) enum Stored<E> {
    Whole(Vec<E>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

/// Elements of a tensor `[batch, heads, rows, size]` whose last axis is contiguous. NaN stands where no row is.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(super) shape: [usize; 4],
    strides: [usize; 3],
    pub(super) data: Vec<f64>,
}

impl Tensor {
    /// Elements in `-amplitude..amplitude`, laid out as `bytes` say: in order, heads behind rows, with gaps, with
    /// axes that are expanded, or with any strides, so that rows overlap.
    pub(super) fn from_bytes(bytes: &mut Bytes, shape: [usize; 4], amplitude: f64) -> Self {
        let [_, heads, rows, size] = shape;
        let layout = bytes.next();
        let gap = if layout & 0x10 == 0 {
            0
        } else {
            bytes.next() % 20
        };
        let step = size + gap;
        let mut strides = match layout % 4 {
            0 | 1 => [heads * rows * step, rows * step, step],
            2 => [heads * rows * step, step, heads * step],
            _ => [0; 3].map(|_: usize| bytes.next() % 50),
        };
        if layout & 0x20 != 0 {
            strides[bytes.next() % 3] = 0;
        }
        let mut random = Random::new(bytes.next() as u64);
        let mut tensor = Self {
            shape,
            strides,
            data: Vec::new(),
        };
        let end = tensor.starts().iter().map(|start| start + size).max();
        tensor.data = vec![f64::NAN; end.unwrap_or(0)];
        for start in tensor.starts() {
            for element in &mut tensor.data[start..start + size] {
                *element = random.element() * amplitude;
            }
        }
        tensor
    }

    /// In order.
    pub(super) fn contiguous(shape: [usize; 4], data: Vec<f64>) -> Self {
        let [_, heads, rows, size] = shape;
        let strides = [heads * rows * size, rows * size, size];
        Self {
            shape,
            strides,
            data,
        }
    }

    /// Where each row starts.
    fn starts(&self) -> Vec<usize> {
        let [batch, heads, rows, _] = self.shape;
        let place = |at| [at / rows / heads, at / rows % heads, at % rows];
        let places = (0..batch * heads * rows).map(place);
        places.map(|at| self.start(at)).collect()
    }

    fn start(&self, at: [usize; 3]) -> usize {
        at.iter()
            .zip(self.strides)
            .map(|(at, stride)| at * stride)
            .sum()
    }

    /// One row, `[size]`.
    pub(super) fn row(&self, at: [usize; 3]) -> &[f64] {
        &self.data[self.start(at)..][..self.shape[3]]
    }

    /// Where the element of `at` is, which axes of size 1 have for all.
    pub(super) fn broadcast(&self, at: [usize; 4]) -> [usize; 4] {
        std::array::from_fn(|axis| if self.shape[axis] == 1 { 0 } else { at[axis] })
    }

    /// The element of `at`, which axes of size 1 have for all.
    pub(super) fn element(&self, at: [usize; 4]) -> f64 {
        let [b, h, i, x] = self.broadcast(at);
        self.row([b, h, i])[x]
    }

    /// Where the element of `at` is if all are in order.
    pub(super) fn position(&self, at: [usize; 4]) -> usize {
        let axes = self.shape.iter().zip(self.broadcast(at));
        axes.fold(0, |position, (size, at)| position * size + at)
    }

    /// The elements as `storage` holds them, to be seen through [`view`](Self::view).
    pub(super) fn stored<E: AttentionReal>(&self, storage: Storage) -> Stored<E> {
        match storage {
            Storage::Whole => Stored::Whole(self.data.iter().map(|x| E::from_f64(*x)).collect()),
            Storage::F16 => Stored::F16(self.data.iter().map(|x| f16::from_f64(*x)).collect()),
            Storage::Bf16 => Stored::Bf16(self.data.iter().map(|x| bf16::from_f64(*x)).collect()),
        }
    }

    pub(super) fn view<'a, E>(&self, elements: &'a Stored<E>) -> Rows<'a, E> {
        match elements {
            Stored::Whole(elements) => Rows::strided(elements, self.shape, self.strides),
            Stored::F16(elements) => Rows::half(Half::F16(elements), self.shape, self.strides),
            Stored::Bf16(elements) => Rows::half(Half::Bf16(elements), self.shape, self.strides),
        }
    }

    /// A copy whose elements `storage` can hold.
    pub(super) fn rounded(&self, storage: Storage) -> Self {
        Self {
            data: self.data.iter().map(|x| storage.round(*x)).collect(),
            ..self.clone()
        }
    }

    /// A copy in order, its examples in the order `order`.
    pub(super) fn reordered(&self, order: &[usize]) -> Self {
        Self::contiguous(self.shape, reordered(&self.in_order(), order))
    }

    /// The elements of all rows, one after the other.
    pub(super) fn in_order(&self) -> Vec<f64> {
        let row = |start: usize| self.data[start..][..self.shape[3]].to_vec();
        self.starts().into_iter().flat_map(row).collect()
    }

    /// A copy with NaN, infinities and large elements wherever no element is for which `is_read` holds.
    pub(super) fn poisoned(&self, is_read: impl Fn([usize; 4]) -> bool) -> Self {
        let [batch, heads, rows, size] = self.shape;
        let mut poisoned = self.clone();
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        let poison = [nan, infinity, 8.0, -infinity, -30.0, 1e30, -12.0];
        for (at, element) in poisoned.data.iter_mut().enumerate() {
            *element = poison[at % poison.len()];
        }
        for at in 0..batch * heads * rows * size {
            let (row, x) = (at / size, at % size);
            let place = [row / rows / heads, row / rows % heads, row % rows];
            if is_read([place[0], place[1], place[2], x]) {
                let at = self.start(place) + x;
                poisoned.data[at] = self.data[at];
            }
        }
        poisoned
    }
}

/// The elements of each example, in another order.
pub(super) fn reordered<T: Clone>(elements: &[T], order: &[usize]) -> Vec<T> {
    let len = elements.len() / order.len().max(1);
    let examples = order
        .iter()
        .flat_map(|example| &elements[example * len..][..len]);
    examples.cloned().collect()
}
