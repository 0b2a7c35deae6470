//! The model: against PyTorch, under padding, in greedy search, in training.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use attention_seq2seq::attention::{AnyAttention, AttentionKind};
use attention_seq2seq::batch::{Example, Source};
use attention_seq2seq::model::{Encoder, EncoderConfig, Gru, Seq2Seq, Seq2SeqConfig};
use attention_seq2seq::train::Trainee;
use attention_seq2seq::vocab::Vocab;
use burn::module::{Module, Param};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Tensor, TensorData};
use burn::train::{InferenceStep, ItemLazy, TrainStep};
use serde::Deserialize;
use support::*;

#[derive(Deserialize)]
struct Array {
    shape: Vec<usize>,
    data: Vec<f64>,
}

impl Array {
    fn tensor<const D: usize>(&self) -> Tensor<D> {
        let data = TensorData::new(self.data.clone(), self.shape.clone());
        Tensor::from_data(data, &device())
    }

    /// PyTorch keeps a linear map as `[out, in]`, Burn as `[in, out]`.
    fn transposed(&self) -> Tensor<2> {
        self.tensor::<2>().transpose()
    }
}

#[derive(Deserialize)]
struct Case {
    name: String,
    bidirectional: bool,
    lengths: Option<Vec<usize>>,
    inputs: BTreeMap<String, Array>,
    outputs: BTreeMap<String, Array>,
    gradients: BTreeMap<String, Array>,
}

/// What PyTorch's GRU computes: `tests/reference/gru.json` of the workspace.
fn pytorch() -> Vec<Case> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<Case>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/gru.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let file: File = serde_json::from_str(&text).unwrap();
    assert_eq!(
        file.cases.len(),
        4,
        "one or two directions, whole or with lengths"
    );
    file.cases
}

impl Case {
    /// Batch, steps and the size of an input.
    fn sizes(&self) -> [usize; 3] {
        self.inputs["input"].shape.clone().try_into().unwrap()
    }

    /// `hidden_size`, of all directions together.
    fn hidden_size(&self) -> usize {
        self.outputs["output"].shape[2]
    }

    fn lens(&self) -> Vec<usize> {
        let [batch, steps, _] = self.sizes();
        self.lengths.clone().unwrap_or(vec![steps; batch])
    }

    /// The number of the token whose embedding is the input at this place; padding has its own.
    fn token(&self, example: usize, step: usize) -> usize {
        1 + example * self.sizes()[1] + step
    }

    fn source(&self) -> Source {
        let lens = self.lens();
        let tokens = |(example, &len): (usize, &usize)| {
            (0..len)
                .map(|step| self.token(example, step) as u32)
                .collect()
        };
        let sources: Vec<Vec<u32>> = lens.iter().enumerate().map(tokens).collect();
        Source::new(sources.iter().map(Vec::as_slice), &device())
    }

    /// The encoder with these parameters, that reads these inputs.
    fn encoder(&self) -> Encoder {
        let [batch, steps, size] = self.sizes();
        let config = EncoderConfig::new(1 + batch * steps, size, self.hidden_size());
        let mut encoder = config
            .with_bidirectional(self.bidirectional)
            .init(&device());
        let inputs = self.inputs["input"]
            .tensor::<3>()
            .reshape([batch * steps, size]);
        let padding = Tensor::full([1, size], 7.0, &device());
        encoder.embedding.weight = parameter(Tensor::cat(vec![padding, inputs], 0));
        for (gru, suffix) in grus(&mut encoder) {
            let input = |name: &str| &self.inputs[&format!("{name}{suffix}")];
            gru.input.weight = parameter(input("weight_ih_l0").transposed());
            gru.hidden.weight = parameter(input("weight_hh_l0").transposed());
            gru.input.bias = Some(parameter(input("bias_ih_l0").tensor()));
            gru.hidden.bias = Some(parameter(input("bias_hh_l0").tensor()));
        }
        encoder
    }
}

fn parameter<const D: usize>(tensor: Tensor<D>) -> Param<Tensor<D>> {
    Param::from_tensor(tensor.detach()).set_require_grad(true)
}

/// The directions, with what PyTorch appends to the names of their parameters.
fn grus(encoder: &mut Encoder) -> impl Iterator<Item = (&mut Gru, &'static str)> {
    let forward = encoder.forward.iter_mut().map(|gru| (gru, ""));
    forward.chain(encoder.backward.iter_mut().map(|gru| (gru, "_reverse")))
}

