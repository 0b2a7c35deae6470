//! Beam search with real models.

use attention_seq2seq::attention::AnyScore;
use attention_seq2seq::model::{BeamOutput, BeamSearchConfig, LengthPenalty, SearchError};
use attention_seq2seq::{
    AttentionKind, Batch, Example, Seq2SeqConfig, Seq2SeqModel, Transformer, TransformerConfig,
    Vocab,
};
use attention_tests::parameters;
use burn::module::Module;
use burn::tensor::Tensor;
use burn_fused_layers::is_in_host_memory;
use burn_fused_layers::recurrent::CellKind;

use crate::models::{biased, constant, each_model};
use crate::support::{
    config, device, drawn, drawn_model, example, examples, examples_of, host, read, source_on_host,
};
use crate::transformer;

fn search(
    config: &BeamSearchConfig,
    model: &impl Seq2SeqModel,
    examples: &[Example],
) -> Vec<Vec<BeamOutput>> {
    let mut decoding = model.decoding(&source_on_host(examples), config.max_len, false);
    config.search(&mut *decoding).unwrap()
}

/// `count` sources of `len` tokens each.
fn sources(count: usize, len: usize, seed: u64) -> Vec<Example> {
    examples_of(&vec![(len, 0); count], [13, 11], seed)
}

/// Scores and tokens are the same to the bit, whichever sources of the same length are searched beside.
fn check_batches(what: &str, model: &impl Seq2SeqModel) {
    let all = sources(13, 5, 3);
    let search_of = |batch: usize, config: &BeamSearchConfig| -> Vec<Vec<BeamOutput>> {
        let outputs = all.chunks(batch).map(|part| search(config, model, part));
        outputs.flatten().collect()
    };
    for beam in [1, 4] {
        let config = BeamSearchConfig::new(7)
            .with_beam(beam)
            .with_n_best(beam.min(3));
        let expected = search_of(1, &config);
        for batch in [5, 13] {
            let found = search_of(batch, &config);
            // Equal in all bits: no result is NaN, or 0 of the other sign.
            assert_eq!(found, expected, "{what}, {config}, {batch} at once");
        }
    }
}

#[test]
fn results_do_not_depend_on_the_batch_to_the_bit() {
    // The products of a GPU may add up in another order where there are other rows.
    if !is_in_host_memory(&host()) {
        return;
    }
    for &kind in AttentionKind::ALL {
        let config = config().with_layers(2).with_cell(CellKind::Lstm);
        check_batches(&kind.to_string(), &drawn_model(kind, &config, 3).valid());
    }
    transformer::each_model(|what, model| check_batches(what, &model.valid()));
    // Sizes that are no multiple of a vector, and larger than a block of the kernels.
    for kind in [AttentionKind::Additive, AttentionKind::Dot] {
        let config = Seq2SeqConfig::new(13, 11)
            .with_embedding_size(37)
            .with_hidden_size(134)
            .with_layers(2);
        check_batches("a large model", &drawn_model(kind, &config, 5).valid());
    }
}

/// A beam of one is greedy search, in its outputs and where they end.
fn check_greedy(what: &str, model: &impl Seq2SeqModel) {
    let all = [3, 5, 8, 1].map(|len| sources(4, len, len as u64)).concat();
    for max_len in [1, 6] {
        let greedy = model.greedy(&source_on_host(&all), max_len, false);
        for penalty in [0.0, 1.5] {
            let penalty = LengthPenalty::Gnmt(penalty);
            let config = BeamSearchConfig::new(max_len).with_length_penalty(penalty);
            for (index, output) in search(&config, model, &all).iter().enumerate() {
                let [output] = &output[..] else {
                    panic!("{what}: {output:?}")
                };
                assert_eq!(output.tokens, greedy.tokens[index], "{what}");
                assert_eq!(output.ended, greedy.ended[index], "{what}");
            }
        }
    }
}

#[test]
fn a_beam_of_one_is_greedy_search() {
    each_model(AttentionKind::ALL, |what, _, model| {
        check_greedy(what, &model.valid());
    });
    transformer::each_model(|what, model| check_greedy(what, &model.valid()));
}

/// Outputs of up to three tokens of the data, in every order.
fn every_output(of_data: std::ops::Range<u32>) -> Vec<Vec<u32>> {
    let mut all = vec![vec![]];
    let mut last = all.clone();
    for _ in 0..3 {
        let extended = |token| last.iter().map(move |it| [&it[..], &[token]].concat());
        last = of_data.clone().flat_map(extended).collect();
        all.extend(last.clone());
    }
    all
}

