//! Context and gradients of additive attention, decoding and with many queries.

mod case;
mod modifying;
mod run;

use attention_kernels::Dropout;
use cpu_kernels::Level;

use crate::additive::case::Case;
use crate::modifiers::{Bias, Modifiers};
use crate::oracle::assert_precise;
use case::Attention;

impl Attention {
    /// The precision policy, for every level and both types.
    fn assert_precise(&self, what: &str) {
        self.assert_within(3.0, what);
    }

    /// The same, with gradients that err at most `of_gradients` times as much as the composition's.
    fn assert_within(&self, of_gradients: f64, what: &str) {
        let (exact, plain) = (self.solve::<f64>(), self.solve::<f32>());
        for level in Level::available() {
            for packed in [false, true] {
                let single = self.run::<f32>(level, packed);
                let double = self.run::<f64>(level, packed);
                let all = [&exact, &plain, &single, &double];
                for (index, (name, _)) in exact.iter().enumerate() {
                    let factor = if index < 2 { 2.0 } else { of_gradients };
                    let what = format!("{what}: {level:?}: {name}");
                    let elements = all.map(|outcome| &outcome[index].1[..]);
                    assert_precise(&what, elements, factor, 2e-14);
                }
            }
        }
    }
}

/// Every kind of mask.
fn masked(new: &dyn Fn() -> Case) -> Vec<(&'static str, Case)> {
    let [batch, heads, queries, keys, _] = new().sizes;
    let of_examples =
        |f: fn(usize, usize) -> [usize; 2]| new().with_intervals([batch, 1], |b, _| f(b, keys));
    let causal = |_, q: usize| [0, (q + keys + 1).saturating_sub(queries)];
    let flags = |[b, h, q, k]: [usize; 4]| (b + 2 * h + 3 * q + 5 * k) % 4 != 0;
    let nothing = "an example that attends to nothing";
    vec![
        ("no mask", new()),
        (
            "lengths",
            of_examples(|b, keys| [0, [keys / 3, keys - 1][b]]),
        ),
        (nothing, of_examples(|b, keys| [0, [0, keys][b]])),
        ("causal", new().with_intervals([1, queries], causal)),
        (
            "the first keys masked",
            of_examples(|b, keys| [keys / 2 + b, keys]),
        ),
        (
            "flags",
            new().with_keep([batch, heads, queries, keys], flags),
        ),
    ]
}

#[test]
fn decoding_and_many_queries_under_every_mask() {
    for queries in [1, 2, 4, 5, 23] {
        for (name, case) in masked(&|| Case::new([2, 3, queries, 37, 11])) {
            Attention::new(case, 13).assert_precise(&format!("{queries} queries, {name}"));
        }
    }
}

/// Two, three and all heads of a key head, decoding and with many queries, under every mask.
#[test]
fn heads_that_share_keys() {
    for (heads, key_heads) in [(6, 3), (6, 2), (3, 1)] {
        for queries in [1, 3, 5, 19] {
            for (name, case) in masked(&|| Case::grouped([2, heads, queries, 37, 11], key_heads)) {
                let mut attention = Attention::new(case, 13);
                let what = format!("{heads} by {key_heads} heads, {queries} queries, {name}");
                attention.assert_precise(&what);
                attention.dropout = Some(Dropout::new(0.3, 5));
                attention.assert_precise(&format!("{what}, dropout"));
            }
        }
    }
}

/// Heads that share a key head attend to it as heads that have copies of it: context and log-sum-exp to the bit.
#[test]
fn shared_keys_are_as_good_as_copies() {
    for queries in [1, 9, 70] {
        let grouped = Attention::new(Case::grouped([2, 6, queries, 53, 17], 2), 13);
        let mut copied = grouped.clone();
        let [_, _, _, keys, units] = grouped.case.sizes;
        let copies = |elements: &[f64], size: usize| -> Vec<f64> {
            let heads = elements.chunks(keys * size);
            heads.flat_map(|head| head.repeat(3)).collect()
        };
        copied.case.key_heads = 6;
        copied.case.keys = copies(&grouped.case.keys, units);
        copied.values = copies(&grouped.values, 13);
        for level in Level::available() {
            for packed in [false, true] {
                let [grouped, copied] = [&grouped, &copied].map(|of| of.run::<f32>(level, packed));
                // Context, log-sum-exp and the gradient of the queries; the others are sums over the heads.
                for ((name, grouped), (_, copied)) in grouped.iter().zip(&copied).take(3) {
                    assert_eq!(grouped, copied, "{queries} queries, {level:?}: {name}");
                }
            }
        }
    }
}

