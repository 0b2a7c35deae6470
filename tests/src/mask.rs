//! Masks whose answer a plain loop knows.

use attention_core::Mask;
use burn::tensor::Device;
use serde::Deserialize;

use crate::Array;

/// A mask on the host; deserialises from the masks of the reference files.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MaskSpec {
    /// Every query attends to every key.
    None,
    /// The keys up to the query's own position.
    Causal,
    /// The keys at most so far from the query's own position.
    Window {
        /// How far before.
        before: usize,
        /// How far after.
        after: usize,
    },
    /// The keys up to the query's number.
    #[serde(skip)]
    CausalTopLeft,
    /// The keys at most so far from the query's number.
    #[serde(skip)]
    WindowTopLeft {
        /// How far before.
        before: usize,
        /// How far after.
        after: usize,
    },
    /// The keys of the query's own segment.
    #[serde(skip)]
    Segments {
        /// The lengths of the segments of queries, of each row.
        queries: Vec<Vec<usize>>,
        /// The lengths of the segments of keys.
        keys: Vec<Vec<usize>>,
    },
    /// The first keys: `[batch]` or `[batch, queries]`.
    ValidLens(Array),
    /// Every key for a query that is not 0, `[batch, queries]`.
    #[serde(skip)]
    Queries(Array),
    /// Where not 0: two, three or four axes.
    Keep(Array),
    /// Where not 0, as a function says it: four axes.
    #[serde(skip)]
    Function(Array),
    /// Both masks.
    #[serde(skip)]
    And(Box<[MaskSpec; 2]>),
}

impl MaskSpec {
    /// The keys at most so far from the query's own position.
    pub const fn window(before: usize, after: usize) -> Self {
        Self::Window { before, after }
    }

    /// The keys at most so far from the query's number.
    pub const fn window_top_left(before: usize, after: usize) -> Self {
        Self::WindowTopLeft { before, after }
    }

    /// Lengths per example.
    pub fn lens(lens: &[i64]) -> Self {
        Self::ValidLens(Array::from_fn(&[lens.len()], |at| lens[at[0]] as f64))
    }

    /// Lengths per query.
    pub fn lens_per_query(batch: usize, lens: &[i64]) -> Self {
        let queries = lens.len() / batch;
        Self::ValidLens(Array::from_fn(&[batch, queries], |at| {
            lens[at[0] * queries + at[1]] as f64
        }))
    }

    /// The same segments of queries and of keys.
    pub fn segments(lens: &[&[usize]]) -> Self {
        let keys: Vec<_> = lens.iter().map(|row| row.to_vec()).collect();
        let queries = keys.clone();
        Self::Segments { queries, keys }
    }

    /// A dense mask that keeps about `share` of the pairs.
    pub fn drawn(seed: u64, shape: &[usize], share: f64) -> Self {
        Self::Keep(Array::draw(seed, shape).map(|number| f64::from(number < 4.0 * share - 2.0)))
    }

    /// Both masks.
    pub fn and(self, other: Self) -> Self {
        Self::And(Box::new([self, other]))
    }

    /// The mask of the library.
    pub fn mask(&self, device: &Device) -> Mask {
        match self {
            Self::None => Mask::none(),
            Self::Causal => Mask::causal(),
            Self::Window { before, after } => Mask::window(*before, *after),
            Self::CausalTopLeft => Mask::causal_top_left(),
            Self::WindowTopLeft { before, after } => Mask::window_top_left(*before, *after),
            Self::Segments { queries, keys } if queries == keys => Mask::segments(keys),
            Self::Segments { queries, keys } => Mask::segments_across(queries, keys),
            Self::ValidLens(lens) if lens.shape.len() == 1 => Mask::valid_lens(lens.int(device)),
            Self::ValidLens(lens) => Mask::valid_lens_per_query(lens.int(device)),
            Self::Queries(keep) => Mask::queries(keep.bool(device)),
            Self::Keep(keep) => match keep.shape.len() {
                2 => Mask::keep(keep.bool::<2>(device)),
                3 => Mask::keep(keep.bool::<3>(device)),
                _ => Mask::keep(keep.bool::<4>(device)),
            },
            Self::Function(keep) => {
                let shape = [0, 1, 2, 3].map(|axis| keep.shape[axis]);
                Mask::from_fn(shape, device, |b, h, i, j| keep.at(&[b, h, i, j]) != 0.0)
            }
            Self::And(both) => {
                let [one, other] = &**both;
                one.mask(device) & other.mask(device)
            }
        }
    }