/// A wide beam finds the most likely of all outputs, with the probabilities of teacher forcing: `logits` of a batch.
fn check_exhaustive(what: &str, model: &impl Seq2SeqModel, logits: impl Fn(&Batch) -> Tensor<3>) {
    let source = sources(1, 4, 8).remove(0).source;
    // The vocabulary has seven tokens; four are special.
    let outputs = every_output(4..7);
    let of_target = |target: &Vec<u32>| example(&source, target);
    let examples: Vec<Example> = outputs.iter().map(of_target).collect();
    let logits = logits(&Batch::new(&examples, &host()));
    let [_, steps, tokens] = logits.dims();
    let logits = read(logits);
    let mut expected: Vec<(f64, &Vec<u32>)> = outputs
        .iter()
        .enumerate()
        .filter(|(_, output)| output.len() < 3)
        .map(|(index, output)| {
            let of_step = |step: usize| {
                let row = &logits[(index * steps + step) * tokens..][..tokens];
                let may_be = |token: usize| token == Vocab::EOS as usize || token >= 4;
                let all = (0..tokens).filter(|&it| may_be(it));
                let sum: f64 = all.map(|it| row[it].exp()).sum();
                let token = output.get(step).copied().unwrap_or(Vocab::EOS);
                row[token as usize] - sum.ln()
            };
            ((0..=output.len()).map(of_step).sum(), output)
        })
        .collect();
    expected.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let config = BeamSearchConfig::new(3).with_beam(40).with_n_best(13);
    let found = search(&config, model, &examples[..1]).remove(0);
    assert_eq!(found.len(), expected.len());
    for (found, (sum, tokens)) in found.iter().zip(expected) {
        assert_eq!(&found.tokens, tokens, "{what}");
        let is_near = (found.log_probability - sum).abs() < 1e-5;
        assert!(found.ended && is_near, "{what}: {found:?} {sum}");
    }
}

#[test]
fn a_wide_beam_finds_what_teacher_forcing_finds_most_likely() {
    for layers in [1, 2] {
        for &kind in AttentionKind::ALL {
            let config = Seq2SeqConfig::new(13, 7)
                .with_hidden_size(6)
                .with_layers(layers);
            let model = drawn_model(kind, &config, layers as u64).valid();
            let logits = |batch: &Batch| model.forward(batch);
            check_exhaustive(&format!("{kind}, {layers} layers"), &model, logits);
        }
        for &kind in AttentionKind::SCORES {
            let config = TransformerConfig::new(13, 7)
                .with_hidden_size(6)
                .with_heads(3)
                .with_layers(layers);
            let score = |_| kind.score(6 / config.heads, &device()).unwrap();
            let model: Transformer<AnyScore> = drawn(config.init_with(score, &device()), 4);
            let model = model.valid();
            let logits = |batch: &Batch| model.forward(batch);
            let what = format!("transformer of {kind}, {layers} layers");
            check_exhaustive(&what, &model, logits);
        }
    }
}

#[test]
fn special_tokens_are_never_chosen() {
    let config = BeamSearchConfig::new(6).with_beam(5).with_n_best(5);
    let sources = examples(&[(3, 0), (3, 0)], &self::config(), 8);
    for token in [Vocab::PAD, Vocab::BOS, Vocab::UNK] {
        let expected = search(&config, &biased(token, f64::NEG_INFINITY).valid(), &sources);
        for bias in [100.0, f64::INFINITY, f64::NAN] {
            let found = search(&config, &biased(token, bias).valid(), &sources);
            assert_eq!(found, expected, "{token} {bias}");
            let mut outputs = found.iter().flatten();
            assert!(outputs.all(|output| output.tokens.iter().all(|&it| it >= 4)));
        }
    }
}

#[test]
fn outputs_are_cut_off_at_the_limit() {
    let sources = sources(2, 3, 1);
    let config = BeamSearchConfig::new(6);
    for outputs in search(&config, &constant(5).valid(), &sources) {
        let expected = (&[5; 6][..], false);
        assert_eq!((outputs[0].tokens.as_slice(), outputs[0].ended), expected);
    }
    for outputs in search(&config, &constant(Vocab::EOS).valid(), &sources) {
        assert_eq!((outputs[0].tokens.len(), outputs[0].ended), (0, true));
    }
}

#[test]
fn a_model_of_nans_is_an_error() {
    let model = drawn_model(AttentionKind::Additive, &config(), 7);
    let nan = parameters::changed(model, |_, value| value.map(|_| f64::NAN)).valid();
    for model in [nan, biased(7, f64::INFINITY).valid()] {
        for beam in [1, 3] {
            let config = BeamSearchConfig::new(6).with_beam(beam);
            let mut decoding = model.decoding(&source_on_host(&sources(2, 3, 1)), 6, false);
            let error = config.search(&mut *decoding).unwrap_err();
            assert_eq!(error, SearchError::NoProbabilities { position: 1 });
        }
    }
}

#[test]
fn a_coverage_penalty_wants_all_of_the_source_read() {
    let config = BeamSearchConfig::new(6).with_beam(8).with_n_best(8);
    let sources = sources(3, 5, 2);
    let model = drawn_model(AttentionKind::Additive, &self::config(), 3).valid();
    let found = |config: &BeamSearchConfig| {
        let mut decoding = model.decoding(&source_on_host(&sources), config.max_len, true);
        config.search(&mut *decoding).unwrap()
    };
    // With weights, attention is computed otherwise: the last bits may differ.
    let plain = found(&config);
    let without = search(&config, &model, &sources);
    for (plain, without) in plain.iter().flatten().zip(without.iter().flatten()) {
        assert_eq!(plain.tokens, without.tokens);
        assert!((plain.score - without.score).abs() < 1e-5);
    }
    let covering = found(&config.clone().with_coverage_penalty(5.0));
    assert_ne!(covering, plain);
    for output in covering.iter().flatten() {
        assert!(output.score <= output.log_probability, "{output:?}");
    }
    // A Transformer has no single attention to the source.
    let config = config.with_coverage_penalty(0.2);
    transformer::each_model(|what, model| {
        let model = model.valid();
        let mut decoding = model.decoding(&source_on_host(&sources), 6, true);
        let error = config.search(&mut *decoding).unwrap_err().to_string();
        let expected = "the coverage penalty: expected recurrent models";
        assert!(error.starts_with(expected), "{what}: {error}");
    });
}
