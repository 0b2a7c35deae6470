//! Steps of training: their metrics, their gradients, dropout, and learning.

use attention_seq2seq::attention::AnyAttention;
use attention_seq2seq::{
    AttentionKind, Example, Seq2Seq, Seq2SeqConfig, Seq2SeqModel, Trainee, Vocab,
};
use attention_tests::parameters;
use burn::module::Module;
use burn::nn::DropoutConfig;
use burn::optim::{AdamConfig, GradientsParams};
use rand::RngExt;

use crate::models::{configs, constant};
use crate::support::{
    assert_close, batch, batch_on, config, drawn_model, example, examples, host, loss, measured,
    random, read, source_on_host, step_gradients, without_noise,
};

#[test]
fn a_step_measures_tokens_up_to_the_end_of_each_target() {
    let all = [&[5, 5][..], &[], &[5], &[]].map(|target| example(&[4, 5], target));
    for token in [5, Vocab::EOS] {
        let trainee = Trainee::new(constant(token));
        let loss = read(loss(&trainee.model, &batch(&all)))[0];
        let trained = trainee.train_step(batch(&all)).output;
        let valid = trainee.valid().valid_step(batch_on(&all, &host()));
        // The targets have 3, 1, 2 and 1 tokens, ends included. Under teacher forcing the model that predicts 5 errs at
        // each end, the one that predicts the end errs at each token, and no prediction after an end counts. In greedy
        // search the first goes on to the width of the batch, 3, and the second stops at once.
        let (exact, forced, greedy) = match token {
            5 => (0.0, 4.0 / 7.0, 9.0 / 7.0),
            _ => (50.0, 3.0 / 7.0, 3.0 / 7.0),
        };
        for (what, output, errors) in [("training", trained, forced), ("valid", valid, greedy)] {
            let expected = [loss, exact, 100.0 * errors];
            assert_close(what, &measured(&output), &expected, 1e-6);
        }
    }
}

#[test]
fn a_step_clips_the_gradients_of_all_parameters_together() {
    let model = drawn_model(AttentionKind::Additive, &config(), 17);
    let batch = batch(&examples(&[(3, 2), (5, 4), (2, 0)], &config(), 18));
    let gradients = |trainee: &Trainee<Seq2Seq<AnyAttention>>| {
        step_gradients(trainee, trainee.train_step(batch.clone()).gradients)
    };
    let whole = gradients(&Trainee::new(model.clone()));
    let norm = whole.iter().map(|x| x * x).sum::<f64>().sqrt();
    let unclipped = Trainee::new(model.clone()).train_step(batch.clone());
    assert!(unclipped.norm.is_none());
    let trainee = Trainee::new(model).with_clip(norm as f32 / 4.0);
    let found = trainee.train_step(batch.clone()).norm.unwrap();
    assert_close("the norm", &[found.read().unwrap()], &[norm], 1e-6);
    let clipped = gradients(&trainee);
    let expected: Vec<f64> = whole.iter().map(|x| x / 4.0).collect();
    assert_close("gradients", &clipped, &expected, 1e-6);
}

#[test]
#[should_panic(expected = "norm to clip to expected above 0, got -1")]
fn a_negative_norm_to_clip_to_is_refused() {
    let _ = Trainee::new(drawn_model(AttentionKind::Additive, &config(), 17)).with_clip(-1.0);
}

#[test]
fn a_training_step_has_the_gradients_of_its_loss() {
    let trainee = Trainee::new(drawn_model(AttentionKind::Additive, &config(), 17));
    let batch = batch(&examples(&[(3, 2), (5, 4), (2, 0)], &config(), 18));
    let actual = step_gradients(&trainee, trainee.train_step(batch.clone()).gradients);
    let expected = loss(&trainee.model, &batch).backward();
    let expected = step_gradients(&trainee, GradientsParams::from_grads(expected, &trainee));
    assert_close("gradients", &actual, &expected, 1e-6);
}

#[test]
fn dropout_is_for_training_only() {
    let model = drawn_model(AttentionKind::Additive, &config().with_dropout(0.5), 11);
    let all = examples(&[(3, 2), (5, 4)], &config(), 12);
    let without = drawn_model(AttentionKind::Additive, &config(), 11).forward(&batch(&all));
    let without = read(without);
    let dropped = read(model.forward(&batch(&all)));
    assert_ne!(dropped, without, "nothing is dropped");
    let valid = model.valid().forward(&batch_on(&all, &host()));
    assert_close("valid", &read(valid), &without, 1e-6);
}

