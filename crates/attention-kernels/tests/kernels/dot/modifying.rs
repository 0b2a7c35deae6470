//! Score modifiers: each alone and all together, as precise as plain loops, and what they mask.

use attention_kernels::{AttentionReal, Dropout, Mask};
use cpu_kernels::Level;

use super::case::{Case, Inputs, kernels};
use super::masks::poison;
use super::oracle::assert_precise;
use crate::modifiers::Modifiers;
use crate::owned_mask::OwnedMask;

fn precise_with<E: AttentionReal>(case: &Case, inputs: &Inputs<E>, mask: &OwnedMask) {
    for level in Level::available() {
        let got = kernels(level, case, inputs, mask.mask());
        let what = format!("{level:?} {case:?} {mask:?}");
        assert_precise(&what, case, &got, inputs, &|at| mask.attends(at));
    }
}

fn precise<E: AttentionReal>(case: &Case, mask: &OwnedMask) {
    precise_with(case, &case.inputs::<E>(1), mask);
}

/// One interval of keys for each query; none for some.
fn windows(case: &Case) -> OwnedMask {
    let bounds = (0..case.queries).map(|i| match i % 5 {
        3 => [2, 1],
        _ => [i / 3, i + case.keys / 2],
    });
    OwnedMask::of_intervals(bounds.collect(), [1, case.queries])
}

/// Sizes of decoding and others, heads that share keys, with a mask and dropout and without.
#[test]
fn each_alone_and_all_together() {
    let grouped = Case::SMALL.with_heads(6, 2);
    for case in [Case::SMALL, grouped] {
        for queries in [2, 5] {
            for modifiers in Modifiers::each() {
                let case = case.with_queries(queries).with_modifiers(modifiers);
                let dropped = case.with_dropout(Some(Dropout::new(0.3, 5)));
                precise::<f32>(&case, &OwnedMask::default());
                precise::<f32>(&dropped, &windows(&case));
                precise::<f64>(&case, &OwnedMask::default());
                precise::<f64>(&dropped, &windows(&case));
            }
        }
    }
}

#[test]
fn above_every_tile() {
    let biases = [Modifiers::PAIR_BIAS, Modifiers::RELATIVE_BIAS];
    let others = [Modifiers::SOFT_CAP, Modifiers::SINKS, Modifiers::ALL];
    for modifiers in others.into_iter().chain(biases) {
        let case = Case::LARGE.with_modifiers(modifiers);
        precise::<f32>(&case, &OwnedMask::default());
    }
    let case = Case::LARGE.with_modifiers(Modifiers::ALL);
    precise::<f64>(&case, &windows(&case));
    // Several tasks forward, several chunks backward.
    for (queries, keys) in [(193, 513), (2, 769)] {
        let dropout = Some(Dropout::new(0.3, 5));
        let case = case.with_pairs(queries, keys).with_dropout(dropout);
        precise::<f32>(&case, &windows(&case));
        precise::<f64>(&case, &OwnedMask::default());
    }
}

/// The share of keys beside a sink far above them is not rounded away.
#[test]
fn sinks_far_from_the_scores() {
    for queries in [2, 5] {
        for sink in [-60.0, -20.0, 20.0] {
            let case = Case::SMALL.with_queries(queries);
            let case = case.with_modifiers(Modifiers::SINKS);
            let mut inputs = case.inputs::<f32>(2);
            inputs.modifiers.sinks.as_mut().unwrap().fill(sink);
            precise_with(&case, &inputs, &OwnedMask::default());
        }
    }
}

#[test]
fn sinks_beside_very_large_scores() {
    for queries in [2, 5] {
        for shift in [-1e5_f32, 1e5] {
            // By a bias, and by products of the first elements.
            let mut modifiers = Modifiers::SINKS;
            for is_biased in [true, false] {
                modifiers.bias = is_biased.then_some([true, false, false]);
                let case = Case::SMALL.with_queries(queries).with_modifiers(modifiers);
                let mut inputs = case.inputs::<f32>(3);
                if let Some(bias) = &mut inputs.modifiers.bias {
                    bias.elements.fill(shift);
                } else {
                    let first = shift / case.scale() as f32;
                    (inputs.queries.iter_mut().step_by(case.size)).for_each(|x| *x = first);
                    (inputs.keys.iter_mut().step_by(case.size)).for_each(|x| *x = 1.0);
                }
                let sinks = inputs.modifiers.sinks.as_mut().unwrap();
                sinks.iter_mut().for_each(|sink| *sink += shift);
                precise_with(&case, &inputs, &OwnedMask::default());
            }
        }
    }
}