#[test]
fn the_encoder_is_pytorchs_gru() {
    const TOLERANCE: f64 = 1e-5;
    for case in pytorch() {
        let what = |of: &str| format!("{}: {of}", case.name);
        let [batch, steps, size] = case.sizes();
        let hidden = case.hidden_size();
        let mut encoder = case.encoder();
        let encoded = encoder.forward(&case.source());
        assert_eq!(encoded.states.dims(), [batch, steps, hidden]);

        let states = read(encoded.states.clone());
        for (example, len) in case.lens().into_iter().enumerate() {
            let rows =
                |numbers: &[f64]| numbers[example * steps * hidden..][..len * hidden].to_vec();
            let expected = rows(&case.outputs["output"].data);
            assert_close(&what("states"), &rows(&states), &expected, TOLERANCE);
        }
        let [last] = <[Tensor<2>; 1]>::try_from(encoded.last).unwrap();
        let ends = &case.outputs["hidden"];
        let ends = (0..ends.shape[0]).map(|at| ends.tensor::<3>().narrow(0, at, 1));
        let ends = Tensor::cat(ends.collect(), 2).reshape([batch, hidden]);
        assert_close(&what("last"), &read(last), &read(ends), TOLERANCE);

        // States at padding are arbitrary: only those of tokens receive a gradient.
        let lens = case.lens();
        let mut received = case.inputs["grad_output"].data.clone();
        for (row, received) in received.chunks_mut(hidden).enumerate() {
            if row % steps >= lens[row / steps] {
                received.fill(0.0);
            }
        }
        let received = TensorData::new(received, [batch, steps, hidden]);
        let loss = (encoded.states * Tensor::from_data(received, &device())).sum();
        let gradients = loss.backward();
        let gradient = |parameter: &Param<Tensor<2>>| parameter.val().grad(&gradients).unwrap();

        let rows = gradient(&encoder.embedding.weight);
        let padding = read(rows.clone().narrow(0, 0, 1));
        assert_eq!(padding, vec![0.0; size], "{}", what("gradient of padding"));
        let inputs = read(rows.narrow(0, 1, batch * steps));
        let expected = &case.gradients["input"].data;
        assert_close(&what("gradient of inputs"), &inputs, expected, TOLERANCE);

        for (gru, suffix) in grus(&mut encoder) {
            let check = |name: &str, actual: Vec<f64>, expected: Vec<f64>| {
                let of = format!("gradient of {name}{suffix}");
                assert_close(&what(&of), &actual, &expected, TOLERANCE);
            };
            let expected = |name: &str| &case.gradients[&format!("{name}{suffix}")];
            for (name, linear) in [("ih", &gru.input), ("hh", &gru.hidden)] {
                let weight = format!("weight_{name}_l0");
                let actual = read(gradient(&linear.weight));
                check(&weight, actual, read(expected(&weight).transposed()));
                let bias = format!("bias_{name}_l0");
                let actual = linear.bias.as_ref().unwrap().val().grad(&gradients);
                let actual = read(actual.unwrap());
                check(&bias, actual, expected(&bias).data.clone());
            }
        }
    }
}

fn config() -> Seq2SeqConfig {
    Seq2SeqConfig::new(13, 11)
        .with_embedding_size(5)
        .with_hidden_size(6)
}

/// One and two layers, one and two directions.
fn configs() -> [Seq2SeqConfig; 3] {
    [
        config(),
        config().with_layers(2),
        config().with_layers(2).with_bidirectional(false),
    ]
}

/// Runs `check` on every shape of model with each of these attentions.
fn each_model(
    kinds: &[AttentionKind],
    check: impl Fn(&str, &Seq2SeqConfig, &Seq2Seq<AnyAttention>),
) {
    for (seed, config) in configs().into_iter().enumerate() {
        for &kind in kinds {
            let model = drawn_model(kind, &config, seed as u64);
            check(&format!("{kind:?} {config:?}"), &config, &model);
        }
    }
}

#[test]
fn logits_are_those_of_plain_loops() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        let numbers = parameters(model);
        let all = examples(&[(3, 4), (7, 2), (1, 0), (4, 5)], config, 16);
        let logits = model.forward(&batch(&all));
        assert_eq!(logits.dims(), [4, 6, 11]);
        for (at, example) in all.iter().enumerate() {
            let steps = example.target.len() + 1;
            let actual = logits.clone().narrow(0, at, 1).narrow(1, 0, steps);
            let expected = oracle::logits(&numbers, config, example);
            assert_close(what, &read(actual), &expected, 2e-6);
        }
    }
    // Those that the plain loops know.
    each_model(&[AttentionKind::Additive, AttentionKind::Dot], check);
}

