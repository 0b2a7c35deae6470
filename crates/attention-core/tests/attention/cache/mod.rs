//! A cache gives what attention to the whole text gives, token by token, in chunks, and for examples of any lengths.

mod given;
mod models;
mod options;
mod uneven;

use attention_core::position::RotaryConfig;
use attention_core::score::{DotProductScoreConfig, GaussianScoreConfig};
use attention_core::{Attention, KeyValueCache, Mask, NewRows};
use attention_tests::{Array, assert_close, assert_zero, device, refuses};
use burn::tensor::{Int, Tensor};

use models::{BATCH, HIDDENS, Model, causal, in_chunks, models, text};

#[test]
fn a_prompt_and_one_token_are_the_whole_text() {
    device::each(|device| {
        for (name, model) in models(device) {
            for tokens in 1..=9 {
                let text = text(1, tokens + 1, device);
                let expected = Array::read(model.whole(text.clone(), &Mask::causal()));
                let got = in_chunks(&*model, &text, &[tokens, 1], KeyValueCache::new());
                assert_close(format!("{name}, {tokens}"), got, &expected, 1e-5);
            }
        }
    });
}

#[test]
fn chunks_of_any_size_are_the_whole_text() {
    device::each(|device| {
        for (name, model) in models(device) {
            let text = text(2, 21, device);
            for window in [None, Some(1), Some(4)] {
                let expected = Array::read(model.whole(text.clone(), &causal(window)));
                // Single tokens; more than the window; more than one eviction.
                let ones = &[1; 21][..];
                for chunks in [ones, &[3, 6, 5, 7], &[9, 1, 1, 1, 9], &[4, 4, 4, 4, 4, 1]] {
                    let what = format!("{name}, window {window:?}, chunks {chunks:?}");
                    let cache = match window {
                        Some(_) => KeyValueCache::of_window(window),
                        None => KeyValueCache::with_capacity(21),
                    };
                    let got = in_chunks(&*model, &text, chunks, cache);
                    assert_close(&what, got, &expected, 1e-5);
                }
            }
        }
    });
}

/// Prompts of 3, 7 and 1 tokens, then single ones; one example stops early. Each gets what it gets alone.
#[test]
fn examples_have_lengths_of_their_own() {
    device::each(|device| {
        for (name, model) in models(device) {
            for window in [None, Some(3)] {
                for is_left in [false, true] {
                    let what = format!("{name}, window {window:?}, padding at the left: {is_left}");
                    let of_chunks = [[3, 7, 1], [1, 1, 1], [1, 0, 1], [2, 1, 0], [1, 0, 1]];
                    let whole = text(3, 12, device);
                    let mut all = KeyValueCache::of_window(window);
                    let mut seen = [0; BATCH];
                    let mut contexts: [Vec<Tensor<3>>; BATCH] = Default::default();
                    for lens in of_chunks {
                        let longest = lens.into_iter().max().unwrap();
                        let rows = (0..BATCH).map(|b| {
                            let mut parts = Vec::new();
                            if lens[b] < longest {
                                let shape = [1, longest - lens[b], HIDDENS];
                                parts.push(Tensor::full(shape, f64::NAN, device));
                            }
                            if lens[b] > 0 {
                                let own = whole.clone().narrow(0, b, 1);
                                parts.push(own.narrow(1, seen[b], lens[b]));
                            }
                            if !is_left {
                                parts.reverse();
                            }
                            Tensor::cat(parts, 1)
                        });
                        let rows = Tensor::cat(rows.collect(), 0);
                        let new = match is_left {
                            true => NewRows::Last(&lens),
                            false => NewRows::First(&lens),
                        };
                        let context = model.cached(rows, new, &mut all);
                        for b in 0..BATCH {
                            let own = context.clone().narrow(0, b, 1);
                            let first = if is_left { longest - lens[b] } else { 0 };
                            if lens[b] > 0 {
                                contexts[b].push(own.clone().narrow(1, first, lens[b]));
                            }
                            if lens[b] < longest {
                                let rest = if is_left { 0 } else { lens[b] };
                                assert_zero(&what, own.narrow(1, rest, longest - lens[b]));
                            }
                            seen[b] += lens[b];
                        }
                    }
                    assert_eq!(all.lengths(), seen);
                    for (b, contexts) in contexts.into_iter().enumerate() {
                        let own = whole.clone().narrow(0, b, 1).narrow(1, 0, seen[b]);
                        let expected = Array::read(model.whole(own, &causal(window)));
                        let got = Array::read(Tensor::cat(contexts, 1));
                        assert_close(format!("{what}: example {b}"), &got, &expected, 1e-5);
                    }
                }
            }
        }
    });
}

