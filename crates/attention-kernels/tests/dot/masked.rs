//! Masks with their data, and cases to try them on.

use attention_kernels::Mask;

use crate::case::{Case, Numbers};

/// A mask with its data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned {
    pub(crate) name: &'static str,
    intervals: Option<(Vec<[usize; 2]>, [usize; 2])>,
    keep: Option<(Vec<bool>, [usize; 4])>,
}

impl Owned {
    pub(crate) fn mask(&self) -> Mask<'_> {
        let mut mask = Mask::none();
        if let Some((bounds, shape)) = &self.intervals {
            mask = mask.with_intervals(bounds, *shape);
        }
        if let Some((keep, shape)) = &self.keep {
            mask = mask.with_keep(keep, *shape);
        }
        mask
    }

    pub(crate) fn sees(&self, [b, h, i, j]: [usize; 4]) -> bool {
        let index = |shape: &[usize], at: &[usize]| {
            let pairs = shape.iter().zip(at);
            pairs.fold(0, |index, (&size, &at)| {
                index * size + if size == 1 { 0 } else { at }
            })
        };
        self.intervals.as_ref().is_none_or(|(bounds, shape)| {
            let [start, end] = bounds[index(shape, &[b, i])];
            (start..end).contains(&j)
        }) && self
            .keep
            .as_ref()
            .is_none_or(|(keep, shape)| keep[index(shape, &[b, h, i, j])])
    }
}

/// Every kind of mask.
pub(crate) fn masks(case: &Case) -> Vec<Owned> {
    let &Case {
        batch,
        heads,
        queries,
        keys,
        ..
    } = case;
    let intervals = |name, shape: [usize; 2], f: &dyn Fn(usize, usize) -> [usize; 2]| {
        let bounds = (0..shape[0])
            .flat_map(|b| (0..shape[1]).map(move |i| f(b, i)))
            .collect();
        Owned {
            name,
            intervals: Some((bounds, shape)),
            ..Owned::default()
        }
    };
    let mut numbers = Numbers(77);
    let mut keep = |name, shape: [usize; 4], fraction: f64| {
        let count = shape.iter().product();
        let flags = (0..count).map(|_| numbers.uniform() < fraction).collect();
        Owned {
            name,
            keep: Some((flags, shape)),
            ..Owned::default()
        }
    };
    let late = keys * 2 / 3;
    let mut all = vec![
        intervals("valid lengths", [batch, 1], &|b, _| {
            [0, (keys / 2 + 3 * b).min(keys)]
        }),
        intervals("one length", [1, 1], &|_, _| [0, keys / 2 + 1]),
        intervals("causal", [1, queries], &|_, i| {
            [0, (i + 1 + keys).saturating_sub(queries)]
        }),
        intervals("causal from the left", [1, queries], &|_, i| [0, i + 1]),
        intervals("window", [batch, queries], &|b, i| {
            [(i + b).saturating_sub(2), (i + 3).min(keys)]
        }),
        intervals("the first keys hidden", [1, 1], &|_, _| [late, keys]),
        intervals("first for some only", [1, queries], &|_, i| {
            [late * (i % 2), keys - i % 3]
        }),
        intervals("some rows see nothing", [batch, queries], &|b, i| {
            if (i + b) % 3 == 0 { [4, 2] } else { [1, keys] }
        }),
        intervals("nothing", [1, 1], &|_, _| [0, 0]),
        keep("flags", [batch, heads, queries, keys], 0.5),
        keep("flags of each head", [1, heads, 1, keys], 0.6),
        keep("flags of each example", [batch, 1, 1, keys], 0.6),
        keep("flags of queries", [batch, 1, queries, 1], 0.6),
        keep("few flags", [batch, 1, queries, keys], 0.03),
        keep("no flags", [1, 1, 1, 1], 0.0),
    ];
    let mut both = keep("intervals and flags", [1, heads, queries, keys], 0.5);
    both.intervals = intervals("", [1, queries], &|_, i| [i / 2, keys - i % 4]).intervals;
    all.push(both);
    if cfg!(miri) {
        all.retain(|owned| {
            ["window", "some rows see nothing", "intervals and flags"].contains(&owned.name)
        });
    }
    all
}

pub(crate) fn cases() -> Vec<Case> {
    let small = Case::SMALL;
    let mut cases = vec![small];
    if !cfg!(miri) {
        cases.push(Case {
            queries: 7,
            keys: 5,
            ..small
        });
        let medium = Case {
            batch: 2,
            heads: 2,
            key_heads: 1,
            ..small
        };
        cases.push(Case {
            queries: 101,
            keys: 139,
            bias_heads: 1,
            ..medium
        });
        cases.push(Case {
            queries: 139,
            keys: 101,
            ..medium
        });
        cases.push(Case {
            queries: 2,
            keys: 301,
            ..medium
        });
        cases.push(Case {
            batch: 1,
            queries: 53,
            keys: 521,
            size: 16,
            value_size: 32,
            ..medium
        });
    }
    cases
}
