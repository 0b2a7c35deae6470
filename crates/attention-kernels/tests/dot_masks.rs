//! What hidden keys and rows without keys do to dot-product attention: nothing.

mod dot_support;

use attention_kernels::{Dropout, Level, Mask, Real};
use dot_support::{Case, Inputs, Numbers, assert_precise, kernels};

/// A mask with its data.
#[derive(Clone, Debug, Default)]
struct Owned {
    name: &'static str,
    intervals: Option<(Vec<[usize; 2]>, [usize; 2])>,
    keep: Option<(Vec<bool>, [usize; 4])>,
}

impl Owned {
    fn mask(&self) -> Mask<'_> {
        let mut mask = Mask::none();
        if let Some((bounds, shape)) = &self.intervals {
            mask = mask.with_intervals(bounds, *shape);
        }
        if let Some((keep, shape)) = &self.keep {
            mask = mask.with_keep(keep, *shape);
        }
        mask
    }

    fn sees(&self, [b, h, i, j]: [usize; 4]) -> bool {
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

fn masks(case: &Case) -> Vec<Owned> {
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

fn cases() -> Vec<Case> {
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

fn masked<E: Real>() {
    for case in cases() {
        let inputs = case.inputs::<E>(3);
        for owned in masks(&case) {
            for level in Level::available() {
                let got = kernels(level, &case, &inputs, owned.mask());
                let what = format!("{level:?} {} {case:?}", owned.name);
                got.assert_finite(true);
                assert_precise(&what, &case, &got, &inputs, &|b, h, i, j| {
                    owned.sees([b, h, i, j])
                });
            }
        }
    }
}

#[test]
fn masks_agree_with_plain_loops() {
    masked::<f32>();
    if !cfg!(miri) {
        masked::<f64>();
    }
}

/// Rows of keys and of queries that nobody sees, or that see nobody, hold NaN and infinities.
fn poison<E: Real>(case: &Case, owned: &Owned, inputs: &Inputs<E>) -> Inputs<E> {
    let &Case {
        batch,
        heads,
        key_heads,
        queries,
        keys,
        size,
        value_size,
        bias_heads,
        ..
    } = case;
    let mut poisoned = inputs.clone();
    let nan = E::from_f64(f64::NAN);
    let poisons = [nan, E::INFINITY, -E::INFINITY];
    for b in 0..batch {
        for kh in 0..key_heads {
            for j in 0..keys {
                let members = (0..heads).filter(|h| h * key_heads / heads == kh);
                let mut pairs = members.flat_map(|h| (0..queries).map(move |i| (h, i)));
                if pairs.any(|(h, i)| owned.sees([b, h, i, j])) {
                    continue;
                }
                let row = (b * key_heads + kh) * keys + j;
                for x in 0..size {
                    poisoned.keys[row * size + x] = poisons[(j + x) % 3];
                }
                for x in 0..value_size {
                    poisoned.values[row * value_size + x] = poisons[(j + x + 1) % 3];
                }
            }
        }
        for h in 0..heads {
            for i in 0..queries {
                if (0..keys).any(|j| owned.sees([b, h, i, j])) {
                    continue;
                }
                let row = (b * heads + h) * queries + i;
                for x in 0..size {
                    poisoned.queries[row * size + x] = poisons[(i + x) % 3];
                }
                for x in 0..value_size {
                    poisoned.context_gradient[row * value_size + x] = poisons[(i + x) % 3];
                }
            }
        }
        for h in 0..bias_heads {
            for j in 0..keys {
                let sharing = (0..heads).filter(|other| bias_heads == 1 || *other == h);
                let mut pairs = sharing.flat_map(|h| (0..queries).map(move |i| (h, i)));
                if !pairs.any(|(h, i)| owned.sees([b, h, i, j])) {
                    poisoned.bias[(b * bias_heads + h) * keys + j] = poisons[j % 3];
                }
            }
        }
    }
    poisoned
}

#[test]
fn what_nobody_sees_changes_no_bit() {
    for case in cases() {
        for dropout in [None, Some(Dropout::new(0.2, 1))] {
            let case = Case { dropout, ..case };
            let inputs = case.inputs::<f32>(4);
            for owned in masks(&case) {
                let poisoned = poison(&case, &owned, &inputs);
                for level in Level::available() {
                    let clean = kernels(level, &case, &inputs, owned.mask());
                    let got = kernels(level, &case, &poisoned, owned.mask());
                    let what = format!("{level:?} {} {case:?}", owned.name);
                    for ((name, got), (_, clean)) in got.fields().into_iter().zip(clean.fields()) {
                        assert!(
                            got.iter()
                                .zip(clean)
                                .all(|(a, b)| a.to_bits() == b.to_bits()),
                            "{what}: {name}"
                        );
                    }
                }
            }
        }
    }
}

/// A key that holds NaN reaches exactly the queries that see it; all other rows keep every bit.
#[test]
fn what_some_see_reaches_only_them() {
    reaches_only_those_who_see(if cfg!(miri) { 5 } else { 61 });
    reaches_only_those_who_see(3);
}

fn reaches_only_those_who_see(queries: usize) {
    let keys = if cfg!(miri) { 9 } else { 150 };
    let case = Case {
        batch: 1,
        heads: 2,
        key_heads: 1,
        queries,
        keys,
        ..Case::SMALL
    };
    let inputs = case.inputs::<f32>(6);
    for owned in masks(&case) {
        for level in Level::available() {
            let clean = kernels(level, &case, &inputs, owned.mask());
            for (which, bad) in [(0, 3), (0, keys - 2), (1, 3), (1, keys - 2)] {
                let mut poisoned = inputs.clone();
                let (numbers, size) = match which {
                    0 => (&mut poisoned.keys, case.size),
                    _ => (&mut poisoned.values, case.value_size),
                };
                numbers[bad * size + 1] = f32::NAN;
                let got = kernels(level, &case, &poisoned, owned.mask());
                let what = format!("{level:?} {} {which} {bad}", owned.name);
                let same = |got: &[f32], clean: &[f32]| {
                    got.iter()
                        .zip(clean)
                        .all(|(a, b)| a.to_bits() == b.to_bits())
                };
                for row in 0..2 * queries {
                    let (h, i) = (row / queries, row % queries);
                    let context = row * case.value_size..(row + 1) * case.value_size;
                    let query = row * case.size..(row + 1) * case.size;
                    if owned.sees([0, h, i, bad]) {
                        let nan = |x: &f32| x.is_nan();
                        assert!(got.context[context.start + 1].is_nan(), "{what}: {row}");
                        assert_eq!(
                            got.context[context].iter().all(nan),
                            which == 0,
                            "{what}: {row}"
                        );
                        assert!(got.queries[query].iter().all(nan), "{what}: {row}");
                    } else {
                        assert!(
                            same(&got.context[context.clone()], &clean.context[context]),
                            "{what}: {row}"
                        );
                        assert!(
                            same(&got.queries[query.clone()], &clean.queries[query]),
                            "{what}: {row}"
                        );
                    }
                }
                // A key that shares no query with the bad one keeps its gradients.
                for j in 0..keys {
                    let mut pairs = (0..2 * queries).map(|row| (row / queries, row % queries));
                    let met =
                        pairs.any(|(h, i)| owned.sees([0, h, i, bad]) && owned.sees([0, h, i, j]));
                    let key = j * case.size..(j + 1) * case.size;
                    let value = j * case.value_size..(j + 1) * case.value_size;
                    if met {
                        assert!(got.keys[key].iter().all(|x| x.is_nan()), "{what}: {j}");
                    } else {
                        assert!(
                            same(&got.keys[key.clone()], &clean.keys[key]),
                            "{what}: {j}"
                        );
                        assert!(
                            same(&got.values[value.clone()], &clean.values[value]),
                            "{what}: {j}"
                        );
                    }
                }
            }
        }
    }
}

/// A query or an upstream gradient that holds NaN reaches only the keys that the query sees.
#[test]
fn a_bad_query_reaches_only_the_keys_it_sees() {
    bad_query(if cfg!(miri) { 5 } else { 51 });
    bad_query(3);
}

fn bad_query(queries: usize) {
    let keys = if cfg!(miri) { 9 } else { 130 };
    let case = Case {
        batch: 1,
        heads: 1,
        key_heads: 1,
        queries,
        keys,
        ..Case::SMALL
    };
    let inputs = case.inputs::<f32>(7);
    for owned in masks(&case) {
        for level in Level::available() {
            let clean = kernels(level, &case, &inputs, owned.mask());
            for which in [0, 1] {
                let mut poisoned = inputs.clone();
                let bad = 1;
                match which {
                    0 => poisoned.queries[bad * case.size + 2] = f32::NAN,
                    _ => poisoned.context_gradient[bad * case.value_size + 2] = f32::INFINITY,
                }
                let got = kernels(level, &case, &poisoned, owned.mask());
                let what = format!("{level:?} {} {which}", owned.name);
                for j in 0..case.keys {
                    let key = j * case.size..(j + 1) * case.size;
                    let value = j * case.value_size..(j + 1) * case.value_size;
                    if owned.sees([0, 0, bad, j]) {
                        assert!(got.keys[key].iter().all(|x| !x.is_finite()), "{what}: {j}");
                        let values = &got.values[value];
                        assert!(!values[2].is_finite(), "{what}: {j}");
                        assert!(which == 0 || values[0].is_finite(), "{what}: {j}");
                    } else {
                        for (got, clean) in [
                            (&got.keys[key.clone()], &clean.keys[key]),
                            (&got.values[value.clone()], &clean.values[value]),
                        ] {
                            let same = got
                                .iter()
                                .zip(clean)
                                .all(|(a, b)| a.to_bits() == b.to_bits());
                            assert!(same, "{what}: {j}");
                        }
                    }
                }
            }
        }
    }
}

/// Minus infinity as the bias of a key hides it, NaN values and all.
#[test]
fn a_bias_of_minus_infinity_hides_a_key() {
    let case = Case {
        bias_heads: 1,
        ..Case::SMALL
    };
    let case = if cfg!(miri) {
        case
    } else {
        Case {
            queries: 50,
            keys: 140,
            ..case
        }
    };
    let &Case {
        batch,
        keys,
        size,
        value_size,
        key_heads,
        ..
    } = &case;
    let mut inputs = case.inputs::<f32>(8);
    let hidden = |j: usize| j % 3 == 1 || j < keys / 2;
    for b in 0..batch {
        for j in (0..keys).filter(|&j| hidden(j)) {
            inputs.bias[b * keys + j] = f32::NEG_INFINITY;
        }
    }
    let mut poisoned = inputs.clone();
    for row in (0..batch * key_heads * keys).filter(|row| hidden(row % keys)) {
        poisoned.keys[row * size] = f32::NAN;
        poisoned.values[row * value_size] = f32::INFINITY;
    }
    for level in Level::available() {
        let clean = kernels(level, &case, &inputs, Mask::none());
        clean.assert_finite(false);
        let what = format!("{level:?}");
        let mut finite = inputs.clone();
        finite
            .bias
            .iter_mut()
            .for_each(|bias| *bias = bias.max(-1e30));
        assert_precise(&what, &case, &clean, &finite, &|_, _, _, j| !hidden(j));
        assert_eq!(
            kernels(level, &case, &poisoned, Mask::none()).bits(),
            clean.bits(),
            "{what}"
        );
    }
    // Of all keys.
    inputs.bias.fill(f32::NEG_INFINITY);
    for level in Level::available() {
        let got = kernels(level, &case, &inputs, Mask::none());
        for (name, numbers) in got.fields() {
            let expected = if name == "lse" {
                f32::NEG_INFINITY
            } else {
                0.0
            };
            assert!(numbers.iter().all(|&x| x == expected), "{level:?}: {name}");
        }
    }
}