#[test]
fn a_sink_of_minus_infinity_is_no_sink() {
    for queries in [2, 50] {
        for modifiers in [Modifiers::SINKS, Modifiers::ALL] {
            let case = Case::SMALL.with_queries(queries).with_modifiers(modifiers);
            let mut inputs = case.inputs::<f32>(4);
            let mut without = inputs.clone();
            without.modifiers.sinks = None;
            let sinks = inputs.modifiers.sinks.as_mut().unwrap();
            sinks.fill(f32::NEG_INFINITY);
            for level in Level::available() {
                let mut got = kernels(level, &case, &inputs, Mask::none());
                let gradient = got.modifiers.sinks.take().unwrap();
                assert!(gradient.iter().all(|x| *x == 0.0), "{level:?}");
                let expected = kernels(level, &case, &without, Mask::none());
                assert!(got == expected, "{level:?}: {case:?}");
            }
        }
    }
}

/// Where a query attends to no key, its sink alone takes part: all is 0, whatever the gradient of the context holds.
#[test]
fn a_sink_alone_has_no_gradient() {
    for queries in [2, 50] {
        let case = Case::SMALL.with_queries(queries);
        let case = case.with_modifiers(Modifiers::ALL);
        let mut inputs = case.inputs::<f32>(5);
        inputs.context_gradient.fill(f32::NAN);
        let mask = Mask::none().with_keep(&[false], [1; 4]);
        for level in Level::available() {
            let got = kernels(level, &case, &inputs, mask);
            let sinks = inputs.modifiers.sinks.as_ref().unwrap();
            for (name, elements) in got.outcome() {
                for (at, &x) in elements.iter().enumerate() {
                    if name == "log-sum-exp" {
                        let sink = f64::from(sinks[at / queries % case.heads]);
                        assert!((x - sink).abs() < 1e-6, "{level:?}: {x}, not {sink}");
                    } else {
                        assert!(x == 0.0, "{level:?}: {name} {at}: {x}");
                    }
                }
            }
        }
    }
}

/// Minus infinity in a bias of pairs or of distances masks these pairs, NaN values and all.
#[test]
fn a_bias_of_minus_infinity_masks_pairs() {
    for queries in [2, 50] {
        let case = Case::SMALL.with_pairs(queries, 140);
        masked_by_bias(&case.with_modifiers(Modifiers::PAIR_BIAS));
        masked_by_bias(&case.with_modifiers(Modifiers::RELATIVE_BIAS));
        masked_by_bias(&case.with_modifiers(Modifiers::ALL));
    }
}

fn masked_by_bias(case: &Case) {
    let &Case { queries, keys, .. } = case;
    let mut inputs = case.inputs::<f32>(6);
    if let Some(bias) = &mut inputs.modifiers.bias {
        for at in 0..bias.elements.len() {
            let (query, key) = (at / keys % queries, at % keys);
            // A whole query, a whole key, and some pairs.
            if query == 1 || key == 3 || (query + key) % 4 == 1 {
                bias.elements[at] = f32::NEG_INFINITY;
            }
        }
    }
    if let Some(bias) = &mut inputs.modifiers.relative_bias {
        let [.., distances] = bias.shape;
        for at in 0..bias.elements.len() {
            // The last key of all queries, and some pairs.
            if at % distances >= keys - 1 || at % 5 == 2 {
                bias.elements[at] = f32::NEG_INFINITY;
            }
        }
    }
    let modifiers = &mut inputs.modifiers;
    if let (Some(bias), Some(relative)) = (&mut modifiers.bias, &modifiers.relative_bias) {
        // NaN in one of them, where the other masks for every head and example.
        let position = relative.position([0, 0, 0, queries - 1 + keys - 1]);
        assert_eq!(relative.elements[position], f32::NEG_INFINITY);
        for head in 0..bias.shape[1] {
            let position = bias.position([0, head, 0, keys - 1]);
            bias.elements[position] = f32::NAN;
        }
    }
    let modifiers = inputs.modifiers.clone();
    let attends = |at| !modifiers.masks(queries, at);
    let mut poisoned = poison(case, &attends, &inputs);
    poisoned.modifiers = inputs.modifiers.clone();
    for level in Level::available() {
        let clean = kernels(level, case, &inputs, Mask::none());
        let what = format!("{level:?} {case:?}");
        assert_precise(&what, case, &clean, &inputs, &|_| true);
        let got = kernels(level, case, &poisoned, Mask::none());
        assert!(got.bits() == clean.bits(), "{what}");
    }
}
