//! A cache gives what the whole text gives: in chunks, for rows of any lengths, for beams, in every layer.
use std::array;

use attention_core::position::RotaryConfig;
use attention_core::score::{AdditiveScoreConfig, DotProductScoreConfig};
use attention_core::{Mask, NewRows};
use attention_tests::{Array, assert_close, assert_zero, device};
use attention_transformers::{
    NormOrder, TransformerDecoderConfig, TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::tensor::{DType, Device, Int, Tensor};

use super::models::{
    HIDDENS, Model, drawn, layer, lens, models, new_rows, padded, sinusoidal, tensor, text,
};

/// The largest difference of two arrays.
fn error(actual: &Array, expected: &Array) -> f64 {
    let pairs = actual.data.iter().zip(&expected.data);
    pairs.fold(0.0, |largest, (a, e)| largest.max((a - e).abs()))
}

fn in_chunks(model: &dyn Model, tokens: &[Vec<u32>], chunks: &[usize], device: &Device) -> Array {
    let mut cache = model.cache();
    let mut first = 0;
    let logits = chunks.iter().map(|&len| {
        let own = tokens.iter().map(|row| row[first..first + len].to_vec());
        let own: Vec<Vec<u32>> = own.collect();
        first += len;
        model.cached(tensor(&own, device), NewRows::All, &mut cache)
    });
    let logits = Tensor::cat(logits.collect(), 1);
    assert_eq!(cache.lengths(), vec![first; tokens.len()]);
    Array::read(logits)
}

/// With every score, and within the precision policy: an error of at most twice the whole text's error, both in f32,
/// against f64.
#[test]
fn chunks_are_the_whole_text() {
    device::each(|device| {
        let tokens = text(1, [2, 9]);
        let whole =
            |model: &dyn Model| Array::read(model.whole(tensor(&tokens, device), NewRows::All));
        let wide = device::computes(device, DType::F64).then(|| models(device, DType::F64));
        for (at, (name, model)) in models(device, DType::F32).into_iter().enumerate() {
            let expected = whole(&*model);
            let oracle = wide.as_ref().map(|wide| whole(&*wide[at].1));
            for chunks in [&[1; 9][..], &[4, 1, 1, 3], &[8, 1]] {
                let got = in_chunks(&*model, &tokens, chunks, device);
                let what = format!("{name}, chunks {chunks:?}");
                assert_close(&what, &got, &expected, 1e-5);
                let Some(oracle) = &oracle else { continue };
                let bound = (2.0 * error(&expected, oracle)).max(1e-6 * oracle.magnitude());
                let error = error(&got, oracle);
                assert!(error <= bound, "{what}: {error:e} above {bound:e}");
            }
        }
    });
}

/// Prompts of 3, 7 and 1 tokens, then single ones; one example stops early. Each gets what it gets alone.
#[test]
fn examples_have_lengths_of_their_own() {
    device::each(|device| {
        for (name, model) in models(device, DType::F32) {
            for is_left in [false, true] {
                let what = format!("{name}, padding at the left: {is_left}");
                let whole = text(2, [3, 10]);
                let mut cache = model.cache();
                let mut seen = [0; 3];
                let mut logits: [Vec<Tensor<3>>; 3] = Default::default();
                for lens in [[3, 7, 1], [1, 1, 1], [1, 0, 1], [2, 1, 0]] {
                    let rows = lens.into_iter().max().unwrap();
                    let own: [_; 3] = array::from_fn(|b| whole[b][seen[b]..][..lens[b]].to_vec());
                    let tokens = padded(&own, rows, is_left, device);
                    let got = model.cached(tokens, new_rows(&lens, is_left), &mut cache);
                    for b in 0..3 {
                        let first = if is_left { rows - lens[b] } else { 0 };
                        if lens[b] > 0 {
                            logits[b].push(got.clone().narrow(0, b, 1).narrow(1, first, lens[b]));
                        }
                        seen[b] += lens[b];
                    }
                }
                assert_eq!(cache.lengths(), seen);
                for (b, logits) in logits.into_iter().enumerate() {
                    let own = vec![whole[b][..seen[b]].to_vec()];
                    let expected = Array::read(model.whole(tensor(&own, device), NewRows::All));
                    let got = Array::read(Tensor::cat(logits, 1));
                    assert_close(format!("{what}: example {b}"), &got, &expected, 1e-5);
                }
            }
        }
    });
}

/// Forced parents, [0, 0, 2] and then [2, 1, 1], after a text that is cut: what follows is as if each beam had been
/// there from the start.
#[test]
fn beams_go_on_as_their_prefixes() {
    device::each(|device| {
        for (name, model) in models(device, DType::F32) {
            let mut texts = text(4, [3, 5]);
            let mut cache = model.cache();
            model.cached(tensor(&texts, device), NewRows::All, &mut cache);
            model.cached(tensor(&text(5, [3, 2]), device), NewRows::All, &mut cache);
            cache.truncate(&[5; 3]);
            for (seed, parents) in [(6, [0, 0, 2]), (7, [2, 1, 1]), (8, [0, 1, 2])] {
                cache.select(Tensor::<1, Int>::from_ints(parents, device));
                let tokens = text(seed, [3, 1]);
                texts = parents.map(|b| texts[b as usize].clone()).to_vec();
                for (text, token) in texts.iter_mut().zip(&tokens) {
                    text.extend(token);
                }
                let got = model.cached(tensor(&tokens, device), NewRows::All, &mut cache);
                let whole = model.whole(tensor(&texts, device), NewRows::All);
                let last = whole.narrow(1, texts[0].len() - 1, 1);
                let what = format!("{name}, parents {parents:?}");
                assert_close(&what, got, last, 1e-5);
            }
            cache.expand(2);
            assert_eq!(cache.lengths(), [8; 6]);
        }
    });
}

/// A layer that attends three rows back, after one that attends to all.
#[test]
fn a_window_is_that_of_its_layer() {
    device::each(|device| {
        let mut model = sinusoidal(device, layer());
        let tokens = text(9, [2, 9]);
        let unlimited = Array::read(model.forward(tensor(&tokens, device), NewRows::All));
        model.stack.layers[1].window = Some(3);
        let expected = Array::read(model.forward(tensor(&tokens, device), NewRows::All));
        let first = |array: &Array| Array::from_fn(&[2, 3, 11], |at| array.at(at));
        let what = "rows within the window";
        assert_close(what, &first(&expected), &first(&unlimited), 1e-5);
        assert!(error(&expected, &unlimited) > 1e-3, "no window");
        for chunks in [&[1; 9][..], &[5, 1, 3]] {
            let got = in_chunks(&model, &tokens, chunks, device);
            assert_close("window", &got, &expected, 1e-5);
        }
        // Rows themselves, by the plain mask of the layer.
        let config = TransformerEncoderConfig::new(layer().with_window(Some(3)), 1);
        let stack = drawn(config.init(device));
        let mut plain = stack.clone();
        plain.layers[0].window = None;
        let rows = Array::draw(1, &[2, 9, HIDDENS]).f32::<3>(device);
        let got = stack.forward(rows.clone(), Mask::causal());
        assert_close("layer", got, plain.forward(rows, Mask::window(2, 0)), 1e-6);
    });
}

/// Teacher forcing and steps, for rows of their own lengths, and beams that are selected.
#[test]
fn the_steps_of_a_decoder_are_its_teacher_forcing() {
    device::each(|device| {
        for order in [NormOrder::Pre, NormOrder::Post, NormOrder::Sandwich] {
            let layer = TransformerLayerConfig::new(HIDDENS, 2, 17)
                .with_memory_size(Some(7))
                .with_head_size(Some(4))
                .with_norm_order(order);
            let score = |_| {
                let config = RotaryConfig::new(4, 32);
                config.init_with(DotProductScoreConfig::new().init(), device)
            };
            let of_memory = AdditiveScoreConfig::new(4, 4, 5);
            let config = TransformerDecoderConfig::new(layer, 2);
            let stack = drawn(config.init_with(score, |_| of_memory.init(device), device));
            let memory = Array::draw(1, &[2, 5, 7]).f32::<3>(device);
            let memory = stack.prepare(memory, Mask::valid_lens(lens(&[5, 2], device)));
            let rows = Array::draw(2, &[2, 6, HIDDENS]).f32::<3>(device);
            let mask = Mask::valid_lens(lens(&[6, 4], device));
            let expected = Array::read(stack.forward(rows.clone(), &mask, &memory));

            let mut cache = stack.cache();
            let mut first = 0;
            let steps = [[2, 2], [1, 1], [1, 1], [2, 0]].map(|of| {
                let len = of[0];
                let own = rows.clone().narrow(1, first, len);
                first += len;
                stack.forward_cached(own, NewRows::First(&of), &memory, &mut cache)
            });
            let got = Array::read(Tensor::cat(steps.to_vec(), 1));
            assert_close(format!("{order:?}"), &got, &expected, 1e-5);
            let padding = Array::from_fn(&[2, HIDDENS], |at| got.at(&[1, 4 + at[0], at[1]]));
            assert_zero("padding", &padding);

            // Example 1 twice, from its fourth row on.
            let parents = || Tensor::<1, Int>::from_ints([1, 1], device);
            cache.truncate(&[3, 3]);
            cache.select(parents());
            let memory = memory.select(parents());
            let row = rows.clone().narrow(1, 3, 1).select(0, parents());
            let got = stack.forward_cached(row, NewRows::All, &memory, &mut cache);
            let expected = Array::from_fn(&[2, 1, HIDDENS], |at| expected.at(&[1, 3, at[2]]));
            assert_close("selected", got, &expected, 1e-5);
            assert_eq!(memory.expand(3).layers[1].batch_size(), 6);
        }
    });
}
