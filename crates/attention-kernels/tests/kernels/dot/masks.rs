//! Masked keys and queries without keys do nothing to the context and its gradients.

use attention_kernels::{AttentionReal, Dropout, Mask};
use cpu_kernels::Level;

use super::case::{Case, Inputs, kernels};
use super::masked_cases::{Named, cases, masks};
use super::oracle::assert_precise;
use crate::modifiers::Modifiers;

fn masked<E: AttentionReal>() {
    for case in cases() {
        let inputs = case.inputs::<E>(3);
        for Named { name, mask } in masks(&case) {
            for level in Level::available() {
                let got = kernels(level, &case, &inputs, mask.mask());
                let what = format!("{level:?} {name} {case:?}");
                got.assert_finite(true);
                assert_precise(&what, &case, &got, &inputs, &|at| mask.attends(at));
            }
        }
    }
}

#[test]
fn masks_agree_with_plain_loops() {
    masked::<f32>();
    masked::<f64>();
}

/// Keys and biases that no query attends to, and queries that attend to no key, hold NaN and infinities.
pub(crate) fn poison<E: AttentionReal>(
    case: &Case,
    attends: &dyn Fn([usize; 4]) -> bool,
    inputs: &Inputs<E>,
) -> Inputs<E> {
    let [batch, heads, queries, keys] = case.pairs();
    let (key_heads, size, value_size) = (case.key_heads, case.size, case.value_size);
    let mut poisoned = inputs.clone();
    let nan = E::from_f64(f64::NAN);
    let poisons = [nan, E::INFINITY, -E::INFINITY];
    let fill = |elements: &mut [E], size: usize, row: usize, first: usize| {
        let poisons = poisons.iter().cycle().skip(first % 3);
        elements[row * size..][..size]
            .iter_mut()
            .zip(poisons)
            .for_each(|(x, poison)| *x = *poison);
    };
    for row in 0..batch * key_heads * keys {
        let (b, kh, j) = (row / keys / key_heads, row / keys % key_heads, row % keys);
        let members = (0..heads).filter(|h| h * key_heads / heads == kh);
        let mut pairs = members.flat_map(|h| (0..queries).map(move |i| (h, i)));
        if !pairs.any(|(h, i)| attends([b, h, i, j])) {
            fill(&mut poisoned.keys, size, row, j);
            fill(&mut poisoned.values, value_size, row, j + 1);
        }
    }
    for row in 0..batch * heads * queries {
        let (b, h, i) = (row / queries / heads, row / queries % heads, row % queries);
        if !(0..keys).any(|j| attends([b, h, i, j])) {
            fill(&mut poisoned.queries, size, row, i);
            fill(&mut poisoned.context_gradient, value_size, row, i);
        }
    }
    poisoned.modifiers.poison(case.pairs(), attends);
    poisoned
}

#[test]
fn what_is_masked_changes_no_bit() {
    for case in cases() {
        for dropout in [None, Some(Dropout::new(0.2, 1))] {
            let case = Case { dropout, ..case };
            let inputs = case.inputs::<f32>(4);
            for Named { name, mask } in masks(&case) {
                let poisoned = poison(&case, &|at| mask.attends(at), &inputs);
                for level in Level::available() {
                    let clean = kernels(level, &case, &inputs, mask.mask());
                    let got = kernels(level, &case, &poisoned, mask.mask());
                    let what = format!("{level:?} {name} {case:?}");
                    let outcomes = got.outcome().into_iter().zip(clean.outcome());
                    for ((name, got), (_, clean)) in outcomes {
                        let [got, clean] = [got, clean].map(|of| of.into_iter().map(f64::to_bits));
                        assert!(got.eq(clean), "{what}: {name}");
                    }
                }
            }
        }
    }
}

/// Minus infinity as the bias of a key masks it, NaN values and all.
#[test]
fn a_bias_of_minus_infinity_masks_a_key() {
    let case = Case::SMALL.with_modifiers(Modifiers::KEY_BIAS);
    let case = case.with_pairs(50, 140);
    let [batch, _, _, keys] = case.pairs();
    let mut inputs = case.inputs::<f32>(8);
    let masked = |j: usize| j % 3 == 1 || j < keys / 2;
    let bias = inputs.modifiers.bias.as_mut().unwrap();
    for at in (0..batch * keys).filter(|at| masked(at % keys)) {
        bias.elements[at] = f32::NEG_INFINITY;
    }
    let mut poisoned = inputs.clone();
    for row in (0..batch * case.key_heads * keys).filter(|row| masked(row % keys)) {
        poisoned.keys[row * case.size] = f32::NAN;
        poisoned.values[row * case.value_size] = f32::INFINITY;
    }
    for level in Level::available() {
        let clean = kernels(level, &case, &inputs, Mask::none());
        clean.assert_finite(false);
        let what = format!("{level:?}");
        let mut finite = inputs.clone();
        finite.modifiers = finite.modifiers.map(|bias| bias.max(-1e30));
        assert_precise(&what, &case, &clean, &finite, &|[_, _, _, j]| !masked(j));
        let found = kernels(level, &case, &poisoned, Mask::none());
        assert_eq!(found.bits(), clean.bits(), "{what}");
    }
    // All keys are masked.
    inputs.modifiers = inputs.modifiers.map(|_| f32::NEG_INFINITY);
    for level in Level::available() {
        let got = kernels(level, &case, &inputs, Mask::none());
        for (name, elements) in got.outcome() {
            let expected = match name {
                "log-sum-exp" => f64::NEG_INFINITY,
                _ => 0.0,
            };
            assert!(elements.iter().all(|&x| x == expected), "{level:?}: {name}");
        }
    }
}
