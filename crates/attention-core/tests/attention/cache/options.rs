//! Options of a call through a cache.

use attention_core::position::AlibiConfig;
use attention_core::score::{Biased, Kernel, KernelScoreConfig};
use attention_core::{
    AttentionOptions, KeyValueCache, Mask, MultiHeadAttention, MultiHeadAttentionConfig, NewRows,
    ScoringFunction,
};
use attention_tests::{Array, assert_close, device, refuses};
use burn::tensor::{Bool, Device, Tensor};

use super::models::{BATCH, HEADS, HIDDENS, causal, text};

const LENS: [usize; BATCH] = [4, 2, 3];
const KEYS: usize = 7;

fn heads(device: &Device) -> MultiHeadAttention<attention_core::DotProductScore> {
    MultiHeadAttentionConfig::new(HIDDENS, HEADS).init(device)
}

/// A bias of all pairs, a mask of keys and a soft-cap, for queries `rows` of the text.
fn options(rows: std::ops::Range<usize>, keys: usize, device: &Device) -> AttentionOptions {
    let bias = Array::draw(3, &[BATCH, HEADS, KEYS, KEYS]).f32::<4>(device);
    let dropped = Array::from_fn(&[BATCH, 1, KEYS], |at| f64::from(at[2] % 3 == at[0]));
    let dropped: Tensor<3, Bool> = dropped.f32::<3>(device).greater_elem(0.5);
    AttentionOptions {
        mask: Mask::drop(dropped.slice([0..BATCH, 0..1, 0..keys])),
        bias: Some(bias.slice([0..BATCH, 0..HEADS, rows, 0..keys])),
        soft_cap: Some(2.0),
        zero_key: true,
        ..Default::default()
    }
}

fn step<S: ScoringFunction>(
    heads: &MultiHeadAttention<S>,
    rows: Tensor<3>,
    new: NewRows,
    cache: &mut KeyValueCache,
    options: AttentionOptions,
) -> Tensor<3> {
    heads.forward_cached(rows.clone(), rows.clone(), rows, new, cache, options)
}

#[test]
fn a_call_has_options_of_its_own() {
    device::each(|device| {
        let heads = heads(device);
        let whole = text(1, KEYS, device);
        let all = options(0..KEYS, KEYS, device);
        let all = AttentionOptions {
            mask: all.mask & Mask::causal(),
            ..all
        };
        let expected = heads.forward(whole.clone(), whole.clone(), whole.clone(), all);
        let mut cache = KeyValueCache::new();
        let mut start = 0;
        let contexts = [3, 1, 2, 1].map(|chunk| {
            let rows = start..start + chunk;
            let part = whole.clone().narrow(1, start, chunk);
            start += chunk;
            let options = options(rows, start, device);
            step(&heads, part, NewRows::All, &mut cache, options)
        });
        let expected = Array::read(expected);
        assert_close("whole", Tensor::cat(contexts.to_vec(), 1), &expected, 1e-5);
    });
}

/// Examples of 4, 2 and 3 tokens, then one more of each, with a bias for each key.
#[test]
fn uneven_examples_have_options_by_their_keys() {
    device::each(|device| {
        let heads = heads(device);
        let (prompt, next) = (text(1, 4, device), text(2, 1, device));
        let mut cache = KeyValueCache::new();
        let mut step =
            |rows: &Tensor<3>, new, options| step(&heads, rows.clone(), new, &mut cache, options);
        step(&prompt, NewRows::First(&LENS), Mask::none().into());
        let options = options(0..1, 5, device);
        let got = step(&next, NewRows::All, options.clone());
        for (b, len) in LENS.into_iter().enumerate() {
            let of_example = |rows: &Tensor<3>, len| rows.clone().narrow(0, b, 1).narrow(1, 0, len);
            let keys = Tensor::cat(vec![of_example(&prompt, len), of_example(&next, 1)], 1);
            let keep = Array::from_fn(&[1, 1, len + 1], |at| f64::from(at[2] % 3 != b));
            let bias = options.bias.clone().unwrap();
            let own = AttentionOptions {
                mask: Mask::keep(keep.f32::<3>(device).greater_elem(0.5)),
                bias: Some(bias.narrow(0, b, 1).narrow(3, 0, len + 1)),
                ..options.clone()
            };
            let expected = heads.forward(of_example(&next, 1), keys.clone(), keys, own);
            let got = Array::read(got.clone().narrow(0, b, 1));
            assert_close(format!("example {b}"), &got, expected, 1e-5);
        }
    });
}