    /// Whether query `i` attends to key `j`, of scores of `shape`.
    pub fn attends(&self, shape: [usize; 4], [b, h, i, j]: [usize; 4]) -> bool {
        let [_, _, queries, keys] = shape.map(|size| size as i64);
        let limit = |distance: usize| i64::try_from(distance).unwrap_or(i64::MAX);
        let (query, key) = (i as i64, j as i64);
        let is_within = |position: i64, before: usize, after: usize| {
            position - key <= limit(before) && key - position <= limit(after)
        };
        let position = query + keys - queries;
        match self {
            Self::None => true,
            Self::Causal => key <= position,
            Self::Window { before, after } => is_within(position, *before, *after),
            Self::CausalTopLeft => key <= query,
            Self::WindowTopLeft { before, after } => is_within(query, *before, *after),
            Self::Segments { queries, keys } => {
                let row = b.min(queries.len() - 1);
                let of_query = segment(&queries[row], i);
                of_query.is_some() && of_query == segment(&keys[row], j)
            }
            Self::ValidLens(lens) => match lens.shape[..] {
                [batch] => (j as f64) < lens.at(&[b.min(batch - 1)]),
                [batch, queries] => (j as f64) < lens.at(&[b.min(batch - 1), i.min(queries - 1)]),
                _ => unreachable!("lengths have one or two axes"),
            },
            Self::Queries(keep) => match keep.shape[..] {
                [batch, queries] => keep.at(&[b.min(batch - 1), i.min(queries - 1)]) != 0.0,
                _ => unreachable!("a mask of queries has two axes"),
            },
            Self::Keep(keep) | Self::Function(keep) => {
                let mut from = match keep.shape.len() {
                    2 => vec![i, j],
                    3 => vec![b, i, j],
                    _ => vec![b, h, i, j],
                };
                for (at, &size) in from.iter_mut().zip(&keep.shape) {
                    *at = (*at).min(size - 1);
                }
                keep.at(&from) != 0.0
            }
            Self::And(both) => both.iter().all(|mask| mask.attends(shape, [b, h, i, j])),
        }
    }

    /// Whether it masks keys for all queries only because of where they stand, which `prepare` cannot know.
    pub fn counts_positions(&self) -> bool {
        match self {
            Self::Causal | Self::Window { .. } => true,
            Self::CausalTopLeft | Self::WindowTopLeft { .. } => true,
            Self::And(both) => both.iter().any(Self::counts_positions),
            _ => false,
        }
    }

    /// 1 where a query attends to a key, of `shape`.
    pub fn table(&self, shape: [usize; 4]) -> Array {
        Array::from_fn(&shape, |at| {
            f64::from(self.attends(shape, [at[0], at[1], at[2], at[3]]))
        })
    }

    /// 1 for keys that no query attends to, `[batch, heads, keys]`.
    pub fn padding(&self, shape: [usize; 4]) -> Array {
        let [batch, heads, queries, keys] = shape;
        Array::from_fn(&[batch, heads, keys], |at| {
            let attends = |query| self.attends(shape, [at[0], at[1], query, at[2]]);
            f64::from(!(0..queries).any(attends))
        })
    }
}

/// In which of the segments of these lengths a position lies; `None` if it is after the last.
fn segment(lens: &[usize], position: usize) -> Option<usize> {
    let ends = lens.iter().scan(0, |end, len| {
        *end += len;
        Some(*end)
    });
    ends.into_iter().position(|end| position < end)
}

