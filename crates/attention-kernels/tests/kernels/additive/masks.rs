//! Masks of every kind, and what is masked: it changes nothing.

use cpu_kernels::Level;

use super::case::Case;
use super::oracle::{assert_precise, assert_same};

const SIZES: [usize; 5] = [2, 3, 37, 53, 11];

/// Every kind of mask: lengths per example and per query, causal both ways, windows, flags, and both.
fn masked() -> Vec<(&'static str, Case)> {
    let new = || Case::new(SIZES);
    let intervals = |shape, f: fn(usize, usize) -> [usize; 2]| new().with_intervals(shape, f);
    let keep = |shape, f: fn([usize; 4]) -> bool| new().with_keep(shape, f);
    let grouped = |key_heads| Case::grouped([2, 6, 9, 53, 11], key_heads);
    let of_grouped = |[_, h, _, k]: [usize; 4]| (h + k) % 5 != 0 && k % 7 != 0;
    let both = intervals([2, 1], |batch, _| [batch, 40]);
    let nothing = "an example that attends to nothing";
    let backwards = "intervals that end before they start";
    let causal = |sizes @ [_, _, queries, keys, _]: [usize; 5]| {
        let interval = |_, query: usize| [0, (query + keys + 1).saturating_sub(queries)];
        Case::new(sizes).with_intervals([1, queries], interval)
    };
    vec![
        ("lengths", intervals([2, 1], |b, _| [0, [16, 33][b]])),
        (nothing, intervals([2, 1], |b, _| [0, [0, 48][b]])),
        (
            "lengths per query",
            intervals([2, 37], |b, q| [0, (7 * q + b) % 54]),
        ),
        (
            "the first tile masked",
            intervals([2, 1], |b, _| [[16, 31][b], 53]),
        ),
        (backwards, intervals([1, 37], |_, q| [q, 20])),
        ("causal, more keys", causal([1, 2, 7, 40, 5])),
        ("causal, more queries", causal([1, 2, 40, 7, 5])),
        (
            "window",
            intervals([1, 37], |_, q| [q.saturating_sub(3), q + 9]),
        ),
        (
            "flags",
            keep([2, 3, 37, 53], |[b, h, q, k]| {
                (b + 2 * h + 3 * q + 5 * k) % 4 != 0
            }),
        ),
        (
            "flags of keys",
            keep([2, 1, 1, 53], |[b, _, _, k]| (b + k) % 3 != 0),
        ),
        (
            "flags of queries",
            keep([1, 3, 37, 1], |[_, h, q, _]| (h + q) % 3 != 0),
        ),
        (
            "flags of grouped heads",
            grouped(3).with_keep([1, 6, 1, 53], of_grouped),
        ),
        (
            "lengths of grouped heads",
            grouped(2).with_intervals([2, 1], |b, _| [3, [20, 33][b]]),
        ),
        (
            "flags and lengths",
            both.with_keep([1, 1, 37, 53], |[_, _, q, k]| (q + k) % 2 == 0),
        ),
    ]
}

#[test]
fn every_mask() {
    for (name, case) in masked() {
        assert_precise(name, &case);
    }
}

/// A key that no query attends to changes no bit, NaN and infinity included; nor does the gradient of a
/// masked score.
#[test]
fn padding_is_ignored() {
    for (name, case) in masked() {
        let [batch, heads, queries, keys, units] = case.sizes;
        for poison in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30] {
            let mut poisoned = case.clone();
            for at in 0..poisoned.gradient.len() {
                let (key, row) = (at % keys, at / keys);
                if !case.attends(row / queries, row % queries, key) {
                    poisoned.gradient[at] = poison;
                }
            }
            for at in 0..poisoned.keys.len() / units {
                let (key, key_head) = (at % keys, at / keys);
                let mut group = (0..batch * heads).filter(|head| case.key_head(*head) == key_head);
                if !group.any(|head| (0..queries).any(|query| case.attends(head, query, key))) {
                    poisoned.keys[at * units..(at + 1) * units].fill(poison);
                }
            }
            for level in Level::available() {
                let what = format!("{name}: {poison} on {level:?}");
                assert_same(&what, &poisoned.run::<f32>(level), &case.run::<f32>(level));
                assert_same(&what, &poisoned.run::<f64>(level), &case.run::<f64>(level));
            }
        }
    }
}

/// A key that some queries attend to and others do not reaches the scores of those that do, and no other's.
#[test]
fn a_key_reaches_only_the_queries_that_attend_to_it() {
    let case = Case::new([1, 1, 6, 21, 5]).with_intervals([1, 6], |_, query| [0, 16 + query]);
    for poison in [f64::NAN, 1e6] {
        let mut poisoned = case.clone();
        poisoned.keys[18 * 5 + 2] = poison;
        for level in Level::available() {
            let (clean, dirty) = (case.run::<f32>(level), poisoned.run::<f32>(level));
            for (at, (clean, dirty)) in clean.scores.iter().zip(&dirty.scores).enumerate() {
                let is_reached = at % 21 == 18 && case.mask.attends([0, 0, at / 21, 18]);
                let is_changed = clean.to_bits() != dirty.to_bits();
                assert_eq!(is_changed, is_reached, "{level:?}: {poison}: score {at}");
            }
            // Queries 0 to 2 attend to the keys up to 16, 17 and 18.
            let [clean, dirty] = [clean, dirty].map(|solution| solution.queries[..15].to_vec());
            assert_eq!(clean, dirty, "{level:?}: {poison}");
        }
    }
}
