//! Score modifiers of additive attention: each alone and all together.

use attention_kernels::Dropout;
use cpu_kernels::Level;

use super::case::Attention;
use super::masked;
use crate::additive::case::Case;
use crate::modifiers::Modifiers;

/// Few queries, many, heads that share keys, under every mask, with dropout.
#[test]
fn each_alone_and_all_together() {
    // Few elements in many cases: in one of them the composition is exact by chance.
    const OF_GRADIENTS: f64 = 6.0;
    for modifiers in Modifiers::each() {
        for queries in [2, 5] {
            let case = || Case::grouped([2, 6, queries, 17, 5], 2);
            for (name, case) in masked(&case) {
                let mut attention = Attention::new(case, 3).with_modifiers(modifiers);
                let what = format!("{modifiers:?}, {queries} queries, {name}");
                attention.assert_within(OF_GRADIENTS, &what);
                if name == "flags" {
                    attention.dropout = Some(Dropout::new(0.3, 5));
                    attention.assert_within(OF_GRADIENTS, &format!("{what}, dropout"));
                }
            }
        }
    }
}

#[test]
fn sizes_beyond_every_tile() {
    for modifiers in [Modifiers::PAIR_BIAS, Modifiers::ALL] {
        let attention = Attention::new(Case::new([1, 2, 101, 261, 17]), 35);
        let attention = attention.with_modifiers(modifiers);
        attention.assert_precise(&format!("large, {modifiers:?}"));
    }
}

/// Poison in keys, values and biases of masked pairs, and in the gradient of queries that attend to nothing, changes no
/// bit.
#[test]
fn what_is_masked_changes_no_bit() {
    for queries in [2, 9] {
        let case = Case::new([2, 1, queries, 21, 5]).with_intervals([2, 1], |b, _| [0, [0, 18][b]]);
        let clean = Attention::new(case, 3).with_modifiers(Modifiers::ALL);
        let mut poisoned = clean.clone();
        poisoned.case.keys[..21 * 5].fill(f64::NAN);
        poisoned.values[..21 * 3].fill(f64::NAN);
        poisoned.context_gradient[..queries * 3].fill(f64::NAN);
        poisoned.case.keys[(21 + 18) * 5..].fill(f64::INFINITY);
        poisoned.values[(21 + 18) * 3..].fill(f64::NAN);
        let attends = |at| clean.case.mask.attends(at);
        poisoned.modifiers.poison([2, 1, queries, 21], attends);
        for level in Level::available() {
            let [clean, poisoned] = [&clean, &poisoned].map(|of| of.run::<f32>(level, false));
            for ((name, clean), (_, poisoned)) in clean.iter().zip(&poisoned) {
                assert_eq!(clean, poisoned, "{queries} queries, {level:?}: {name}");
            }
        }
    }
}

/// Minus infinity in the biases masks pairs, NaN keys and values and all.
#[test]
fn a_bias_of_minus_infinity_masks_pairs() {
    for queries in [2, 9] {
        let case = Case::new([1, 2, queries, 21, 5]);
        let mut attention = Attention::new(case, 3).with_modifiers(Modifiers::ALL);
        let bias = attention.modifiers.bias.as_mut().unwrap();
        for (at, bias) in bias.elements.iter_mut().enumerate() {
            let (query, key) = (at / 21 % queries, at % 21);
            // A whole query, a whole key, and some pairs.
            if query == 1 || key == 3 || (query + key) % 4 == 1 {
                *bias = f64::NEG_INFINITY;
            }
        }
        let bias = attention.modifiers.relative_bias.as_mut().unwrap();
        // The last key of all queries.
        bias.elements[20..].fill(f64::NEG_INFINITY);
        attention.assert_precise(&format!("{queries} queries"));
        let mut poisoned = attention.clone();
        for row in [3, 20, 21 + 3, 21 + 20] {
            poisoned.case.keys[row * 5..][..5].fill(f64::NAN);
            poisoned.values[row * 3..][..3].fill(f64::INFINITY);
        }
        for level in Level::available() {
            let [clean, poisoned] = [&attention, &poisoned].map(|of| of.run::<f32>(level, false));
            assert!(clean == poisoned, "{queries} queries, {level:?}");
        }
    }
}

/// A sink of minus infinity is none, and a sink alone has no gradient, whatever the gradient of the context holds.
#[test]
fn sinks_that_do_nothing() {
    let case = Case::new([2, 3, 5, 21, 5]).with_intervals([2, 1], |b, _| [0, [0, 18][b]]);
    let mut attention = Attention::new(case, 3).with_modifiers(Modifiers::SINKS);
    attention.context_gradient[..3 * 5 * 3].fill(f64::NAN);
    let with_sinks = attention.clone();
    attention.modifiers.sinks = None;
    let without = attention.clone();
    attention.modifiers.sinks = Some(vec![f64::NEG_INFINITY; 3]);
    for level in Level::available() {
        for (name, elements) in with_sinks.run::<f32>(level, false) {
            assert!(elements.iter().all(|x| x.is_finite()), "{level:?}: {name}");
        }
        let mut found = attention.run::<f32>(level, false);
        let (_, gradient) = found.pop().unwrap();
        assert_eq!(gradient, [0.0; 3]);
        let expected = without.run::<f32>(level, false);
        assert_eq!(found, expected[..found.len()], "{level:?}");
    }
}