/// Forced parents, [0, 0, 2] and then [2, 1, 1]: what follows is as if each beam had been there from the start.
#[test]
fn beams_go_on_as_their_prefixes() {
    device::each(|device| {
        for (name, model) in models(device) {
            for window in [None, Some(3)] {
                let mut cache = KeyValueCache::of_window(window);
                let mut texts = text(4, 5, device);
                model.cached(texts.clone(), NewRows::All, &mut cache);
                let parents = [[0, 0, 2], [2, 1, 1], [0, 1, 2], [1, 1, 0]];
                for (seed, parents) in (5..).zip(parents) {
                    let select = |parents: [usize; 3]| Tensor::<1, Int>::from_ints(parents, device);
                    let indices = select(parents);
                    if seed == 8 {
                        // The same in three choices, between which nothing is appended.
                        cache.expand(2);
                        cache.select(select([0, 3, 5]));
                    }
                    cache.select(indices.clone());
                    let token = text(seed, 1, device);
                    texts = Tensor::cat(vec![texts.select(0, indices), token.clone()], 1);
                    let got = model.cached(token, NewRows::All, &mut cache);
                    let whole = model.whole(texts.clone(), &causal(window));
                    let last = whole.narrow(1, texts.dims()[1] - 1, 1);
                    let what = format!("{name}, window {window:?}, parents {parents:?}");
                    assert_close(&what, got, last, 1e-5);
                }
            }
        }
    });
}

#[test]
fn a_cache_is_cut_and_expanded() {
    device::each(|device| {
        for (name, model) in models(device) {
            let whole = text(8, 9, device);
            let mut cache = KeyValueCache::new();
            model.cached(text(9, 7, device), NewRows::All, &mut cache);
            cache.truncate(&[0; BATCH]);
            model.cached(whole.clone().narrow(1, 0, 5), NewRows::All, &mut cache);
            model.cached(text(9, 3, device), NewRows::All, &mut cache);
            cache.truncate(&[5; BATCH]);
            cache.expand(2);
            assert_eq!(cache.lengths(), [5; 2 * BATCH]);
            let rest = whole.clone().narrow(1, 5, 4);
            let rest = rest.reshape([BATCH, 1, 4, HIDDENS]).repeat_dim(1, 2);
            let rest = rest.reshape([2 * BATCH, 4, HIDDENS]);
            let got = Array::read(model.cached(rest, NewRows::All, &mut cache));
            let expected = Array::read(model.whole(whole, &Mask::causal()));
            let expected = Array::from_fn(&[2 * BATCH, 4, HIDDENS], |at| {
                expected.at(&[at[0] / 2, at[1] + 5, at[2]])
            });
            assert_close(name, &got, &expected, 1e-5);
        }
    });
}

#[test]
fn each_type_is_cached_as_it_is() {
    device::each(device::in_all_types(|(device, dtype)| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let rows: Tensor<3> = Array::draw(1, &[BATCH, 7, 8]).tensor(device, dtype);
        let mut cache = KeyValueCache::new();
        let context = attention.cached(rows.clone(), NewRows::All, &mut cache);
        let whole = attention.whole(rows, &Mask::causal());
        assert_eq!(context.dtype(), dtype);
        let bound = f64::max(1e-6, 2.0 * device::epsilon(dtype));
        assert_close(format!("{dtype:?}"), context, whole, bound);
    }));
}

