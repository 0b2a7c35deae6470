//! `check_term` tells which part of a term is wrong.

use attention_core::score::{PairwiseFormula, PairwiseTerm, Real, Simd, check_term};
use attention_tests::{assert_says, panic_message};
use burn::tensor::{Device, Tensor};

use crate::pairwise::{Distance, LeakyRelu, SquaredDistance};

/// Each part of a term may be wrong.
#[derive(Debug)]
struct Planted<const WRONG: usize>;

impl<const WRONG: usize> PairwiseTerm for Planted<WRONG> {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        let product = simd.mul(query, key);
        match WRONG {
            1 => simd.add(product, query),
            _ => product,
        }
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        match WRONG {
            2 => [query, query],
            3 => [key, simd.neg(query)],
            _ => [key, query],
        }
    }
}

impl<const WRONG: usize> PairwiseFormula for Planted<WRONG> {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        match WRONG {
            4 => queries * keys * 1.01,
            _ => queries * keys,
        }
    }
}

/// `q^0.5 k`, which is NaN of half of the numbers tried, with a right derivative by the key and perhaps a wrong one by
/// the query.
#[derive(Debug)]
struct Root<const WRONG: bool>;

impl<const WRONG: bool> PairwiseTerm for Root<WRONG> {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        simd.mul(simd.sqrt(query), key)
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> [S::V; 2] {
        let root = simd.sqrt(query);
        let half = simd.mul(simd.splat(E::from_f64(if WRONG { 0.7 } else { 0.5 })), key);
        [simd.div(half, root), root]
    }
}

impl<const WRONG: bool> PairwiseFormula for Root<WRONG> {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        queries.sqrt() * keys
    }
}

#[test]
fn a_term_may_have_no_value_somewhere() {
    let device = Device::flex();
    assert_eq!(check_term(&Root::<false>, &device), Ok(()));
    let error = check_term(&Root::<true>, &device).unwrap_err();
    assert_eq!(error.part, "derivative by the query", "{error}");
}

/// A square, with a value or a definition that is no number somewhere.
#[derive(Debug)]
enum Square {
    /// Beyond 100 the value is infinite.
    Overflows,
    /// The definition is NaN below -100.
    Undefined,
    /// Both are infinite beyond 100.
    Ends,
    /// Both are infinite beyond 100, with other signs.
    Turns,
    /// The definition sums over the units.
    Sums,
}

impl PairwiseTerm for Square {
    #[inline(always)]
    fn value<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, key: S::V) -> S::V {
        let square = simd.mul(query, query);
        let value = simd.add(square, key);
        if matches!(self, Self::Overflows | Self::Ends | Self::Turns) {
            let is_far = simd.less(simd.splat(E::from_f64(100.0)), query);
            return simd.select(is_far, simd.splat(E::INFINITY), value);
        }
        value
    }

    #[inline(always)]
    fn derivatives<E: Real, S: Simd<E>>(&self, simd: S, query: S::V, _key: S::V) -> [S::V; 2] {
        [simd.add(query, query), simd.splat(E::ONE)]
    }
}

impl PairwiseFormula for Square {
    fn compose(&self, queries: Tensor<5>, keys: Tensor<5>) -> Tensor<5> {
        let square = queries.clone() * queries.clone();
        let (low, high) = (queries.clone().lower_elem(-100), queries.greater_elem(100));
        let square = match self {
            Self::Undefined => square.mask_fill(low, f64::NAN),
            Self::Ends => square.mask_fill(high, f64::INFINITY),
            Self::Turns => square.mask_fill(high, f64::NEG_INFINITY),
            _ => square,
        };
        match self {
            Self::Sums => (square + keys).sum_dim(2),
            _ => square + keys,
        }
    }
}

#[test]
fn what_is_no_number_is_compared() {
    let device = Device::flex();
    assert_eq!(check_term(&Square::Ends, &device), Ok(()));
    for (term, expected, found) in [
        (Square::Overflows, 9e4, f64::INFINITY),
        (Square::Undefined, f64::NAN, 9e4),
        (Square::Turns, f64::NEG_INFINITY, f64::INFINITY),
    ] {
        let error = check_term(&term, &device).unwrap_err();
        assert_eq!(error.part, "value", "{error}");
        let is_close = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() < 400.0;
        let is_right = is_close(error.expected, expected) && is_close(error.found, found);
        assert!(is_right, "{error}");
    }
    let message = panic_message(|| check_term(&Square::Sums, &device));
    assert_says(&message, "check_term: definition expected [1, 1, ");
}

#[test]
fn a_wrong_part_of_a_term_is_named() {
    let device = Device::flex();
    let right: [&dyn PairwiseFormula; 4] = [&Distance, &LeakyRelu, &SquaredDistance, &Planted::<0>];
    for term in right {
        assert_eq!(check_term(term, &device), Ok(()), "{term:?}");
    }
    let wrong: [(&dyn PairwiseFormula, &str); 4] = [
        (&Planted::<1>, "value"),
        (&Planted::<2>, "derivative by the query"),
        (&Planted::<3>, "derivative by the key"),
        (&Planted::<4>, "definition"),
    ];
    for (term, part) in wrong {
        let error = check_term(term, &device).unwrap_err();
        assert_eq!(error.part, part, "{error}");
        let ([query, key], expected, found) = (error.at, error.expected, error.found);
        let place = format!("{part} at query {query} and key {key}");
        let text = format!("{place}: expected {expected}, got {found}");
        assert_eq!(error.to_string(), text);
    }
}