/// Every kind of mask and some combinations, for scores of `shape` (at least two examples and three keys).
#[rustfmt::skip]
pub fn masks(shape: [usize; 4]) -> Vec<(&'static str, MaskSpec)> {
    let [batch, heads, queries, keys] = shape;
    let max = keys as i64;
    let per_example: Vec<i64> = (0..batch).map(|b| (max / 2 + b as i64).min(max - 1)).collect();
    let per_query: Vec<i64> = (0..batch * queries).map(|at| (at as i64 * 3 + 1) % max).collect();
    let lens = MaskSpec::lens(&per_example);
    let window = MaskSpec::Window { before: 1, after: 2 };
    let mut dense = Array::draw(5, &[batch, heads, queries, keys]).map(|number| f64::from(number < 0.8));
    for (b, h, i) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..queries).map(move |i| (b, h, i)))) {
        *dense.at_mut(&[b, h, i, (b + h) % keys]) = 0.0;
    }
    // Cut elsewhere in odd examples, and the last key or the last query padding.
    let cut = |len: usize, at: usize, is_whole: bool| vec![at, len - at - usize::from(!is_whole)];
    let segments = MaskSpec::Segments {
        queries: (0..batch).map(|b| cut(queries, queries / 2, b % 2 == 0)).collect(),
        keys: (0..batch).map(|b| cut(keys, [keys / 2, 1][b % 2], b % 2 == 1)).collect(),
    };
    let some_queries = MaskSpec::Queries(Array::from_fn(&[batch, queries], |at| f64::from((at[0] + at[1]) % 3 > 0)));
    // The last key is padding.
    let neighbours = Array::from_fn(&[batch, 1, queries, keys], |at| {
        f64::from((at[2] % 2..keys - 1).contains(&at[3]) && at[3] <= at[2] + at[0])
    });
    let mut extremes = vec![max; batch];
    extremes[0] = 0;
    vec![
        ("none", MaskSpec::None),
        ("lens", lens.clone()),
        ("lens: an empty and a full example", MaskSpec::lens(&extremes)),
        ("lens beyond the keys", MaskSpec::lens(&vec![max + 100; batch])),
        ("lens below 0", MaskSpec::lens(&vec![-3; batch]).and(MaskSpec::None)),
        ("lens per query", MaskSpec::lens_per_query(batch, &per_query)),
        ("causal", MaskSpec::Causal),
        ("window", window.clone()),
        ("window of one", MaskSpec::Window { before: 0, after: 0 }),
        ("window of everything", MaskSpec::Window { before: usize::MAX, after: usize::MAX }),
        ("causal, top-left", MaskSpec::CausalTopLeft),
        ("window, top-left", MaskSpec::WindowTopLeft { before: 1, after: 2 }),
        ("causal along both diagonals", MaskSpec::Causal.and(MaskSpec::CausalTopLeft)),
        ("queries", some_queries.clone()),
        ("queries and causal, top-left", some_queries.clone().and(MaskSpec::CausalTopLeft)),
        ("queries and lens", some_queries.and(lens.clone())),
        ("dense", MaskSpec::Keep(dense.clone())),
        ("dense over heads", MaskSpec::drawn(6, &[batch, queries, keys], 0.5)),
        (
            "dense over batch and heads",
            // Two axes that could be examples and keys are refused.
            if batch == queries {
                MaskSpec::drawn(7, &[1, queries, keys], 0.6)
            } else {
                MaskSpec::drawn(7, &[queries, keys], 0.6)
            },
        ),
        ("dense over queries", MaskSpec::drawn(8, &[batch, heads, 1, keys], 0.6)),
        ("function: intervals", MaskSpec::Function(neighbours)),
        ("function: dense", MaskSpec::Function(dense.clone())),
        ("lens and causal", lens.clone().and(MaskSpec::Causal)),
        ("lens and window", lens.clone().and(window.clone())),
        ("lens and dense", lens.clone().and(MaskSpec::Keep(dense.clone()))),
        ("lens and lens per query", lens.and(MaskSpec::lens_per_query(batch, &per_query))),
        ("window and dense", window.and(MaskSpec::Keep(dense.clone()))),
        ("dense and dense", MaskSpec::drawn(9, &[batch, 1, 1, keys], 0.7).and(MaskSpec::Keep(dense.clone()))),
        ("segments", segments.clone()),
        ("segments and causal", segments.clone().and(MaskSpec::Causal)),
        ("segments and lens and dense", segments.and(MaskSpec::lens(&per_example)).and(MaskSpec::Keep(dense))),
    ]
}
