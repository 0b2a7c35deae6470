//! What is computed: sizes, masks and elements.

use attention_kernels as kernels;
use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::Mask;

pub(super) const BATCH: usize = 2;
/// Above every tile, and no multiple of one.
pub(super) const KEYS: usize = 75;
pub(super) const SIZE: usize = 19;
pub(super) const VALUE_SIZE: usize = 35;

/// One case.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) heads: usize,
    pub(super) key_heads: usize,
    pub(super) queries: usize,
    kind: MaskKind,
    /// The standard deviation of queries and keys.
    spread: f64,
    /// Whether keys and values that no query attends to are NaN.
    poisoned: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum MaskKind {
    None,
    /// With so many keys for the first example.
    Lengths(usize),
    Causal,
    Dense,
}

impl Case {
    pub(super) fn all() -> [Self; 9] {
        let case = |name, kind| Self {
            name,
            heads: 2,
            key_heads: 2,
            queries: 37,
            kind,
            spread: 1.0,
            poisoned: false,
        };
        [
            case("no mask", MaskKind::None),
            case("padding", MaskKind::Lengths(41)),
            case("no key for an example", MaskKind::Lengths(0)),
            case("causal mask", MaskKind::Causal),
            case("dense mask", MaskKind::Dense),
            Self {
                key_heads: 1,
                ..case("heads that share keys", MaskKind::None)
            },
            Self {
                queries: 1,
                ..case("one query", MaskKind::Lengths(41))
            },
            Self {
                spread: 12.0,
                ..case("saturated units", MaskKind::None)
            },
            Self {
                poisoned: true,
                ..case("NaN in the padding", MaskKind::Lengths(41))
            },
        ]
    }

    /// The same with dot products whose rounding in f32 is no more than that of anything else.
    pub(super) fn of_dot_products(self) -> Self {
        Self {
            spread: self.spread.min(3.0),
            ..self
        }
    }

    pub(super) fn query_shape(&self, size: usize) -> [usize; 4] {
        [BATCH, self.heads, self.queries, size]
    }

    pub(super) fn key_shape(&self, size: usize) -> [usize; 4] {
        [BATCH, self.key_heads, KEYS, size]
    }

    /// Queries.
    pub(super) fn queries(&self) -> Vec<f64> {
        draw(1, self.query_shape(SIZE), self.spread)
    }

    /// Keys, with NaN where they are padding, if they are.
    pub(super) fn keys(&self) -> Vec<f64> {
        self.with_poison(draw(2, self.key_shape(SIZE), self.spread), SIZE)
    }

    /// Values, likewise.
    pub(super) fn values(&self) -> Vec<f64> {
        self.with_poison(draw(3, self.key_shape(VALUE_SIZE), 1.0), VALUE_SIZE)
    }

    /// Of the hidden units.
    pub(super) fn weight() -> Vec<f64> {
        draw(4, [1, 1, 1, SIZE], 0.3)
    }

    /// What results receive as their gradient.
    pub(super) fn gradient(&self, size: usize) -> Vec<f64> {
        draw(5, self.query_shape(size), 1.0)
    }

    fn with_poison(&self, mut elements: Vec<f64>, size: usize) -> Vec<f64> {
        if let (true, MaskKind::Lengths(length)) = (self.poisoned, self.kind) {
            let of_an_example = self.key_heads * KEYS * size;
            for (index, element) in elements[..of_an_example].iter_mut().enumerate() {
                if index / size % KEYS >= length {
                    *element = f64::NAN;
                }
            }
        }
        elements
    }

    /// The mask of the library.
    pub(super) fn mask(&self, device: &Device) -> Mask {
        match self.kind {
            MaskKind::None => Mask::none(),
            MaskKind::Lengths(length) => {
                let lengths = [length as i64, KEYS as i64];
                Mask::valid_lens(Tensor::from_data(lengths, device))
            }
            MaskKind::Causal => Mask::causal(),
            MaskKind::Dense => {
                let data = TensorData::new(self.flags(), [BATCH, 1, self.queries, KEYS]);
                Mask::keep(Tensor::<4, Bool>::from_data(data, device))
            }
        }
    }

    /// The same mask for the kernels of the CPU.
    pub(super) fn with_kernel_mask<T>(&self, then: impl FnOnce(kernels::Mask) -> T) -> T {
        let queries = self.queries;
        let bounds: Vec<[usize; 2]> = match self.kind {
            MaskKind::Lengths(length) => vec![[0, length], [0, KEYS]],
            MaskKind::Causal => (0..queries).map(|i| [0, i + 1 + KEYS - queries]).collect(),
            _ => Vec::new(),
        };
        let flags = self.flags();
        let none = kernels::Mask::none();
        then(match self.kind {
            MaskKind::None => none,
            MaskKind::Lengths(_) => none.with_intervals(&bounds, [BATCH, 1]),
            MaskKind::Causal => none.with_intervals(&bounds, [1, queries]),
            MaskKind::Dense => none.with_keep(&flags, [BATCH, 1, queries, KEYS]),
        })
    }

    /// Of the dense mask; the first query attends to no key.
    fn flags(&self) -> Vec<bool> {
        let index = 0..BATCH * self.queries * KEYS;
        index
            .map(|at| !(at / KEYS).is_multiple_of(self.queries) && at * 7 % 11 < 6)
            .collect()
    }
}

/// Elements of a standard deviation, uniform, each a number of `f32`.
pub(super) fn draw(seed: u64, shape: [usize; 4], spread: f64) -> Vec<f64> {
    let mut state = seed;
    let element = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
        f64::from(((2.0 * uniform - 1.0) * 3.0_f64.sqrt() * spread) as f32)
    };
    (0..shape.iter().product()).map(element).collect()
}