#[test]
fn the_decoder_drops_if_what_it_drops_or_the_layer_behind_trains() {
    let config = || {
        config()
            .with_layers(2)
            .with_dropout(0.5)
            .with_embedding_dropout(0.5)
            .with_layer_dropout(0.5)
    };
    let whole = drawn_model(AttentionKind::Additive, &config(), 11);
    let all = examples(&[(3, 2), (5, 4)], &config(), 12);
    let batch = batch_on(&all, &host());
    for part in ["embedding", "input", "upper", "output", "none"] {
        let mut model = whole.valid();
        let (plain, trained) = (&mut model.decoder, &whole.decoder);
        let mut dropout = DropoutConfig::new(0.0).init();
        plain.embedding_dropout = dropout.clone();
        plain.recurrent.dropout = dropout.clone();
        plain.dropout = dropout.clone();
        dropout.prob = 0.5;
        match part {
            "embedding" => plain.embedding = trained.embedding.clone(),
            "input" => plain.recurrent.layers[0] = trained.recurrent.layers[0].clone(),
            "upper" => plain.recurrent.layers[1] = trained.recurrent.layers[1].clone(),
            "output" => plain.output = trained.output.clone(),
            _ => {}
        }
        match part {
            "embedding" | "input" => plain.embedding_dropout = dropout,
            "upper" => plain.recurrent.dropout = dropout,
            _ => plain.dropout = dropout,
        }
        let logits = || read(model.forward(&batch));
        assert_eq!(logits() != logits(), part != "none", "{part}");
        let loss = || read(model.loss(&batch, 0.0).loss);
        assert_eq!(loss() != loss(), part != "none", "{part}");
    }
}

/// Copies of up to four of three letters.
pub(crate) fn copies(count: usize, seed: u64) -> Vec<Example> {
    let mut random = random(seed);
    let copy = |_| {
        let len = random.random_range(1..=4);
        let source: Vec<u32> = (0..len).map(|_| random.random_range(4..7)).collect();
        example(&source, &source)
    };
    (0..count).map(copy).collect()
}

/// Trains on all examples in each step, and returns the model with the losses before and after.
fn learn(
    kind: AttentionKind,
    config: &Seq2SeqConfig,
    examples: &[Example],
    steps: usize,
) -> (Seq2Seq<AnyAttention>, [f64; 2]) {
    let batch = batch(examples);
    let mut trainee = Trainee::new(drawn_model(kind, config, 13));
    let before = read(loss(&trainee.model, &batch))[0];
    let mut optimizer = AdamConfig::new().init();
    for _ in 0..steps {
        let output = trainee.train_step(batch.clone());
        trainee = optimizer.step(0.03, trainee, output.gradients);
    }
    let after = read(loss(&trainee.model, &batch))[0];
    (trainee.model, [before, after])
}

/// Each parameter has another value after training.
pub(crate) fn assert_all_learned(what: &str, start: &impl Module, learned: &impl Module) {
    let learned = parameters::values(learned);
    for (name, start) in parameters::values(start) {
        assert!(learned[&name] != start, "{what}: {name} did not learn");
    }
}

#[test]
fn every_shape_of_model_learns_with_every_parameter() {
    fn check(kind: AttentionKind, config: &Seq2SeqConfig) {
        let copies = copies(20, 14);
        let start = drawn_model(kind, config, 13);
        let (learned, [before, after]) = learn(kind, config, &copies, 12);
        let what = format!("{kind:?} {config:?}");
        assert!(after < 0.7 * before, "{what}: {before} to {after}");
        assert_all_learned(&what, &start, &learned);
    }
    for mut config in configs() {
        [config.source_vocab_size, config.target_vocab_size] = [7, 7];
        for kind in without_noise() {
            check(kind, &config);
        }
    }
}

#[test]
fn a_copy_task_is_learned_to_the_last_token() {
    let config = Seq2SeqConfig::new(7, 7)
        .with_embedding_size(8)
        .with_hidden_size(16);
    let copies = copies(24, 15);
    let (model, [_, after]) = learn(AttentionKind::Additive, &config, &copies, 120);
    assert!(after < 0.05, "loss {after}");
    let model = model.valid();
    // Outputs end at different steps of one batch.
    let translation = model.greedy(&source_on_host(&copies), 6, false);
    for (tokens, example) in translation.tokens.iter().zip(&copies) {
        assert_eq!(tokens, &example.target);
    }
}