#[test]
fn what_does_not_fit_is_refused() {
    device::each(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let rows = |shape: [usize; 3]| Tensor::<3>::zeros(shape, device);
        let refused = |expected: &str, call: &dyn Fn(&mut KeyValueCache)| {
            refuses(expected, || {
                let mut cache = KeyValueCache::with_capacity(4);
                attention.cached(rows([2, 3, 5]), NewRows::All, &mut cache);
                call(&mut cache);
            });
        };
        refused("2 examples expected, as before, got 3", &|cache| {
            attention.cached(rows([3, 1, 5]), NewRows::All, cache);
        });
        refused("[2, 1, 5] expected, as before, got [2, 1, 6]", &|cache| {
            attention.cached(rows([2, 1, 6]), NewRows::All, cache);
        });
        refused("at most 4 tokens expected, the capacity, got 5", &|cache| {
            attention.cached(rows([2, 2, 5]), NewRows::All, cache);
        });
        let message = "keys of the cached queries expected, [batch, rows] = [2, 3], got [2, 1]";
        refused(message, &|cache| {
            let [q, k, v] = [3, 1, 1].map(|len| rows([2, len, 5]));
            attention.forward_cached(q, k, v, NewRows::All, cache, Mask::none());
        });
        let what = "at most 1 tokens expected, as many as rows, got 2";
        refused(what, &|cache| {
            attention.cached(rows([2, 1, 5]), NewRows::First(&[1, 2]), cache);
        });
        refused("expected for each of 2 examples, got 1", &|cache| {
            attention.cached(rows([2, 1, 5]), NewRows::Last(&[1]), cache);
        });
        let what = "a length in 0 ..= 3 expected for example 1, got 4";
        refused(what, &|cache| cache.truncate(&[1, 4]));
        refused("indices in 0 .. 2 expected, got [0, 2]", &|cache| {
            cache.select(Tensor::from_ints([0, 2], device));
        });
        refused("as before, got those of", &|cache| {
            let other = Attention::new(GaussianScoreConfig::new().init(device), 0.0);
            other.cached(rows([2, 1, 5]), NewRows::All, cache);
        });
    });
    device::each_training(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let rows = Tensor::<3>::zeros([2, 1, 5], device);
        refuses("a device without autodiff expected", || {
            attention.cached(rows, NewRows::All, &mut KeyValueCache::new())
        });
    });
}

/// A step that is taken back leaves what was there; further back, keys of the window are gone.
#[test]
fn a_window_is_cut_as_far_as_its_keys_are_there() {
    device::each(|device| {
        for (name, model) in models(device) {
            let whole = text(10, 12, device);
            let mut cache = KeyValueCache::new().with_window(3);
            for at in 0..11 {
                model.cached(whole.clone().narrow(1, at, 1), NewRows::All, &mut cache);
            }
            model.cached(text(11, 1, device), NewRows::All, &mut cache);
            cache.truncate(&[11; BATCH]);
            let last = whole.clone().narrow(1, 11, 1);
            let got = Array::read(model.cached(last, NewRows::All, &mut cache));
            let expected = model.whole(whole, &causal(Some(3))).narrow(1, 11, 1);
            assert_close(name, &got, expected, 1e-5);
            let expected = "expected for example 0, got 2";
            refuses(expected, || cache.truncate(&[2; BATCH]));
        }
    });
}

/// Padding has no position: neither before the first nor beyond the table of a rotary embedding.
#[test]
fn padding_has_no_position() {
    device::each(|device| {
        let config = RotaryConfig::new(HIDDENS, 4);
        let rotary = config.init_with(DotProductScoreConfig::new().init(), device);
        let attention = Attention::new(rotary, 0.0);
        let whole = text(12, 4, device);
        let expected = Array::read(attention.whole(whole.clone(), &Mask::causal()));
        let padding = Tensor::<3>::full([BATCH, 2, HIDDENS], f64::NAN, device);
        for is_left in [false, true] {
            let mut cache = KeyValueCache::new();
            let chunks = [whole.clone().narrow(1, 0, 3), whole.clone().narrow(1, 3, 1)];
            let contexts = chunks.map(|own| {
                let tokens = own.dims()[1];
                let lens = [tokens; BATCH];
                let (parts, new) = match is_left {
                    true => (vec![padding.clone(), own], NewRows::Last(&lens)),
                    false => (vec![own, padding.clone()], NewRows::First(&lens)),
                };
                let context = attention.cached(Tensor::cat(parts, 1), new, &mut cache);
                context.narrow(1, if is_left { 2 } else { 0 }, tokens)
            });
            let got = Array::read(Tensor::cat(contexts.to_vec(), 1));
            assert_close("rotary", &got, &expected, 1e-5);
        }
    });
}

#[test]
fn calls_without_rows_or_tokens_are_answered() {
    device::each(|device| {
        for (name, model) in models(device) {
            let mut cache = KeyValueCache::new();
            let empty = |rows| Tensor::<3>::zeros([BATCH, rows, HIDDENS], device);
            model.cached(empty(1), NewRows::First(&[0; BATCH]), &mut cache);
            assert_eq!(cache.lengths(), [0; BATCH], "{name}");
            model.cached(text(1, 3, device), NewRows::First(&[3, 1, 0]), &mut cache);
            let context = model.cached(empty(0), NewRows::All, &mut cache);
            assert_eq!(context.dims(), [BATCH, 0, HIDDENS], "{name}");
            cache.expand(2);
            assert_eq!(cache.lengths(), [3, 3, 1, 1, 0, 0], "{name}");
        }
    });
}
