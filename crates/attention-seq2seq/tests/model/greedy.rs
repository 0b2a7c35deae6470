//! Greedy search, and its attention weights.

use attention_seq2seq::{AnyAttention, AttentionKind, Seq2Seq, Seq2SeqConfig, Source, Vocab};

use crate::models::{config, constant, each_model};
use crate::support::{batch, device, examples, read, without_noise};

#[test]
fn greedy_search_predicts_what_teacher_forcing_finds_most_likely() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        const MAX_LEN: usize = 6;
        let mut all = examples(&[(3, 0), (7, 0), (1, 0), (5, 0), (4, 0)], config, 6);
        let sources: Vec<&[u32]> = all
            .iter()
            .map(|example| example.source.as_slice())
            .collect();
        let translation = model.greedy(&Source::new(sources.clone(), &device()), MAX_LEN, false);
        // Padding changes no output.
        for (source, tokens) in sources.iter().zip(&translation.tokens) {
            let alone = model.greedy(&Source::new([*source], &device()), MAX_LEN, false);
            assert_eq!(&alone.tokens[0], tokens, "{what}: alone");
        }
        // Neither do steps after the end: teacher forcing on the outputs gives the outputs.
        for (example, tokens) in all.iter_mut().zip(&translation.tokens) {
            example.target = tokens.clone();
        }
        let likely = model.forward(&batch(&all)).argmax(2).squeeze_dim::<2>(2);
        let [_, width] = likely.dims();
        let likely = likely.try_into_vec_as::<u32>().unwrap();
        for (likely, tokens) in likely.chunks(width).zip(&translation.tokens) {
            assert_eq!(&likely[..tokens.len()], tokens.as_slice(), "{what}");
            if tokens.len() < MAX_LEN {
                assert_eq!(likely[tokens.len()], Vocab::EOS, "{what}: no end");
            }
        }
    }
    each_model(&without_noise(), check);
}

#[test]
fn greedy_stops_at_the_end_or_at_the_limit() {
    let sources = examples(&[(3, 0), (5, 0)], &config(), 8);
    let source = Source::new(
        sources.iter().map(|example| example.source.as_slice()),
        &device(),
    );

    let ended = constant(Vocab::EOS).greedy(&source, 9, true);
    assert_eq!(ended.tokens, vec![Vec::<u32>::new(); 2]);
    assert_eq!(ended.weights.len(), 1, "the step that predicted the end");

    for limit in [0, 1, 9] {
        let cut_off = constant(5).greedy(&source, limit, true);
        assert_eq!(cut_off.tokens, vec![vec![5; limit]; 2]);
        assert_eq!(cut_off.weights.len(), limit);
    }
    assert!(constant(5).greedy(&source, 3, false).weights.is_empty());
}

#[test]
fn weights_of_greedy_sum_to_one_and_are_zero_at_padding() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        // Of this seed no key is beyond the width of the kernel attention, which would give it weight 0.
        let sources = examples(&[(3, 0), (7, 0), (1, 0)], config, 12);
        let source = Source::new(
            sources.iter().map(|example| example.source.as_slice()),
            &device(),
        );
        let translation = model.greedy(&source, 4, true);
        let without = model.greedy(&source, 4, false);
        assert_eq!(
            translation.tokens, without.tokens,
            "{what}: asked for weights"
        );
        assert!(!translation.weights.is_empty());
        for weights in translation.weights {
            assert_eq!(weights.dims(), [3, 7], "{what}");
            for (row, example) in read(weights).chunks(7).zip(&sources) {
                let (tokens, padding) = row.split_at(example.source.len());
                // Sparsemax leaves tokens out.
                let sparse = model.decoder.attention.kind() == AttentionKind::Sparse;
                let is_weight = |weight: &f64| *weight > 0.0 || (sparse && *weight == 0.0);
                assert!(tokens.iter().all(is_weight), "{what}: {row:?}");
                assert!(
                    padding.iter().all(|weight| *weight == 0.0),
                    "{what}: {row:?}"
                );
                let sum: f64 = tokens.iter().sum();
                assert!((sum - 1.0).abs() < 1e-6, "{what}: {row:?}");
            }
        }
    }
    each_model(&without_noise(), check);
}