/// A function says which rows of the cache each row of the call attends to, in intervals or flags.
#[test]
fn uneven_examples_have_masks_of_their_rows() {
    const ROWS: usize = 2;
    type Attends = fn(usize, usize, usize) -> bool;
    let functions: [Attends; 2] = [|b, i, j| j > (b + i) % 2, |b, i, j| j != (b + 2 * i) % 3];
    device::each(|device| {
        let heads = heads(device);
        let (prompt, next) = (text(1, 4, device), text(2, ROWS, device));
        for attends in functions {
            let mut cache = KeyValueCache::new();
            let new = NewRows::First(&LENS);
            step(&heads, prompt.clone(), new, &mut cache, Mask::none().into());
            let keys = LENS[0] + ROWS;
            let mask = |keys| {
                let shape = [BATCH, 1, ROWS, keys];
                Mask::from_fn(shape, device, |b, _, i, j| attends(b, i, j))
            };
            refuses("axis `keys` expected 6 or 1, got 5", || {
                let (mut cache, mask) = (cache.clone(), mask(keys - 1));
                step(&heads, next.clone(), NewRows::All, &mut cache, mask.into())
            });
            let options = mask(keys).into();
            let got = step(&heads, next.clone(), NewRows::All, &mut cache, options);
            for (b, len) in LENS.into_iter().enumerate() {
                let of_example =
                    |rows: &Tensor<3>, len| rows.clone().narrow(0, b, 1).narrow(1, 0, len);
                let own = of_example(&next, ROWS);
                let keys = Tensor::cat(vec![of_example(&prompt, len), own.clone()], 1);
                let keep = Array::from_fn(&[1, ROWS, len + ROWS], |at| {
                    f64::from(at[2] <= len + at[1] && attends(b, at[1], at[2]))
                });
                let expected =
                    heads.forward(own, keys.clone(), keys, Mask::keep(keep.bool::<3>(device)));
                let got = Array::read(got.clone().narrow(0, b, 1));
                assert_close(format!("example {b}"), &got, expected, 1e-5);
            }
        }
    });
}

#[test]
fn options_that_have_no_place_are_refused() {
    device::each(|device| {
        let heads = heads(device);
        let rows = text(1, 2, device);
        let options = || options(0..2, 2, device);
        refuses("a cache that has a window", || {
            let mut cache = KeyValueCache::new().with_window(3);
            step(&heads, rows.clone(), NewRows::All, &mut cache, options())
        });
        let message = "a mask of positions expected with examples of different lengths";
        refuses(message, || {
            let (mut cache, new) = (KeyValueCache::new(), NewRows::First(&[2, 1, 2]));
            step(&heads, rows.clone(), new, &mut cache, Mask::causal().into())
        });
        let kernel = KernelScoreConfig::new(Kernel::Gaussian).init();
        let composed = heads.map_score(|_| Biased::new(kernel, AlibiConfig::new(HEADS).init()));
        refuses("a score that adds terms of positions itself", || {
            let (mut cache, new) = (KeyValueCache::new(), NewRows::First(&[2, 1, 2]));
            step(&composed, rows.clone(), new, &mut cache, options())
        });
    });
}

/// Prompts of `lens` tokens, then one more of each: the weights of each text by itself, over the keys that are kept.
fn check_weights<S: ScoringFunction>(
    heads: &MultiHeadAttention<S>,
    lens: [usize; BATCH],
    window: Option<usize>,
    device: &Device,
) {
    let (prompt, next) = (text(1, 4, device), text(2, 1, device));
    let mut cache = KeyValueCache::of_window(window);
    for (rows, new) in [(&prompt, NewRows::First(&lens)), (&next, NewRows::All)] {
        let mut copy = cache.clone();
        let [q, k, v] = [(); 3].map(|()| rows.clone());
        let options = AttentionOptions {
            soft_cap: Some(2.0),
            ..Default::default()
        };
        let context = step(heads, rows.clone(), new, &mut copy, options.clone());
        let output = heads.forward_cached_with_weights(q, k, v, new, &mut cache, options.clone());
        assert_close("context", output.context, &Array::read(context), 1e-5);
        let weights = Array::read(output.weights);
        let kept = cache.keys().unwrap();
        let num_rows = weights.shape[2];
        assert_eq!(weights.shape[3], kept.keys.dims()[2]);
        for (b, tokens) in kept.tokens.into_iter().enumerate() {
            let of_example = |rows: &Tensor<3>, len| rows.clone().narrow(0, b, 1).narrow(1, 0, len);
            let mut whole = of_example(&prompt, lens[b]);
            let is_next = num_rows == 1;
            if is_next {
                whole = Tensor::cat(vec![whole, of_example(&next, 1)], 1);
            }
            let mut options = options.clone();
            options.mask = causal(window);
            let alone = heads.forward_with_weights(whole.clone(), whole.clone(), whole, options);
            let alone = Array::read(alone.weights);
            let before = if is_next { lens[b] } else { 0 };
            let expected = Array::from_fn(&weights.shape[1..], |at| {
                let is_padding = at[1] + before >= alone.shape[2] || at[2] >= tokens.len();
                let [row, key] = [at[1] + before, at[2] + tokens.start];
                match is_padding {
                    true => 0.0,
                    false => alone.at(&[0, at[0], row, key]),
                }
            });
            let got = Array::from_fn(&weights.shape[1..], |at| weights.at(&[&[b], at].concat()));
            let what = format!("lens {lens:?}, window {window:?}, example {b}, next: {is_next}");
            assert_close(&what, &got, &expected, 1e-5);
        }
    }
}

#[test]
fn weights_are_over_the_keys_of_the_cache() {
    device::each(|device| {
        let kernel = KernelScoreConfig::new(Kernel::Gaussian).init();
        for lens in [LENS, [4; BATCH]] {
            for window in [None, Some(3)] {
                check_weights(&heads(device), lens, window, device);
                let biased = |score| Biased::new(score, AlibiConfig::new(HEADS).init());
                check_weights(&heads(device).map_score(biased), lens, window, device);
                let composed = |_| Biased::new(kernel.clone(), AlibiConfig::new(HEADS).init());
                let composed = heads(device).map_score(composed);
                if lens == [4; BATCH] {
                    check_weights(&composed, lens, window, device);
                }
            }
        }
    });
}
