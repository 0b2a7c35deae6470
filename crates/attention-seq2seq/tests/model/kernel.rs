//! The kernel attention, whose weights are all 0 where every key is farther from the query than its width.

use attention_seq2seq::attention::AnyAttention;
use attention_seq2seq::{AttentionKind, Batch, Seq2Seq, Seq2SeqModel};
use attention_tests::parameters;

use crate::forward::logits_and_gradients;
use crate::support::{
    assert_all_close, assert_close, config, device, drawn_model, examples, read, source,
};

/// A model whose states are so far apart that some queries have no key within the width.
fn far_apart() -> Seq2Seq<AnyAttention> {
    let model = drawn_model(AttentionKind::Kernel, &config(), 19);
    parameters::changed(model, |_, value| value.map(|element| 2.0 * element))
}

#[test]
fn a_query_without_a_key_within_the_width_has_weights_of_0() {
    let sources = examples(&[(3, 0), (7, 0), (1, 0), (5, 0)], &config(), 20);
    let translation = far_apart().greedy(&source(&sources, &device()), 6, true);
    let (mut attending, mut empty) = (0, 0);
    for weights in translation.weights {
        for (row, example) in read(weights).chunks(7).zip(&sources) {
            let (tokens, padding) = row.split_at(example.source.len());
            assert!(padding.iter().all(|weight| *weight == 0.0), "{row:?}");
            assert!(tokens.iter().all(|weight| *weight >= 0.0), "{row:?}");
            let sum: f64 = tokens.iter().sum();
            match sum {
                0.0 => empty += 1,
                _ => attending += 1,
            }
            assert!(sum == 0.0 || (sum - 1.0).abs() < 1e-6, "{row:?}");
        }
    }
    assert!(attending > 0 && empty > 0, "{attending} and {empty}");
}

#[test]
fn padding_changes_nothing_for_a_query_without_weights() {
    let model = far_apart();
    let logits = |batch: &Batch| model.forward(batch);
    for lens in [&[(9, 5), (1, 0), (3, 2)][..], &[(2, 1)]] {
        for seed in 0..4 {
            let mut all = examples(&[(3, 4)], &config(), seed);
            let (alone, gradients) = logits_and_gradients(&model, logits, &all, 0);
            all.extend(examples(lens, &config(), 50 + seed));
            let (padded, padded_gradients) = logits_and_gradients(&model, logits, &all, 0);
            assert_close("logits", &padded, &alone, 1e-6);
            // Larger parameters make a rounding error larger.
            assert_all_close("gradients", &padded_gradients, &gradients, 1e-5);
        }
    }
}
