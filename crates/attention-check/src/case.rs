//! Cases of attention: sizes, masks and elements.

use attention_core::Mask;
use attention_oracle::{Axes, Pairs};
use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::check::{Input, draw};

/// The sizes of the checked tensors.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    /// The size of queries and keys.
    pub(crate) size: usize,
    pub(crate) value_size: usize,
}

impl Sizes {
    /// More keys than any tile has, and no size a multiple of a tile.
    pub(crate) const CHECKED: Self = Self {
        batch: 2,
        heads: 2,
        queries: 37,
        keys: 75,
        size: 19,
        value_size: 35,
    };
}

/// One case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) sizes: Sizes,
    key_heads: usize,
    kind: MaskKind,
    /// The standard deviation of queries and keys.
    deviation: f64,
    /// Whether keys and values that no query attends to are NaN.
    poisoned: bool,
    /// The probability to drop a weight.
    pub(crate) dropout: f64,
}

#[derive(Clone, Copy)]
enum MaskKind {
    None,
    /// The number of keys of the first example; other examples have all keys.
    Lengths(usize),
    Causal,
    /// A flag for each pair.
    Dense,
}

impl Case {
    fn new(name: &'static str, sizes: Sizes, kind: MaskKind) -> Self {
        Self {
            name,
            sizes,
            key_heads: sizes.heads,
            kind,
            deviation: 1.0,
            poisoned: false,
            dropout: 0.0,
        }
    }

    /// Cases of every operation.
    pub(crate) fn all(sizes: Sizes) -> [Self; 9] {
        let padding = MaskKind::padding(sizes);
        let case = |name, kind| Self::new(name, sizes, kind);
        [
            case("padding", padding),
            case("no mask", MaskKind::None),
            case("no key for an example", MaskKind::Lengths(0)),
            case("causal mask", MaskKind::Causal),
            case("dense mask", MaskKind::Dense),
            case("heads that share keys", MaskKind::None).of_shared_heads(),
            Self {
                deviation: 12.0,
                ..case("saturated units", MaskKind::None)
            },
            Self {
                poisoned: true,
                ..case("NaN in the padding", padding)
            },
            case("one query", padding).of_one_query(),
        ]
    }

    /// Cases of an operation with dropout.
    pub(crate) fn with_dropout(sizes: Sizes) -> [Self; 2] {
        let case = |name| Self {
            dropout: 0.3,
            ..Self::new(name, sizes, MaskKind::padding(sizes))
        };
        [case("dropout"), case("dropout of one query").of_one_query()]
    }

    /// Cases of an operation with a bias per key.
    pub(crate) fn with_bias(sizes: Sizes) -> [Self; 2] {
        let case = |name| Self::new(name, sizes, MaskKind::padding(sizes));
        [
            case("bias of each key"),
            case("bias, one query").of_one_query(),
        ]
    }

    /// A case of queries that come one by one, with prepared keys.
    pub(crate) fn of_decoding(sizes: Sizes) -> Self {
        let sizes = Sizes {
            queries: 3,
            ..sizes
        };
        Self::new("steps of decoding", sizes, MaskKind::padding(sizes))
    }

    /// This case with two query heads for each key head.
    fn of_shared_heads(mut self) -> Self {
        self.sizes.heads = 2 * self.key_heads;
        self
    }

    fn of_one_query(mut self) -> Self {
        self.sizes.queries = 1;
        self
    }

    /// This case with dot products small enough not to dominate rounding in f32.
    pub(crate) fn of_dot_products(mut self) -> Self {
        self.deviation = self.deviation.min(3.0);
        self
    }

    fn query_shape(&self, size: usize) -> [usize; 4] {
        [self.sizes.batch, self.sizes.heads, self.sizes.queries, size]
    }

    fn key_shape(&self, size: usize) -> [usize; 4] {
        [self.sizes.batch, self.key_heads, self.sizes.keys, size]
    }

    /// The queries.
    pub(crate) fn queries(&self) -> Input {
        Input::drawn(1, self.query_shape(self.sizes.size), self.deviation)
    }

    /// The keys, with NaN in the padding of a case that has it.
    pub(crate) fn keys(&self) -> Input {
        let shape = self.key_shape(self.sizes.size);
        self.with_poison(Input::drawn(2, shape, self.deviation))
    }

