//! Keys that a cache is given, and gives back.

use attention_core::{CachedKeys, KeyValueCache, NewRows};
use attention_tests::{Array, assert_same, device, refuses};
use burn::tensor::{Int, Tensor};

use super::models::{BATCH, models, text};

/// Examples of different lengths, some of their keys evicted, reordered: a copy goes on as the cache itself.
#[test]
fn a_cache_goes_on_from_its_keys() {
    device::each(|device| {
        for (name, model) in models(device) {
            for window in [None, Some(3)] {
                let mut cache = KeyValueCache::of_window(window);
                model.cached(text(1, 5, device), NewRows::First(&[5, 2, 4]), &mut cache);
                model.cached(text(2, 2, device), NewRows::Last(&[1, 2, 0]), &mut cache);
                cache.select(Tensor::<1, Int>::from_ints([2, 0, 0], device));
                let keys = cache.keys().unwrap();
                let mut copy = KeyValueCache::of_window(window).with_keys(keys);
                assert_eq!(copy.lengths(), cache.lengths());
                for seed in 3..6 {
                    let next = text(seed, 2, device);
                    let [expected, got] = [&mut cache, &mut copy].map(|cache| {
                        let rows = NewRows::First(&[2, 1, 2]);
                        Array::read(model.cached(next.clone(), rows, cache))
                    });
                    assert_same(format!("{name}, window {window:?}"), &got, &expected);
                }
            }
        }
    });
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    device::each(|device| {
        let rows = Tensor::<4>::zeros([BATCH, 2, 4, 6], device);
        let given = |tokens: [std::ops::Range<usize>; BATCH]| CachedKeys {
            keys: rows.clone(),
            values: rows.clone(),
            tokens: tokens.to_vec(),
        };
        assert!(KeyValueCache::new().keys().is_none());
        refuses(
            "at most 4 tokens expected in example 1, as rows and capacity are, got 0..5",
            || KeyValueCache::new().with_keys(given([0..4, 0..5, 0..0])),
        );
        refuses("at most 3 tokens expected in example 0", || {
            KeyValueCache::with_capacity(3).with_keys(given([0..4, 0..1, 0..0]))
        });
        refuses(
            "the tokens of example 2 expected from 0, or all in the window, got 1..3",
            || {
                KeyValueCache::new()
                    .with_window(4)
                    .with_keys(given([1..4, 0..2, 1..3]))
            },
        );
        refuses(
            "an empty cache expected, got one of lengths [4, 1, 0]",
            || {
                let cache = KeyValueCache::new().with_keys(given([0..4, 0..1, 0..0]));
                cache.with_keys(given([0..4, 0..1, 0..0]))
            },
        );
        refuses("tokens of 3 examples expected, got 2", || {
            let two = CachedKeys {
                tokens: vec![0..1; 2],
                ..given([0..1, 0..1, 0..1])
            };
            KeyValueCache::new().with_keys(two)
        });
    });
}
