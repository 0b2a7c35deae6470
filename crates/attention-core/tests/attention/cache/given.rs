//! Keys that a cache is given, and gives back.

use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, CachedKeys, KeyValueCache, Mask, Memory, NewRows};
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

/// Keys that come without queries are those that a call with queries appends.
#[test]
fn keys_are_appended_without_queries() {
    device::each(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        for window in [None, Some(3)] {
            let [mut with, mut without] = [(); 2].map(|()| KeyValueCache::of_window(window));
            for (seed, rows) in [
                (1, NewRows::First(&[5, 2, 4])),
                (2, NewRows::Last(&[0, 5, 1])),
                (3, NewRows::All),
            ] {
                let keys = text(seed, 5, device).unsqueeze_dim::<4>(1);
                let [queries, values] = [keys.clone() * 2.0, keys.clone() + 1.0];
                without.append(keys.clone(), values.clone(), rows);
                attention.forward_cached(queries, keys, values, rows, &mut with, Mask::none());
            }
            let [with, without] = [with, without].map(|cache| cache.keys().unwrap());
            assert_eq!(without.tokens, with.tokens);
            assert_same("keys", without.keys.clone(), with.keys);
            assert_same("values", without.values.clone(), with.values);
            // Any score reads them, with a mask that is not causal.
            let lens = without.tokens.iter().map(|of| of.len() as i64);
            let lens = Tensor::from_data(lens.collect::<Vec<_>>().as_slice(), device);
            let memory = Memory::of_projected(without.keys, without.values, Mask::none());
            let queries = text(4, 2, device).unsqueeze_dim::<4>(1);
            let context = attention.attend(queries, &memory, Mask::valid_lens(lens));
            assert!(Array::read(context).magnitude() > 0.0);
        }
        let rows = |batch, num_rows| Tensor::<4>::zeros([batch, 1, num_rows, 6], device);
        let cache = || {
            let mut cache = KeyValueCache::with_capacity(5);
            cache.append(rows(2, 3), rows(2, 3), NewRows::All);
            cache
        };
        refuses("2 examples expected, as before, got 3", || {
            cache().append(rows(3, 1), rows(3, 1), NewRows::All)
        });
        refuses("at most 5 tokens expected, the capacity, got 6", || {
            cache().append(rows(2, 3), rows(2, 3), NewRows::All)
        });
        refuses("values", || {
            cache().append(rows(2, 1), rows(2, 2), NewRows::All)
        });
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
        let message = "the tokens of example 2 expected from 0, or all in the window, got 1..3";
        refuses(message, || {
            KeyValueCache::new()
                .with_window(4)
                .with_keys(given([1..4, 0..2, 1..3]))
        });
        let message = "an empty cache expected, got one of lengths [4, 1, 0]";
        refuses(message, || {
            let cache = KeyValueCache::new().with_keys(given([0..4, 0..1, 0..0]));
            cache.with_keys(given([0..4, 0..1, 0..0]))
        });
        refuses("tokens of 3 examples expected, got 2", || {
            let two = CachedKeys {
                tokens: vec![0..1; 2],
                ..given([0..1, 0..1, 0..1])
            };
            KeyValueCache::new().with_keys(two)
        });
    });
}
