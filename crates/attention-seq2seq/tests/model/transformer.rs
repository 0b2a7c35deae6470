//! Transformers: padding, greedy search and teacher forcing, weights, training.

use attention_seq2seq::attention::AnyScore;
use attention_seq2seq::model::AttentionHead;
use attention_seq2seq::{
    AttentionKind, Example, Seq2SeqModel, Trainee, Transformer, TransformerConfig, Vocab,
};
use attention_tests::parameters;
use burn::module::Module;
use burn::optim::AdamConfig;

use crate::forward::check_padding;
use crate::greedy::check_teacher_forcing;
use crate::support::{
    assert_all_close, assert_close, batch, batch_on, device, drawn, example, examples_of, host,
    loss_of_logits, read, source_on_host,
};
use crate::training::{assert_all_learned, copies};

fn config() -> TransformerConfig {
    TransformerConfig::new(13, 11)
        .with_hidden_size(6)
        .with_heads(3)
        .with_feed_forward_size(7)
}

/// A model whose decoder attends to the source with this score.
fn model(kind: AttentionKind, config: &TransformerConfig, seed: u64) -> Transformer<AnyScore> {
    let device = device();
    let size = config.hidden_size / config.heads;
    let score = |_| kind.score(size, &device).unwrap();
    drawn(config.init_with(score, &device), seed)
}

/// Runs `check` on a model of one and of two layers, with each score.
pub(crate) fn each_model(check: impl Fn(&str, &Transformer<AnyScore>)) {
    for layers in [1, 2] {
        for &kind in AttentionKind::SCORES {
            let model = model(kind, &config().with_layers(layers), layers as u64);
            check(&format!("{kind}, {layers} layers"), &model);
        }
    }
}

fn examples(lens: &[(usize, usize)], seed: u64) -> Vec<Example> {
    examples_of(lens, [13, 11], seed)
}

#[test]
fn padding_changes_nothing() {
    each_model(|what, model| check_padding(what, model, |batch| model.forward(batch), [1e-5; 2]));
}

#[test]
fn the_loss_is_the_cross_entropy_of_the_logits() {
    each_model(|what, model| {
        let batch = batch(&examples(&[(3, 2), (7, 5), (1, 0)], 5));
        let actual = model.loss(&batch, 0.0);
        let logits = model.forward(&batch);
        let likely = logits.clone().argmax(2).squeeze_dim::<2>(2);
        let expected = loss_of_logits(logits, &batch);
        let losses = [actual.loss, expected];
        let [loss, expected] = losses.each_ref().map(|loss| read(loss.clone()));
        assert_close(what, &loss, &expected, 1e-6);
        let [gradients, expected] =
            losses.map(|loss| parameters::gradients(model, Some(&loss.backward())));
        assert_all_close(what, &gradients, &expected, 1e-5);
        let [predicted, likely] = [actual.predictions, likely].map(|it| {
            let padding = batch.target.clone().equal_scalar(Vocab::PAD);
            it.mask_fill(padding, Vocab::PAD).into_data()
        });
        predicted.assert_eq(&likely, false);
    });
}

#[test]
fn the_end_of_a_source_and_the_places_of_its_tokens_count() {
    let model = model(AttentionKind::Dot, &config(), 3);
    let logits = |source: &[u32]| read(model.forward(&batch(&[example(source, &[5])])));
    assert_ne!(logits(&[4, 5, 6]), logits(&[5, 4, 6]));
    assert_ne!(logits(&[4, 4]), logits(&[4, 4, 4]));
}

#[test]
fn greedy_search_predicts_what_teacher_forcing_finds_most_likely() {
    each_model(|what, model| {
        let (model, device) = (model.valid(), host());
        check_teacher_forcing(what, &model, &device, |batch| model.forward(batch));
    });
}