#[test]
fn sizes_beyond_every_tile() {
    Attention::new(Case::new([1, 2, 101, 261, 67]), 35).assert_precise("large");
    Attention::new(Case::new([1, 2, 1, 261, 67]), 35).assert_precise("many keys");
}

#[test]
fn units_out_of_range() {
    for queries in [1, 7] {
        let mut case = Case::new([2, 1, queries, 39, 13]);
        case.queries[4] = 9.0;
        case.keys[13 * 3 + 5] = -40.0;
        case.keys[13 * 3 + 4] = -8.5;
        Attention::new(case, 17).assert_precise("out of range");
    }
}

#[test]
fn dropout_is_the_same_forward_and_backward() {
    for queries in [1, 9] {
        let mut attention = Attention::new(Case::new([2, 3, queries, 41, 5]), 7);
        attention.dropout = Some(Dropout::new(0.3, 17));
        attention.assert_precise("dropout");
    }
}

/// NaN in keys and values that no query attends to, and in the gradient of queries that attend to nothing, changes no
/// bit.
#[test]
fn padding_is_ignored() {
    for queries in [1, 3, 9] {
        let case = Case::new([2, 1, queries, 21, 5]).with_intervals([2, 1], |b, _| [0, [0, 18][b]]);
        let clean = Attention::new(case, 3);
        let mut poisoned = clean.clone();
        poisoned.case.keys[..21 * 5].fill(f64::NAN);
        poisoned.values[..21 * 3].fill(f64::NAN);
        poisoned.context_gradient[..queries * 3].fill(f64::NAN);
        poisoned.case.keys[(21 + 18) * 5..].fill(f64::INFINITY);
        poisoned.values[(21 + 18) * 3..].fill(f64::NAN);
        for level in Level::available() {
            for packed in [false, true] {
                let [clean, poisoned] = [&clean, &poisoned].map(|of| of.run::<f32>(level, packed));
                for ((name, clean), (_, poisoned)) in clean.iter().zip(&poisoned) {
                    assert_eq!(clean, poisoned, "{queries} queries, {level:?}: {name}");
                }
            }
        }
    }
}

#[test]
fn gradients_in_f64_are_differences() {
    const STEP: f64 = 1e-5;
    for queries in [2, 5] {
        let case = Case::new([1, 2, queries, 6, 3]);
        let case = case.with_intervals([1, queries], |_, q| [q % 2, 6 - q]);
        let mut attention = Attention::new(case, 2);
        if queries == 5 {
            attention = attention.with_modifiers(Modifiers::ALL);
        }
        attention.dropout = Some(Dropout::new(0.25, 3));
        for level in Level::available() {
            let outcome = attention.run::<f64>(level, false);
            let loss = |attention: &Attention| -> f64 {
                let context = &attention.run::<f64>(level, false)[0].1;
                let terms = context.iter().zip(&attention.context_gradient);
                terms.map(|(c, g)| c * g).sum()
            };
            type Field = fn(&mut Attention) -> &mut Vec<f64>;
            fn elements(bias: &mut Option<Bias<f64>>) -> &mut Vec<f64> {
                &mut bias.as_mut().unwrap().elements
            }
            let fields: [(usize, Field); 7] = [
                (2, |a| &mut a.case.queries),
                (3, |a| &mut a.case.keys),
                (4, |a| &mut a.values),
                (5, |a| &mut a.case.weight),
                (6, |a| elements(&mut a.modifiers.bias)),
                (7, |a| elements(&mut a.modifiers.relative_bias)),
                (8, |a| a.modifiers.sinks.as_mut().unwrap()),
            ];
            for (index, field) in fields {
                let (name, gradient) = &outcome[index];
                for (at, gradient) in gradient.iter().enumerate() {
                    let mut moved = attention.clone();
                    field(&mut moved)[at] += STEP;
                    let above = loss(&moved);
                    field(&mut moved)[at] -= 2.0 * STEP;
                    let difference = (above - loss(&moved)) / (2.0 * STEP);
                    let what = format!("{level:?}: {name}[{at}]");
                    let is_close = (difference - gradient).abs() < 1e-8;
                    assert!(is_close, "{what}: {gradient}, not {difference}");
                }
            }
        }
    }
}
