//! Logits, states and gradients of a batch: as plain loops compute them, whatever else is in the batch.

use attention_seq2seq::attention::AnyAttention;
use attention_seq2seq::{AttentionKind, Batch, Example, Seq2Seq, Seq2SeqConfig};
use attention_tests::{Outcome, parameters};
use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use rand::RngExt;

use crate::models::{configs, each_model};
use crate::support::{
    assert_all_close, assert_close, batch, device, drawn_model, examples, examples_of, loss,
    oracle, random, read, source, without_noise,
};

/// The logits of one example's steps, up to its end, and the gradients of their weighted sum.
pub(crate) fn logits_and_gradients(
    model: &impl Module,
    logits: impl Fn(&Batch) -> Tensor<3>,
    all: &[Example],
    example: usize,
) -> (Vec<f64>, Outcome) {
    let logits = logits(&batch(all));
    let [_, _, tokens] = logits.dims();
    let steps = all[example].target.len() + 1;
    let logits = logits.narrow(0, example, 1).narrow(1, 0, steps);
    let mut random = random(9);
    let drawn = (0..steps * tokens).map(|_| random.random_range(-1.0..1.0));
    let output_gradients = TensorData::new(drawn.collect::<Vec<f64>>(), [1, steps, tokens]);
    let loss = (logits.clone() * Tensor::from_data(output_gradients, &device())).sum();
    let gradients = parameters::gradients(model, Some(&loss.backward()));
    (read(logits), gradients)
}

/// An example has the same logits and gradients beside sources and targets that are shorter, longer, and much longer:
/// within these tolerances.
pub(crate) fn check_padding(
    what: &str,
    model: &impl Module,
    logits: impl Fn(&Batch) -> Tensor<3>,
    [of_logits, of_gradients]: [f64; 2],
) {
    let of = |lens: &[(usize, usize)]| {
        let mut all = examples_of(&[(3, 2)], [13, 11], 1);
        all.extend(examples_of(lens, [13, 11], 2));
        logits_and_gradients(model, &logits, &all, 0)
    };
    let (alone, gradients) = of(&[]);
    for lens in [
        &[(2, 1)][..],
        &[(4, 2)],
        &[(3, 7)],
        &[(9, 5), (1, 0), (3, 2)],
    ] {
        let (padded, padded_gradients) = of(lens);
        let what = format!("{what} beside {lens:?}");
        assert_close(&what, &padded, &alone, of_logits);
        assert_all_close(&what, &padded_gradients, &gradients, of_gradients);
    }
}

#[test]
fn logits_are_those_of_plain_loops() {
    fn check(what: &str, config: &Seq2SeqConfig, model: &Seq2Seq<AnyAttention>) {
        let values = parameters::values(model);
        let all = examples(&[(3, 4), (7, 2), (1, 0), (4, 5)], config, 16);
        let logits = model.forward(&batch(&all));
        assert_eq!(logits.dims(), [4, 6, 11]);
        for (at, example) in all.iter().enumerate() {
            let steps = example.target.len() + 1;
            let actual = logits.clone().narrow(0, at, 1).narrow(1, 0, steps);
            let expected = oracle::logits(&values, config, example);
            assert_close(what, &read(actual), &expected, 2e-6);
        }
    }
    // The plain loops have these two.
    each_model(&[AttentionKind::Additive, AttentionKind::Dot], check);
}

#[test]
fn padding_changes_nothing() {
    each_model(&without_noise(), |what, config, model| {
        let logits = |batch: &Batch| model.forward(batch);
        let alone = examples(&[(3, 2)], config, 1);
        let (_, gradients) = logits_and_gradients(model, logits, &alone, 0);
        assert!(gradients.values().all(|g| g.magnitude() > 0.0), "{what}");
        check_padding(what, model, logits, [1e-6, 2e-6]);
    });
}

#[test]
fn encoder_states_are_the_same_bits_beside_a_longer_source() {
    for config in configs() {
        let model = drawn_model(AttentionKind::Dot, &config, 3);
        let encode = |other: usize| {
            let sources = examples(&[(3, 0), (other, 0)], &config, 4);
            let encoded = model.encoder.forward(&source(&sources, &device()));
            let states = encoded.states.narrow(0, 0, 1).narrow(1, 0, 3);
            let last = encoded.last.into_iter();
            let last = last.map(|state| {
                let parts = [Some(state.hidden), state.cell];
                parts.map(|part| part.map(|part| read(part.narrow(0, 0, 1))))
            });
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
        let [loss, other] = [&batch, &permuted].map(|batch| loss(model, batch));
        assert_close(what, &read(other.clone()), &read(loss.clone()), 1e-6);
        let [of_loss, of_other] =
            [loss, other].map(|loss| parameters::gradients(model, Some(&loss.backward())));
        assert_all_close(what, &of_other, &of_loss, 1e-6);
    }
    each_model(&without_noise(), check);
}
