//! Greedy search, and its attention weights.

use std::cell::Cell;
use std::slice;

use attention_seq2seq::attention::AnyAttention;
use attention_seq2seq::data::Source;
use attention_seq2seq::{AttentionKind, Batch, Seq2Seq, Seq2SeqConfig, Seq2SeqModel, Vocab};
use attention_tests::parameters;
use burn::tensor::{Device, Tensor};

use crate::models::{biased, constant, each_model};
use crate::support::{
    batch_on, config, device, drawn_model, examples, examples_of, read, source, without_noise,
};

/// The token with the highest logit among those that may be an output.
pub(crate) fn most_likely(logits: &[f64]) -> u32 {
    let may_be = |token: &usize| *token == Vocab::EOS as usize || *token >= Vocab::SPECIAL_TOKENS;
    let tokens = (0..logits.len()).filter(may_be);
    let best = tokens.max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    best.unwrap() as u32
}

/// Greedy search finds what teacher forcing finds the most likely: `logits` of a batch on the model's device.
pub(crate) fn check_teacher_forcing(
    what: &str,
    model: &impl Seq2SeqModel,
    device: &Device,
    logits: impl Fn(&Batch) -> Tensor<3>,
) {
    const MAX_LEN: usize = 6;
    let mut all = examples_of(&[(3, 0), (7, 0), (1, 0), (5, 0), (4, 0)], [13, 11], 6);
    let translation = model.greedy(&source(&all, device), MAX_LEN, false);
    // Padding changes no output.
    for (example, tokens) in all.iter().zip(&translation.tokens) {
        let alone = source(slice::from_ref(example), device);
        let alone = model.greedy(&alone, MAX_LEN, false);
        assert_eq!(&alone.tokens[0], tokens, "{what}: alone");
    }
    // Neither do steps after the end: teacher forcing on the outputs gives the outputs.
    for (example, tokens) in all.iter_mut().zip(&translation.tokens) {
        example.target = tokens.clone();
    }
    let logits = logits(&batch_on(&all, device));
    let [_, width, vocab_size] = logits.dims();
    let likely: Vec<u32> = read(logits).chunks(vocab_size).map(most_likely).collect();
    let outputs = translation.tokens.iter().zip(translation.ended);
    for (likely, (tokens, ended)) in likely.chunks(width).zip(outputs) {
        assert_eq!(&likely[..tokens.len()], tokens.as_slice(), "{what}");
        if ended {
            assert_eq!(likely[tokens.len()], Vocab::EOS, "{what}: no end");
        } else {
            assert_eq!(tokens.len(), MAX_LEN, "{what}: cut off");
        }
    }
}

#[test]
fn greedy_search_predicts_what_teacher_forcing_finds_most_likely() {
    each_model(&without_noise(), |what, _, model| {
        check_teacher_forcing(what, model, &device(), |batch| model.forward(batch));
    });
}

#[test]
fn greedy_stops_at_the_end_or_at_the_limit() {
    let sources = examples(&[(3, 0), (5, 0)], &config(), 8);
    let source = source(&sources, &device());

    let ended = constant(Vocab::EOS).greedy(&source, 9, true);
    assert_eq!(ended.tokens, vec![Vec::<u32>::new(); 2]);
    assert_eq!(ended.ended, [true; 2]);
    assert_eq!(ended.weights.len(), 1, "the step that predicted the end");

    for limit in [0, 1, 9] {
        let cut_off = constant(5).greedy(&source, limit, true);
        assert_eq!(cut_off.tokens, vec![vec![5; limit]; 2]);
        assert_eq!(cut_off.ended, [false; 2]);
        assert_eq!(cut_off.weights.len(), limit);
    }
    assert!(constant(5).greedy(&source, 3, false).weights.is_empty());
}