#[test]
fn padding_changes_nothing() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        let of = |lens: &[(usize, usize)]| {
            let mut all = examples(&[(3, 2)], config, 1);
            all.extend(examples(lens, config, 2));
            logits_and_gradients(model, &all, 0)
        };
        let (logits, gradients) = of(&[]);
        assert!(
            gradients.values().all(|g| g.iter().any(|g| *g != 0.0)),
            "{what}"
        );
        // Beside sources and targets that are shorter, longer, and much longer.
        for lens in [
            &[(2, 1)][..],
            &[(4, 2)],
            &[(3, 7)],
            &[(9, 5), (1, 0), (3, 2)],
        ] {
            let (padded, padded_gradients) = of(lens);
            assert_close(
                &format!("{what}: logits beside {lens:?}"),
                &padded,
                &logits,
                1e-6,
            );
            let what = format!("{what}: gradients beside {lens:?}");
            assert_all_close(&what, &padded_gradients, &gradients, 2e-6);
        }
    }
    each_model(&without_noise(), check);
}

#[test]
fn encoder_states_are_the_same_bits_beside_a_longer_source() {
    for config in configs() {
        let model = drawn_model(AttentionKind::Dot, &config, 3);
        let encode = |other: usize| {
            let sources = examples(&[(3, 0), (other, 0)], &config, 4);
            let sources = sources.iter().map(|example| example.source.as_slice());
            let encoded = model.encoder.forward(&Source::new(sources, &device()));
            let states = encoded.states.narrow(0, 0, 1).narrow(1, 0, 3);
            let last = encoded
                .last
                .into_iter()
                .map(|last| read(last.narrow(0, 0, 1)));
            (read(states), last.collect::<Vec<_>>())
        };
        assert_eq!(encode(3), encode(8), "{config:?}");
    }
}

#[test]
fn the_order_of_a_batch_is_the_order_of_its_logits() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        let all = examples(&[(3, 2), (7, 5), (1, 6), (5, 0)], config, 5);
        let order = [2, 0, 3, 1];
        let permuted = order.map(|from| all[from].clone());
        let (batch, permuted) = (batch(&all), batch(&permuted));
        let logits = model.forward(&batch);
        let of_permuted = model.forward(&permuted);
        for (to, from) in order.into_iter().enumerate() {
            let expected = read(logits.clone().narrow(0, from, 1));
            let actual = read(of_permuted.clone().narrow(0, to, 1));
            assert_close(what, &actual, &expected, 1e-6);
        }
        let all_gradients = |batch| {
            let loss = loss(model, batch);
            (read(loss.clone()), gradients(model, &loss.backward()))
        };
        let ((loss, of_loss), (other, of_other)) =
            (all_gradients(&batch), all_gradients(&permuted));
        assert_close(what, &other, &loss, 1e-6);
        assert_all_close(what, &of_other, &of_loss, 1e-6);
    }
    each_model(&without_noise(), check);
}

#[test]
fn greedy_says_what_teacher_forcing_finds_most_likely() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        const MAX_LEN: usize = 6;
        let mut all = examples(&[(3, 0), (7, 0), (1, 0), (5, 0), (4, 0)], config, 6);
        let sources: Vec<&[u32]> = all
            .iter()
            .map(|example| example.source.as_slice())
            .collect();
        let translation = model.greedy(&Source::new(sources.clone(), &device()), MAX_LEN, false);
        // Padding has no say in what is said.
        for (source, tokens) in sources.iter().zip(&translation.tokens) {
            let alone = model.greedy(&Source::new([*source], &device()), MAX_LEN, false);
            assert_eq!(&alone.tokens[0], tokens, "{what}: alone");
        }
        // Neither do steps after the end: the model is fed what it said, without them.
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

/// A model that says `token` whatever it reads.
fn obsessed(token: u32) -> Seq2Seq<AnyAttention> {
    with_parameters(
        drawn_model(AttentionKind::Additive, &config(), 7),
        |path, values| {
            if path == "decoder.output.bias" {
                values[token as usize] = 100.0;
            }
        },
    )
}

#[test]
fn greedy_stops_at_the_end_or_at_the_limit() {
    let sources = examples(&[(3, 0), (5, 0)], &config(), 8);
    let source = Source::new(
        sources.iter().map(|example| example.source.as_slice()),
        &device(),
    );

    let ended = obsessed(Vocab::EOS).greedy(&source, 9, true);
    assert_eq!(ended.tokens, vec![Vec::<u32>::new(); 2]);
    assert_eq!(ended.weights.len(), 1, "the step that said the end");

    for limit in [0, 1, 9] {
        let cut_off = obsessed(5).greedy(&source, limit, true);
        assert_eq!(cut_off.tokens, vec![vec![5; limit]; 2]);
        assert_eq!(cut_off.weights.len(), limit);
    }
    assert!(obsessed(5).greedy(&source, 3, false).weights.is_empty());
}

#[test]
fn weights_of_greedy_sum_to_one_and_are_zero_at_padding() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        let sources = examples(&[(3, 0), (7, 0), (1, 0)], config, 10);
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

