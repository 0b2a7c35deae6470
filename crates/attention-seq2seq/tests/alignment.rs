//! An attention of a user's own with a state: each step gets the state of the step before, and the penalty is added to
//! the loss. And the attentions of the program: their parameters keep their names.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{Arc, Mutex};

use attention_core::stateful::{AttentionState, StatefulAttention};
use attention_core::{AdditiveAttention, AdditiveAttentionConfig, AttentionOutput, Mask, Memory};
use attention_seq2seq::data::Source;
use attention_seq2seq::{AttentionKind, Example, Seq2Seq, Seq2SeqModel, Trainee};
use attention_tests::parameters;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor};
use support::*;

/// Additive attention that counts its steps: the penalty of step `t` is `t` times the first element of the context.
#[derive(Module, Debug)]
struct Counting {
    attention: AdditiveAttention,
    /// The number of each step, in the order of the calls.
    #[module(skip)]
    calls: Arc<Mutex<Vec<f64>>>,
}

#[derive(Clone, Debug)]
struct Count {
    /// The number of steps, `[batch]`.
    steps: Tensor<1>,
    /// The sum of their penalties, `[batch]`.
    penalty: Tensor<1>,
}

impl AttentionState for Count {
    fn select(&self, indices: Tensor<1, Int>) -> Self {
        Self {
            steps: self.steps.clone().select(0, indices.clone()),
            penalty: self.penalty.clone().select(0, indices),
        }
    }
}

impl StatefulAttention for Counting {
    type State = Count;

    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        self.attention.prepare(keys, values, mask)
    }

    fn initial_state(&self, memory: &Memory) -> Count {
        let values = memory.values();
        let zeros = Tensor::zeros([values.dims()[0]], (&values.device(), values.dtype()));
        let [steps, penalty] = [zeros.clone(), zeros];
        Count { steps, penalty }
    }

    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: Count,
    ) -> (AttentionOutput<3>, Count) {
        let attention = &self.attention;
        let output = attention.attend_with_weights(query, memory, Mask::none());
        let steps = state.steps + 1.0;
        self.calls.lock().unwrap().push(read(steps.clone())[0]);
        let first = output.context.clone().narrow(2, 0, 1).reshape(steps.dims());
        let penalty = state.penalty + first * steps.clone();
        (output, Count { steps, penalty })
    }

    fn penalty(&self, state: &Count) -> Option<Tensor<1>> {
        Some(state.penalty.clone())
    }
}

fn model() -> Seq2Seq<Counting> {
    let attention = Counting {
        attention: AdditiveAttentionConfig::new(6, 6, 6).init(&device()),
        calls: Arc::default(),
    };
    drawn(config().init(attention, &device()), 1)
}

fn all() -> Vec<Example> {
    examples(&[(3, 4), (5, 0), (1, 2)], &config(), 2)
}

/// The penalty of each example in a batch of its own.
fn penalties(model: &Seq2Seq<Counting>) -> Vec<f64> {
    let alone = |example| {
        let (_, penalty) = model.forward_with_penalty(&batch(&[example]));
        read(penalty.unwrap())[0]
    };
    all().into_iter().map(alone).collect()
}

#[test]
fn each_step_gets_the_state_of_the_step_before() {
    let model = model();
    let calls = || std::mem::take(&mut *model.decoder.attention.calls.lock().unwrap());
    // The longest target has 4 tokens and an end.
    model.forward(&batch(&all()));
    assert_eq!(calls(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    let endless = parameters::changed(model.clone(), |path, mut value| {
        if path == "decoder.output.bias" {
            value.data[7] = 100.0;
        }
        value
    });
    // For weights an output is decoded once more.
    for (with_weights, times) in [(false, 1), (true, 2)] {
        endless.greedy(&Source::new([&[4, 5][..]], &device()), 3, with_weights);
        assert_eq!(calls(), [1.0, 2.0, 3.0].repeat(times));
    }
}

#[test]
fn a_penalty_ends_with_its_target() {
    let model = model();
    let together = model.forward_with_penalty(&batch(&all())).1.unwrap();
    let alone = penalties(&model);
    let are_some = alone.iter().all(|penalty| penalty.abs() > 1e-3);
    assert!(are_some, "{alone:?}");
    assert_close("penalty", &read(together), &alone, 1e-5);
}

#[test]
fn the_loss_has_the_penalty_of_a_token_and_its_gradient() {
    let trainee = Trainee::new(model());
    let batch = batch(&all());
    let tokens = batch.target_tokens() as f64;
    let penalty = penalties(&trainee.model).iter().sum::<f64>() / tokens;
    let expected = read(loss(&trainee.model, &batch))[0] + penalty;

    let trained = trainee.train_step(batch.clone());
    let shown = measured(&trained.output)[0];
    assert_close("training", &[shown], &[expected], 1e-5);
    let valid = trainee.valid().valid_step(batch_on(&all(), &host()));
    assert_close("validation", &[measured(&valid)[0]], &[expected], 1e-5);

    let gradients = |loss: Tensor<1>| {
        let gradients = GradientsParams::from_grads(loss.backward(), &trainee);
        step_gradients(&trainee, gradients)
    };
    let (_, penalty) = trainee.model.forward_with_penalty(&batch);
    let with_penalty = gradients(loss(&trainee.model, &batch) + penalty.unwrap().sum() / tokens);
    let actual = step_gradients(&trainee, trained.gradients);
    assert_close("gradients", &actual, &with_penalty, 1e-5);
    let without = gradients(loss(&trainee.model, &batch));
    let mut moved = actual.iter().zip(&without).map(|(a, b)| (a - b).abs());
    let has_moved = moved.any(|by| by > 1e-3);
    assert!(has_moved, "no gradient of the penalty");
}

#[test]
fn attention_without_a_penalty_adds_nothing_to_the_loss() {
    for kind in [AttentionKind::Additive, AttentionKind::Dot] {
        let model = drawn_model(kind, &config(), 3);
        assert!(model.forward_with_penalty(&batch(&all())).1.is_none());
    }
}

#[test]
fn a_saved_model_has_the_names_of_its_attention_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.bpk");
    let own = AdditiveAttentionConfig::new(6, 6, 6).init(&device());
    let own = drawn(config().init(own, &device()), 4);
    let saved = parameters::values(&own);
    let names: Vec<&str> = saved
        .keys()
        .filter_map(|name| name.strip_prefix("decoder.attention."))
        .collect();
    let expected = "score.key.weight score.query.weight score.value.weight";
    assert_eq!(names.join(" "), expected);
    // Saved with the attention itself, loaded with `AnyAttention`, and back.
    Trainee::new(own.clone()).save_file(&file).unwrap();
    let any = Trainee::new(drawn_model(AttentionKind::Additive, &config(), 5));
    let any = any.try_load_file(&file).unwrap();
    assert_eq!(parameters::values(&any.model), saved);
    any.save_file(&file).unwrap();
    let back = Trainee::new(drawn(own, 6)).try_load_file(&file).unwrap();
    assert_eq!(parameters::values(&back.model), saved);
}
