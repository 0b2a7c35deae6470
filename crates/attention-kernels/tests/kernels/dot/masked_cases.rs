//! Masks, and cases to try them on.

use super::case::Case;
use crate::modifiers::Modifiers;
use crate::owned_mask::OwnedMask;
use crate::random::Random;

/// A mask and what it is called.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) mask: OwnedMask,
}

/// Every kind of mask.
pub(crate) fn masks(case: &Case) -> Vec<Named> {
    let [batch, heads, queries, keys] = case.pairs();
    let intervals = |name, shape: [usize; 2], f: &dyn Fn(usize, usize) -> [usize; 2]| {
        let bounds = (0..shape[0] * shape[1]).map(|at| f(at / shape[1], at % shape[1]));
        let mask = OwnedMask::of_intervals(bounds.collect(), shape);
        Named { name, mask }
    };
    let mut random = Random::new(77);
    let mut keep = |name, shape: [usize; 4], fraction: f64| {
        let count = shape.iter().product();
        let flags = (0..count).map(|_| random.uniform() < fraction).collect();
        let mask = OwnedMask {
            intervals: None,
            keep: Some((flags, shape)),
        };
        Named { name, mask }
    };
    let late = keys * 2 / 3;
    let window = |b: usize, i: usize| [(i + b).saturating_sub(2), (i + 3).min(keys)];
    let some = |b: usize, i: usize| [[1, keys], [4, 2]][usize::from((i + b).is_multiple_of(3))];
    let mut all = vec![
        intervals("valid lengths", [batch, 1], &|b, _| {
            [0, (keys / 2 + 3 * b).min(keys)]
        }),
        intervals("one length", [1, 1], &|_, _| [0, keys / 2 + 1]),
        intervals("causal", [1, queries], &|_, i| {
            [0, (i + 1 + keys).saturating_sub(queries)]
        }),
        intervals("causal from the left", [1, queries], &|_, i| [0, i + 1]),
        intervals("window", [batch, queries], &window),
        intervals("the first keys masked", [1, 1], &|_, _| [late, keys]),
        intervals("first for some only", [1, queries], &|_, i| {
            [late * (i % 2), keys - i % 3]
        }),
        intervals("some queries attend to nothing", [batch, queries], &some),
        intervals("nothing", [1, 1], &|_, _| [0, 0]),
        keep("flags", [batch, heads, queries, keys], 0.5),
        keep("flags of each head", [1, heads, 1, keys], 0.6),
        keep("flags of each example", [batch, 1, 1, keys], 0.6),
        keep("flags of queries", [batch, 1, queries, 1], 0.6),
        keep("few flags", [batch, 1, queries, keys], 0.03),
        keep("no flags", [1, 1, 1, 1], 0.0),
    ];
    let mut both = keep("intervals and flags", [1, heads, queries, keys], 0.5);
    let halves = intervals("", [1, queries], &|_, i| [i / 2, keys - i % 4]);
    both.mask.intervals = halves.mask.intervals;
    all.push(both);
    all
}

pub(crate) fn cases() -> Vec<Case> {
    let small = Case::SMALL;
    let medium = small.with_heads(2, 1).with_batch(2);
    let biased = medium.with_modifiers(Modifiers::KEY_BIAS);
    let modified = medium.with_modifiers(Modifiers::ALL);
    vec![
        small,
        small.with_pairs(7, 5),
        biased.with_pairs(101, 139),
        medium.with_pairs(139, 101),
        medium.with_pairs(2, 301),
        modified.with_pairs(2, 37),
        modified.with_pairs(19, 37),
        medium.with_pairs(53, 521).with_sizes(16, 32).with_batch(1),
    ]
}