#[test]
fn a_step_measures_tokens_up_to_the_end_of_each_target() {
    let example = |target: &[u32]| Example {
        source: vec![4, 5],
        target: target.to_vec(),
    };
    let all = [example(&[5, 5]), example(&[]), example(&[5]), example(&[])];
    for token in [5, Vocab::EOS] {
        let trainee = Trainee::new(obsessed(token));
        let loss = read(loss(&trainee.model, &batch(&all)))[0];
        let trained = TrainStep::step(&trainee, batch(&all)).item.sync().unwrap();
        let valid = InferenceStep::step(&trainee.valid(), batch_on(&all, &device().inner()));
        let valid = valid.sync().unwrap();
        // The targets have 3, 1, 2 and 1 tokens, ends included. Told the true tokens, the model that says 5 errs in
        // each end, the one that says the end in each token, and what they say after an end counts nowhere. Hearing
        // itself, the first goes on to the width of the batch, 3, the second stops at once.
        let (exact, told, heard) = match token {
            5 => (0.0, 4.0 / 7.0, 9.0 / 7.0),
            _ => (50.0, 3.0 / 7.0, 3.0 / 7.0),
        };
        assert_close(
            "training",
            &measured(&trained),
            &[loss, exact, 100.0 * told],
            1e-6,
        );
        assert_close(
            "validation",
            &measured(&valid),
            &[loss, exact, 100.0 * heard],
            1e-6,
        );
    }
}

#[test]
fn a_training_step_has_the_gradients_of_its_loss() {
    let trainee = Trainee::new(drawn_model(AttentionKind::Additive, &config(), 17));
    let batch = batch(&examples(&[(3, 2), (5, 4), (2, 0)], &config(), 18));
    let actual = step_gradients(&trainee, TrainStep::step(&trainee, batch.clone()).grads);
    let expected = loss(&trainee.model, &batch).backward();
    let expected = step_gradients(&trainee, GradientsParams::from_grads(expected, &trainee));
    assert_close("gradients", &actual, &expected, 1e-6);
}

#[test]
fn dropout_is_for_training_only() {
    let dropout = config().with_dropout(0.5);
    let model = drawn_model(AttentionKind::Additive, &dropout, 11);
    let all = examples(&[(3, 2), (5, 4)], &config(), 12);
    let without = drawn_model(AttentionKind::Additive, &config(), 11).forward(&batch(&all));
    let without = read(without);
    assert_ne!(
        read(model.forward(&batch(&all))),
        without,
        "nothing is dropped"
    );
    let valid = model.valid().forward(&batch_on(&all, &device().inner()));
    assert_close("valid", &read(valid), &without, 1e-6);
}

/// Copies of up to four of three letters.
fn copies(count: usize, seed: u64) -> Vec<Example> {
    let mut next = draw(seed);
    let mut number = move |below: usize| (0.5 * (next() + 1.0) * below as f64) as usize;
    (0..count)
        .map(|_| {
            let len = 1 + number(4);
            let source: Vec<u32> = (0..len).map(|_| 4 + number(3) as u32).collect();
            Example {
                target: source.clone(),
                source,
            }
        })
        .collect()
}

/// Trains on every example at once, and returns the model with the losses of the first and the last step.
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
        let output = TrainStep::step(&trainee, batch.clone());
        trainee = optimizer.step(0.03, trainee, output.grads);
    }
    let after = read(loss(&trainee.model, &batch))[0];
    (trainee.model, [before, after])
}

#[test]
fn every_shape_of_model_learns_with_every_parameter() {
    fn check(kind: AttentionKind, config: &Seq2SeqConfig) {
        let copies = copies(20, 14);
        let start = drawn_model(kind, config, 13);
        let (learned, [before, after]) = learn(kind, config, &copies, 12);
        assert!(
            after < 0.7 * before,
            "{kind:?} {config:?}: {before} to {after}"
        );
        let (start, learned) = (parameters(&start), parameters(&learned));
        for (name, start) in start {
            assert!(
                learned[&name] != start,
                "{kind:?} {config:?}: {name} did not learn"
            );
        }
    }
    for config in configs() {
        let config = Seq2SeqConfig {
            source_vocab_size: 7,
            target_vocab_size: 7,
            ..config
        };
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
    let sources = copies.iter().map(|example| example.source.as_slice());
    let source = Source::new(sources, &device().inner());
    // Outputs end at different steps of one batch.
    let translation = model.greedy(&source, 6, false);
    for (tokens, example) in translation.tokens.iter().zip(&copies) {
        assert_eq!(tokens, &example.target);
    }
}

#[test]
#[should_panic(expected = "hidden_size of a bidirectional encoder expected even, got 7")]
fn an_odd_bidirectional_encoder_is_refused() {
    EncoderConfig::new(5, 3, 7).init(&device());
}

#[test]
#[should_panic(expected = "layers expected at least 1, got 0")]
fn an_encoder_without_layers_is_refused() {
    EncoderConfig::new(5, 3, 6).with_layers(0).init(&device());
}