    /// The values, with NaN where keys are NaN.
    pub(crate) fn values(&self) -> Input {
        let shape = self.key_shape(self.sizes.value_size);
        self.with_poison(Input::drawn(3, shape, 1.0))
    }

    /// The weight of the hidden units.
    pub(crate) fn weight(&self) -> Input {
        Input::drawn(4, [1, 1, 1, self.sizes.size], 0.3)
    }

    /// A bias per key.
    pub(crate) fn bias(&self) -> Input {
        let sizes = self.sizes;
        Input::drawn(5, [sizes.batch, sizes.heads, 1, sizes.keys], 1.0)
    }

    /// The scores, with NaN where masked in a case that has NaN.
    pub(crate) fn scores(&self) -> Input {
        let mut scores = Input::drawn(6, self.query_shape(self.sizes.keys), self.deviation);
        if self.poisoned {
            let mut poisoned = vec![f64::NAN; scores.elements.len()];
            for pair in self.pairs().attended {
                poisoned[pair.at] = scores.elements[pair.at];
            }
            scores.elements = poisoned;
        }
        scores
    }

    /// Weights of any magnitude and sign.
    pub(crate) fn weights(&self) -> Input {
        Input::drawn(7, self.query_shape(self.sizes.keys), 1.0)
    }

    /// The gradient of a result with `size` elements per query.
    pub(crate) fn grad_output(&self, size: usize) -> Vec<f64> {
        draw(8, self.query_shape(size), 1.0)
    }

    /// Keys or values with NaN in the padding of a case that has it.
    fn with_poison(&self, mut rows: Input) -> Input {
        let [_, key_heads, num_keys, size] = rows.shape;
        if let (true, MaskKind::Lengths(length)) = (self.poisoned, self.kind) {
            let of_an_example = &mut rows.elements[..key_heads * num_keys * size];
            for (index, element) in of_an_example.iter_mut().enumerate() {
                if index / size % num_keys >= length {
                    *element = f64::NAN;
                }
            }
        }
        rows
    }

    /// The mask for the library.
    pub(crate) fn mask(&self, device: &Device) -> Mask {
        match self.kind {
            MaskKind::None => Mask::none(),
            MaskKind::Lengths(length) => {
                let Sizes { batch, keys, .. } = self.sizes;
                let mut lengths = vec![keys as i64; batch];
                lengths[0] = length as i64;
                Mask::valid_lens(Tensor::from_data(TensorData::new(lengths, [batch]), device))
            }
            MaskKind::Causal => Mask::causal(),
            MaskKind::Dense => {
                let pairs = self.pairs();
                let mut keep = vec![false; pairs.count()];
                for pair in pairs.attended {
                    keep[pair.at] = true;
                }
                let data = TensorData::new(keep, self.query_shape(self.sizes.keys));
                Mask::keep(Tensor::<4, Bool>::from_data(data, device))
            }
        }
    }

    /// The same mask for the plain loops.
    pub(crate) fn pairs(&self) -> Pairs {
        let axes = Axes {
            batch: self.sizes.batch,
            heads: self.sizes.heads,
            key_heads: self.key_heads,
            queries: self.sizes.queries,
            keys: self.sizes.keys,
        };
        Pairs::new(axes, |pair| self.attends(pair))
    }

    /// Whether a query attends to a key, given as `[example, head, query, key]`.
    fn attends(&self, [b, h, i, j]: [usize; 4]) -> bool {
        let (queries, keys) = (self.sizes.queries, self.sizes.keys);
        match self.kind {
            MaskKind::None => true,
            MaskKind::Lengths(length) => b > 0 || j < length,
            MaskKind::Causal => j + queries <= i + keys,
            MaskKind::Dense => {
                let at = ((b * self.sizes.heads + h) * queries + i) * keys + j;
                // The first query attends to no key.
                i > 0 && at * 7 % 11 < 6
            }
        }
    }
}

impl MaskKind {
    /// A mask that keeps about half of the first example's keys.
    fn padding(sizes: Sizes) -> Self {
        Self::Lengths(sizes.keys * 11 / 20)
    }
}
