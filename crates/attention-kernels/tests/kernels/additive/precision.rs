//! As precise as plain loops, around the edges of all tiles.

use super::case::Case;
use super::oracle::assert_precise;

#[test]
fn prime_sizes() {
    assert_precise("prime", &Case::new([2, 3, 5, 7, 11]));
}

#[test]
fn every_axis_of_size_one() {
    for axis in 0..5 {
        let mut sizes = [2, 3, 5, 7, 11];
        sizes[axis] = 1;
        assert_precise(&format!("{sizes:?}"), &Case::new(sizes));
    }
}

#[test]
fn every_axis_of_size_zero() {
    for axis in 0..5 {
        let mut sizes = [2, 3, 5, 7, 11];
        sizes[axis] = 0;
        let case = Case::new(sizes);
        let found = case.run::<f32>(cpu_kernels::Level::current());
        assert_eq!(found, case.solve::<f32>());
    }
}

/// Exactly a tile, one less and one more: of queries (4 and 32), of keys (16) and of units (2, 16 and 32).
#[test]
fn around_every_tile() {
    let around = |size: usize| [size - 1, size, size + 1];
    for queries in [around(4), around(32)].concat() {
        let case = Case::new([1, 2, queries, 7, 11]);
        assert_precise(&format!("{queries} queries"), &case);
    }
    for keys in [around(16), around(32)].concat() {
        assert_precise(&format!("{keys} keys"), &Case::new([1, 2, 5, keys, 11]));
    }
    let units = [around(16), around(32), around(64)].concat();
    for units in [2, 3].into_iter().chain(units) {
        assert_precise(&format!("{units} units"), &Case::new([1, 2, 5, 7, units]));
    }
}

/// Two, three and all heads of a key head, and so few key heads that their keys are cut into parts.
#[test]
fn heads_that_share_keys() {
    for (heads, key_heads) in [(6, 3), (6, 2), (6, 1), (2, 1)] {
        for [batch, queries, keys] in [[2, 1, 7], [2, 5, 37], [1, 13, 130]] {
            let sizes = [batch, heads, queries, keys, 19];
            let what = format!("{sizes:?}, {key_heads} key heads");
            assert_precise(&what, &Case::grouped(sizes, key_heads));
        }
    }
}

/// Few heads and many keys: the gradients of the queries are made of parts.
#[test]
fn one_head_of_many_keys() {
    assert_precise("one head", &Case::new([1, 1, 37, 333, 19]));
}

/// The terms of the sum have one sign, the scores are near 0: the worst case for a sum of `w r`.
#[test]
fn weights_of_one_sign() {
    let mut case = Case::new([1, 2, 9, 17, 256]);
    case.weight.iter_mut().for_each(|w| *w = w.abs() + 0.1);
    assert_precise("one sign", &case);
}
