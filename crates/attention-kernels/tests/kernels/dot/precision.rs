//! As precise as plain loops in `f64`, around the edges of all that is cut to size and with scores of any size.

use attention_kernels::{AttentionReal, Dropout, Mask};
use cpu_kernels::Level;

use super::case::{Case, kernels};
use super::oracle::assert_precise;
use crate::modifiers::Modifiers;

fn precise<E: AttentionReal>(case: &Case) {
    let inputs = case.inputs::<E>(1);
    for level in Level::available() {
        let got = kernels(level, case, &inputs, Mask::none());
        let what = format!("{level:?} {case:?}");
        assert_precise(&what, case, &got, &inputs, &|_| true);
    }
}

#[test]
fn unequal_prime_sizes() {
    precise::<f32>(&Case::SMALL);
    precise::<f64>(&Case::SMALL);
}

#[test]
fn above_every_tile() {
    precise::<f32>(&Case::LARGE);
    precise::<f64>(&Case::LARGE);
}

#[test]
fn around_the_edges_of_tiles_panels_and_blocks() {
    for keys in [15, 16, 17, 63, 64, 65, 127, 128, 129, 257] {
        for queries in [1, 5, 6, 7, 47, 48, 49] {
            let case = Case::SMALL.alone().with_pairs(queries, keys);
            precise::<f32>(&case);
        }
    }
    // Several tasks forward, several chunks backward.
    for (queries, keys) in [(193, 513), (3, 769)] {
        let case = Case::SMALL.alone().with_pairs(queries, keys);
        precise::<f32>(&case);
        precise::<f64>(&case);
    }
}

#[test]
fn sizes_of_rows_around_vectors_and_register_blocks() {
    for size in [1, 2, 8, 15, 16, 17, 64, 65, 80] {
        for value_size in [1, 3, 16, 31, 48, 64, 80, 96] {
            let case = Case::SMALL.with_heads(1, 1).with_pairs(9, 37);
            precise::<f32>(&case.with_sizes(size, value_size));
        }
    }
}

#[test]
fn heads_that_share_keys() {
    for (heads, key_heads) in [(6, 2), (6, 1), (6, 3)] {
        let case = Case::SMALL.with_heads(heads, key_heads);
        let case = case.with_modifiers(Modifiers::bias([true, true, false]));
        precise::<f32>(&case);
        precise::<f64>(&case);
    }
}

#[test]
fn a_bias_of_each_head_or_of_all() {
    for of_heads in [false, true] {
        let modifiers = Modifiers::bias([true, of_heads, false]);
        precise::<f32>(&Case::SMALL.with_modifiers(modifiers));
        precise::<f64>(&Case::SMALL.with_pairs(50, 131).with_modifiers(modifiers));
    }
}

#[test]
fn very_large_and_very_negative_logits() {
    for spread in [0.0, -1.0, 1e-3, 30.0, 1e3] {
        // So many queries that a few have two keys nearly tied, where the rounding of a score matters.
        let case = Case::SMALL.with_pairs(301, 139).with_spread(spread);
        precise::<f32>(&case);
        precise::<f64>(&case);
    }
    // Here rounding alone decides ties: what remains to ask for is a weighted mean of values.
    for spread in [1e5, 1e30] {
        let case = Case::SMALL.with_spread(spread);
        let inputs = case.inputs::<f32>(1);
        for level in Level::available() {
            let got = kernels(level, &case, &inputs, Mask::none());
            got.assert_finite(false);
            let values = inputs.values.iter();
            let most = 1.000_001 * values.fold(0.0_f32, |most, x| most.max(x.abs()));
            assert!(got.context.iter().all(|x| x.abs() <= most), "{level:?}");
        }
    }
    // All scores of a row are about the same, far from 0: what fills the last vector must not count.
    for shift in [-3e4, -100.0, 100.0, 3e4] {
        let case = Case::SMALL.with_modifiers(Modifiers::KEY_BIAS);
        let mut inputs = case.inputs::<f32>(2);
        inputs.modifiers.bias.as_mut().unwrap().elements.fill(shift);
        for level in Level::available() {
            let got = kernels(level, &case, &inputs, Mask::none());
            let what = format!("{level:?} {shift}");
            assert_precise(&what, &case, &got, &inputs, &|_| true);
        }
    }
}

#[test]
fn dropped_weights() {
    for probability in [0.0, 0.3, 0.9, 1.0] {
        let dropout = Some(Dropout::new(probability, 11));
        let biased = Case::SMALL.with_modifiers(Modifiers::KEY_BIAS);
        precise::<f32>(&biased.with_dropout(dropout));
        precise::<f64>(&Case::SMALL.with_pairs(50, 150).with_dropout(dropout));
    }
}

/// Products that only the scale keeps in range must not overflow before it. All are powers of two: no bit may change.
#[test]
fn products_above_the_largest_number_are_scaled_before() {
    let power = 63_f64.exp2();
    for queries in [1, 70] {
        let case = Case::SMALL.with_queries(queries).with_spread(6.0);
        let scaled = case.with_spread(case.spread / power / power);
        let inputs = case.inputs::<f32>(11);
        let mut large = inputs.clone();
        for x in large.queries.iter_mut().chain(&mut large.keys) {
            *x *= power as f32;
        }
        for level in Level::available() {
            let expected = kernels(level, &case, &inputs, Mask::none());
            let mut found = kernels(level, &scaled, &large, Mask::none());
            for x in found.queries.iter_mut().chain(&mut found.keys) {
                *x *= power as f32;
            }
            assert!(found == expected, "{level:?}, {queries} queries");
        }
    }
}

/// The weights of a query, as the backward pass computes them again, add up to 1 to rounding however large its scores
/// are, up to the ends of the type's range: the two terms of their log-sum-exp are kept apart.
#[test]
fn weights_computed_again_add_up_to_one() {
    for shift in [701.3, -3e4, 3e38, -3e38, f64::from(f32::MIN)] {
        weights_add_up_to_one::<f32>(shift, 2e-6);
    }
    for shift in [701.3, 1e17, 1e300, -1e300, f64::MIN] {
        weights_add_up_to_one::<f64>(shift, 4e-15);
    }
}

/// The same of scores that are all near `shift`, or, where that is large, all equal to it.
fn weights_add_up_to_one<E: AttentionReal>(shift: f64, tolerance: f64) {
    for queries in [1, 5, 61] {
        let case = Case::SMALL.alone().with_queries(queries);
        let case = case.with_modifiers(Modifiers::KEY_BIAS);
        let mut inputs = case.inputs::<E>(1);
        let bias = inputs.modifiers.bias.as_mut().unwrap();
        bias.elements.fill(E::from_f64(shift));
        let columns = |elements: &[E]| {
            let mut sums = vec![0.0; case.value_size];
            for row in elements.chunks(case.value_size) {
                for (sum, x) in sums.iter_mut().zip(row) {
                    *sum += x.to_f64();
                }
            }
            sums
        };
        let received = inputs.context_gradient.iter();
        let magnitude: f64 = received.map(|x| x.to_f64().abs()).sum();
        let expected = columns(&inputs.context_gradient);
        for level in Level::available() {
            let got = columns(&kernels(level, &case, &inputs, Mask::none()).values);
            for (got, expected) in got.iter().zip(&expected) {
                let error = (got - expected).abs() / (magnitude / case.value_size as f64);
                let what = format!("{level:?}, {queries} queries, {shift:e}");
                assert!(error < tolerance, "{what}: {error:e}");
            }
        }
    }
}
