//! Elements and weights of any magnitude.

use cpu_kernels::Level;

use super::case::Case;
use super::oracle::{Solution, assert_precise};

/// To the nearest `f32`.
fn round(elements: &mut [f64]) {
    elements.iter_mut().for_each(|x| *x = f64::from(*x as f32));
}

/// Hidden units far outside of where the exponentials are finite, with equal and with opposite signs, beside
/// ordinary ones.
#[test]
fn units_of_any_size() {
    let of_f32 = [7.4, 7.5, 7.6, 11.4, 11.6, 21.4, 21.6, 45.0];
    let of_f64 = [129.0, 131.0, 149.0, 151.0, 360.0];
    for magnitude in of_f32.into_iter().chain(of_f64).chain([1e4, 1e30]) {
        let mut case = Case::new([2, 1, 9, 35, 13]);
        for query in [1, 6, 7] {
            case.queries[query * 13 + 4] = magnitude;
            case.queries[query * 13 + 5] = -magnitude;
        }
        for key in [0, 20, 34] {
            case.keys[key * 13 + 4] = -magnitude;
            case.keys[key * 13 + 5] = -magnitude * 0.5;
            case.keys[key * 13 + 12] = magnitude;
        }
        // Sums of large numbers round to `f32` before their tanh, in the plain loops too.
        round(&mut case.queries);
        round(&mut case.keys);
        assert_precise(&format!("{magnitude}"), &case);
    }
}

/// Which path a tile takes for the sake of one element changes no bit of what has no part in it.
#[test]
fn an_element_far_out_leaves_the_others_alone() {
    let [queries, keys, units] = [9, 35, 13];
    let case = Case::new([1, 1, queries, keys, units]);
    for level in Level::available() {
        let plain = case.run::<f32>(level);
        for magnitude in [8.0, 15.0, 30.0, 1e4, f64::INFINITY, f64::NAN] {
            let assert_same = |found: &Solution, but: &dyn Fn(usize, usize) -> bool| {
                for (at, (found, plain)) in found.scores.iter().zip(&plain.scores).enumerate() {
                    let (query, key) = (at / keys, at % keys);
                    let holds = but(query, key) || found == plain;
                    assert!(holds, "{level:?}, {magnitude}: {query}, {key}");
                }
            };
            let mut changed = case.clone();
            changed.queries[4 * units + 6] = magnitude;
            let found = changed.run::<f32>(level);
            assert_same(&found, &|query, _| query == 4);
            for query in (0..queries).filter(|query| *query != 4) {
                let row = query * units..(query + 1) * units;
                let [found, plain] = [&found, &plain].map(|s| &s.queries[row.clone()]);
                assert_eq!(found, plain, "{level:?}, {magnitude}: {query}");
            }
            changed.keys[20 * units + 6] = -magnitude;
            let found = changed.run::<f32>(level);
            assert_same(&found, &|query, key| query == 4 || key == 20);
        }
    }
}

#[test]
fn infinities_saturate_and_their_difference_is_not_a_number() {
    let mut case = Case::new([1, 1, 2, 3, 1]);
    case.queries = vec![f64::INFINITY, f64::NEG_INFINITY];
    case.keys = vec![0.5, f64::INFINITY, f64::NEG_INFINITY];
    case.weight = vec![0.75];
    for level in Level::available() {
        let scores = case.run::<f32>(level).scores;
        assert_eq!(scores[..2], [0.75, 0.75], "{level:?}");
        let is_nan = scores[2].is_nan() && scores[4].is_nan();
        assert!(is_nan, "{level:?}: {scores:?}");
        assert_eq!([scores[3], scores[5]], [-0.75, -0.75], "{level:?}");
    }
}

#[test]
fn saturated_units_pass_no_gradient() {
    for magnitude in [19.0, 30.0, 1e4] {
        let mut case = Case::new([1, 1, 5, 20, 7]);
        for (at, query) in case.queries.iter_mut().enumerate() {
            *query = if at % 2 == 0 { magnitude } else { -magnitude };
        }
        for level in Level::available() {
            let solution = case.run::<f32>(level);
            for gradient in solution.queries.iter().chain(&solution.keys) {
                assert_eq!(*gradient, 0.0, "{level:?}, {magnitude}");
            }
        }
    }
}

/// Weights of every size: zero, far below the largest, and none but zero.
#[test]
fn weights_of_any_size() {
    let mut case = Case::new([1, 2, 7, 19, 9]);
    case.weight[..6].copy_from_slice(&[0.0, 1e-3, 1e-5, 1e-9, 1e-30, -1e-7]);
    round(&mut case.weight);
    assert_precise("small", &case);
    let mut large = case.clone();
    large.weight.iter_mut().for_each(|w| *w *= 1e20);
    round(&mut large.weight);
    assert_precise("large", &large);
    let mut largest = case.clone();
    largest.weight[4] = f64::from(0.55 * f32::MAX);
    largest.weight[7] = f64::from(-0.4 * f32::MAX);
    largest.gradient.iter_mut().for_each(|x| *x *= 1e-3);
    assert_precise("largest", &largest);
    case.weight.fill(0.0);
    for level in Level::available() {
        let solution = case.run::<f32>(level);
        assert!(solution.scores.iter().all(|x| *x == 0.0), "{level:?}");
        assert!(solution.queries.iter().all(|x| *x == 0.0), "{level:?}");
    }
}

#[test]
fn a_nan_in_a_key_reaches_its_scores_and_gradients() {
    let mut case = Case::new([1, 1, 3, 20, 5]);
    case.keys[17 * 5 + 3] = f64::NAN;
    for level in Level::available() {
        let solution = case.run::<f32>(level);
        for (at, score) in solution.scores.iter().enumerate() {
            assert_eq!(score.is_nan(), at % 20 == 17, "{level:?}: {at}");
        }
        let is_nan = solution.weight[3].is_nan() && solution.queries[3].is_nan();
        assert!(is_nan, "{level:?}");
        assert!(solution.weight[2].is_finite(), "{level:?}");
    }
}