#[test]
fn weights_are_those_of_a_head_or_the_mean_of_a_layer() {
    each_model(|what, model| {
        let model = model.valid();
        let sources = examples(&[(3, 0), (7, 0), (1, 0)], 12);
        let layers = model.decoder.layers.len();
        let weights = |layer, head| {
            let head = AttentionHead { layer, head };
            let translation = model.greedy(&source_on_host(&sources), 4, true);
            let without = model.greedy(&source_on_host(&sources), 4, false);
            assert_eq!(translation.tokens, without.tokens, "{what}");
            assert_eq!(translation.ended, without.ended, "{what}");
            let (tokens, ended) = (without.tokens, without.ended);
            let source = source_on_host(&sources);
            let weights = model.weights_of_head(&source, &tokens, &ended, head);
            let lens = tokens.iter().zip(ended);
            let steps = lens.map(|(tokens, ended)| tokens.len() + usize::from(ended));
            assert_eq!(translation.weights.len(), steps.max().unwrap(), "{what}");
            if head == AttentionHead::default() {
                let both = weights.iter().zip(translation.weights);
                both.for_each(|(a, b)| assert_eq!(read(a.clone()), read(b), "{what}"));
            }
            let rows = weights.into_iter().flat_map(|weights| {
                // A source of 7 tokens, and its end.
                assert_eq!(weights.dims(), [3, 8], "{what}");
                read(weights)
            });
            rows.collect::<Vec<f64>>()
        };
        let of_last = weights(None, None);
        for (at, row) in of_last.chunks(8).enumerate() {
            let (tokens, padding) = row.split_at(sources[at % 3].source.len() + 1);
            let holds = tokens.iter().all(|it| *it > 0.0) && padding.iter().all(|it| *it == 0.0);
            assert!(holds, "{what}: {row:?}");
            let sum: f64 = row.iter().sum();
            assert!((sum - 1.0).abs() < 1e-5, "{what}: {row:?}");
        }
        assert_eq!(of_last, weights(Some(layers), None));
        let heads = [1, 2, 3].map(|head| weights(Some(layers), Some(head)));
        assert_ne!(heads[0], heads[1]);
        let mean = (0..of_last.len()).map(|at| heads.iter().map(|of| of[at]).sum::<f64>() / 3.0);
        assert_close(what, &of_last, &mean.collect::<Vec<_>>(), 1e-6);
        if layers > 1 {
            assert_ne!(weights(Some(1), None), of_last, "{what}");
        }
        let empty = model.greedy(&source_on_host(&sources), 0, true);
        assert!(empty.weights.is_empty());
    });
}

#[test]
#[should_panic(
    expected = "the layer to look at: expected 1 to 2, the layers of the model, found 3"
)]
fn a_layer_that_there_is_not_is_refused() {
    let model = model(AttentionKind::Dot, &config(), 3).valid();
    let [layer, head] = [Some(3), None];
    let head = AttentionHead { layer, head };
    let source = source_on_host(&examples(&[(3, 0)], 1));
    model.weights_of_head(&source, &[vec![5]], &[true], head);
}

#[test]
fn dropout_is_for_training_only() {
    let all = examples(&[(3, 2), (5, 4)], 12);
    let [dropping, whole] = [0.5, 0.0].map(|dropout| {
        let config = config().with_dropout(dropout);
        model(AttentionKind::Dot, &config, 11)
    });
    let expected = read(whole.forward(&batch(&all)));
    assert_ne!(read(dropping.forward(&batch(&all))), expected);
    let valid = dropping.valid().forward(&batch_on(&all, &host()));
    assert_close("valid", &read(valid), &expected, 1e-6);
}

/// Trains on all examples in each step, and returns the model with the losses before and after.
fn learn(
    start: Transformer<AnyScore>,
    examples: &[Example],
    steps: usize,
) -> (Transformer<AnyScore>, [f64; 2]) {
    let batch = batch(examples);
    let mut trainee = Trainee::new(start).with_clip(1.0);
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    for _ in 0..steps {
        let output = trainee.train_step(batch.clone());
        losses.push(read(output.output.loss)[0]);
        trainee = optimizer.step(0.01, trainee, output.gradients);
    }
    (trainee.model, [losses[0], losses[steps - 1]])
}

#[test]
fn every_score_learns_with_every_parameter() {
    let copies = copies(20, 14);
    let mut config = config();
    [config.source_vocab_size, config.target_vocab_size] = [7, 7];
    for &kind in AttentionKind::SCORES {
        let start = model(kind, &config, 13);
        let (learned, [before, after]) = learn(start.clone(), &copies, 20);
        assert!(after < 0.8 * before, "{kind}: {before} to {after}");
        assert_all_learned(&kind.to_string(), &start, &learned);
    }
}

#[test]
fn a_copy_task_is_learned_to_the_last_token() {
    let copies = copies(24, 15);
    let config = TransformerConfig::new(7, 7)
        .with_hidden_size(16)
        .with_heads(2)
        .with_layers(1)
        .with_feed_forward_size(32);
    let device = device();
    device.seed(3);
    let start = config.init_with(|_| AttentionKind::Dot.score(8, &device).unwrap(), &device);
    let (model, [_, after]) = learn(start, &copies, 150);
    assert!(after < 0.05, "loss {after}");
    let translation = model.valid().greedy(&source_on_host(&copies), 6, false);
    for (tokens, example) in translation.tokens.iter().zip(&copies) {
        assert_eq!(tokens, &example.target);
    }
}