#[test]
fn each_example_has_ended_or_was_cut_off() {
    const LIMIT: usize = 3;
    let counts = Cell::new([0, 0]);
    each_model(&without_noise(), |what, config, model| {
        let sources = examples(&[(3, 0), (7, 0), (1, 0), (5, 0)], config, 9);
        let source = source(&sources, &device());
        let short = model.greedy(&source, LIMIT, false);
        let long = model.greedy(&source, LIMIT + 1, false);
        for (index, tokens) in short.tokens.iter().enumerate() {
            let is_longer = long.tokens[index].len() > LIMIT;
            if short.ended[index] {
                assert_eq!(&long.tokens[index], tokens, "{what}");
            } else {
                assert_eq!(tokens, &long.tokens[index][..LIMIT], "{what}");
            }
            // One whose end would be the next token was cut off, too.
            assert!(!short.ended[index] || !is_longer, "{what}");
            assert_eq!(long.ended[index], !is_longer, "{what}");
        }
        let ended = short.ended.iter().filter(|ended| **ended).count();
        let [all_ended, all] = counts.get();
        counts.set([all_ended + ended, all + short.ended.len()]);
    });
    let [ended, all] = counts.get();
    assert!(0 < ended && ended < all, "{ended} of {all}");
}

#[test]
fn special_tokens_are_never_chosen() {
    let sources = examples(&[(3, 0), (5, 0)], &config(), 8);
    let source = source(&sources, &device());
    let is_ordinary = |tokens: &Vec<u32>| tokens.iter().all(|&it| it >= 4);
    for token in [Vocab::PAD, Vocab::BOS, Vocab::UNK] {
        for bias in [100.0, f64::INFINITY, f64::NAN] {
            let changed = biased(token, bias).greedy(&source, 6, false);
            let without = biased(token, f64::NEG_INFINITY).greedy(&source, 6, false);
            let are_ordinary = changed.tokens.iter().all(is_ordinary);
            assert!(are_ordinary, "{:?}", changed.tokens);
            assert_eq!(changed.tokens, without.tokens);
            assert_eq!(changed.ended, without.ended);
        }
    }
}

#[test]
fn a_model_of_nans_ends() {
    let source = source(&examples(&[(3, 0), (5, 0)], &config(), 8), &device());
    let model = drawn_model(AttentionKind::Additive, &config(), 7);
    let nan = parameters::changed(model, |_, value| value.map(|_| f64::NAN));
    let output = nan.greedy(&source, 6, true);
    assert_eq!(output.tokens, vec![Vec::<u32>::new(); 2]);
    assert_eq!((output.ended, output.weights.len()), (vec![true; 2], 1));
}

#[test]
fn an_endless_limit_is_no_fault_of_a_model_that_ends() {
    let source = source(&examples(&[(3, 0)], &config(), 8), &device());
    let output = constant(Vocab::EOS).greedy(&source, usize::MAX, false);
    assert_eq!(output.ended, [true]);
}

#[test]
#[should_panic(expected = "target tokens expected at least the 4 special ones, got 3")]
fn a_vocabulary_without_the_special_tokens_is_refused() {
    let config = Seq2SeqConfig::new(13, 3).with_hidden_size(6);
    let model = drawn_model(AttentionKind::Dot, &config, 7);
    model.greedy(&Source::new([&[4, 5][..]], &device()), 3, false);
}

#[test]
fn weights_of_greedy_sum_to_one_and_are_zero_at_padding() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        // With this seed no key is beyond the width of the kernel attention, which would give it weight 0.
        let sources = examples(&[(3, 0), (7, 0), (1, 0)], config, 12);
        let source = source(&sources, &device());
        let translation = model.greedy(&source, 4, true);
        let (tokens, expected) = (translation.tokens, model.greedy(&source, 4, false).tokens);
        assert_eq!(tokens, expected, "{what}: asked for weights");
        assert!(!translation.weights.is_empty());
        for weights in translation.weights {
            assert_eq!(weights.dims(), [3, 7], "{what}");
            for (row, example) in read(weights).chunks(7).zip(&sources) {
                let (tokens, padding) = row.split_at(example.source.len());
                // Sparsemax leaves tokens out.
                let sparse = model.decoder.attention.kind() == AttentionKind::Sparse;
                let is_weight = |weight: &f64| *weight > 0.0 || (sparse && *weight == 0.0);
                assert!(tokens.iter().all(is_weight), "{what}: {row:?}");
                let is_zero = padding.iter().all(|weight| *weight == 0.0);
                assert!(is_zero, "{what}: {row:?}");
                let sum: f64 = tokens.iter().sum();
                assert!((sum - 1.0).abs() < 1e-6, "{what}: {row:?}");
            }
        }
    }
    each_model(&without_noise(), check);
}
