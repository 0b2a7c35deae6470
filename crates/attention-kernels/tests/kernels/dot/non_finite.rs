//! An element that is not finite reaches what depends on it through pairs that are not masked, and nothing else.

use std::ops::Range;

use cpu_kernels::Level;

use super::case::{Case, kernels};
use super::masked_cases::{Named, masks};

/// A key that holds NaN reaches exactly the queries that attend to it; all others keep every bit.
#[test]
fn a_key_reaches_only_the_queries_that_attend_to_it() {
    reaches_only_those_that_attend(61);
    reaches_only_those_that_attend(3);
}

fn reaches_only_those_that_attend(queries: usize) {
    let keys = 150;
    let case = Case::SMALL.alone().with_heads(2, 1);
    let case = case.with_pairs(queries, keys);
    let inputs = case.inputs::<f32>(6);
    for Named { name, mask } in masks(&case) {
        for level in Level::available() {
            let clean = kernels(level, &case, &inputs, mask.mask());
            for (which, bad) in [(0, 3), (0, keys - 2), (1, 3), (1, keys - 2)] {
                let mut poisoned = inputs.clone();
                let (elements, size) = match which {
                    0 => (&mut poisoned.keys, case.size),
                    _ => (&mut poisoned.values, case.value_size),
                };
                elements[bad * size + 1] = f32::NAN;
                let got = kernels(level, &case, &poisoned, mask.mask());
                let what = format!("{level:?} {name} {which} {bad}");
                for row in 0..2 * queries {
                    let (h, i) = (row / queries, row % queries);
                    let context = row * case.value_size..(row + 1) * case.value_size;
                    let query = row * case.size..(row + 1) * case.size;
                    if mask.attends([0, h, i, bad]) {
                        let nan = |x: &f32| x.is_nan();
                        assert!(got.context[context.start + 1].is_nan(), "{what}: {row}");
                        let is_nan = got.context[context].iter().all(nan);
                        assert_eq!(is_nan, which == 0, "{what}: {row}");
                        assert!(got.queries[query].iter().all(nan), "{what}: {row}");
                    } else {
                        let what = format!("{what}: {row}");
                        assert_same_bits(&what, &got.context, &clean.context, context);
                        assert_same_bits(&what, &got.queries, &clean.queries, query);
                    }
                }
                // A key that shares no query with the bad one keeps its gradients.
                for j in 0..keys {
                    let mut pairs = (0..2 * queries).map(|row| (row / queries, row % queries));
                    let both = |(h, i)| [bad, j].iter().all(|&key| mask.attends([0, h, i, key]));
                    let met = pairs.any(both);
                    let key = j * case.size..(j + 1) * case.size;
                    let value = j * case.value_size..(j + 1) * case.value_size;
                    if met {
                        assert!(got.keys[key].iter().all(|x| x.is_nan()), "{what}: {j}");
                    } else {
                        let what = format!("{what}: {j}");
                        assert_same_bits(&what, &got.keys, &clean.keys, key);
                        assert_same_bits(&what, &got.values, &clean.values, value);
                    }
                }
            }
        }
    }
}

/// A query or an upstream gradient that holds NaN reaches only the keys that the query attends to.
#[test]
fn a_bad_query_reaches_only_the_keys_it_attends_to() {
    bad_query(51);
    bad_query(3);
}

fn bad_query(queries: usize) {
    let keys = 130;
    let case = Case::SMALL.alone().with_pairs(queries, keys);
    let inputs = case.inputs::<f32>(7);
    for Named { name, mask } in masks(&case) {
        for level in Level::available() {
            let clean = kernels(level, &case, &inputs, mask.mask());
            for which in [0, 1] {
                let mut poisoned = inputs.clone();
                let bad = 1;
                match which {
                    0 => poisoned.queries[bad * case.size + 2] = f32::NAN,
                    _ => poisoned.context_gradient[bad * case.value_size + 2] = f32::INFINITY,
                }
                let got = kernels(level, &case, &poisoned, mask.mask());
                let what = format!("{level:?} {name} {which}");
                for j in 0..case.keys {
                    let key = j * case.size..(j + 1) * case.size;
                    let value = j * case.value_size..(j + 1) * case.value_size;
                    if mask.attends([0, 0, bad, j]) {
                        assert!(got.keys[key].iter().all(|x| !x.is_finite()), "{what}: {j}");
                        let values = &got.values[value];
                        assert!(!values[2].is_finite(), "{what}: {j}");
                        assert!(which == 0 || values[0].is_finite(), "{what}: {j}");
                    } else {
                        let what = format!("{what}: {j}");
                        assert_same_bits(&what, &got.keys, &clean.keys, key);
                        assert_same_bits(&what, &got.values, &clean.values, value);
                    }
                }
            }
        }
    }
}

/// The elements `range` have the same bits.
fn assert_same_bits(what: &str, got: &[f32], clean: &[f32], range: Range<usize>) {
    let [got, clean] = [got, clean].map(|of| of[range.clone()].iter().map(|x| x.to_bits()));
    assert!(got.eq(clean), "{what}");
}
