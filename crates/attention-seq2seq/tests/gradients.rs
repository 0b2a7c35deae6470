//! Gradients of the loss against finite differences, in f64.
//!
//! In a program of its own: the float type of a device is set once.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Once;

use attention_seq2seq::attention::AnyScore;
use attention_seq2seq::{
    AttentionKind, Batch, Seq2SeqConfig, Seq2SeqModel, Transformer, TransformerConfig,
};
use attention_tests::parameters;
use burn::module::Module;
use burn::tensor::{DType, Device, FloatDType, Tensor};
use burn_fused_layers::recurrent::CellKind;
use support::*;

/// Makes f64 the float type.
fn configure() {
    static CONFIGURED: Once = Once::new();
    // Before `attention_seq2seq::open_device`, whose first computation would fix f32.
    CONFIGURED.call_once(|| Device::flex().configure(FloatDType::F64).unwrap());
}

/// Two layers; sources and targets of different lengths, a target that is empty.
fn check(kind: AttentionKind, cell: CellKind, bidirectional: bool) {
    configure();
    let config = Seq2SeqConfig::new(13, 11)
        .with_embedding_size(3)
        .with_hidden_size(4)
        .with_layers(2)
        .with_bidirectional(bidirectional)
        .with_cell(cell);
    let model = drawn_model(kind, &config, 1);
    // Softmax ignores the offset.
    let is_ignored = |name: &str| kind == AttentionKind::Biaffine && name.contains(".offset.");
    check_model(&kind.to_string(), model, loss, is_ignored, [1e-5, 1e-8]);
}

/// The gradients of a model's loss: the largest element of each is above `smallest`, and they are close to differences
/// within `tolerance`. Parameters that are ignored have gradients of 0.
fn check_model<M: Module>(
    what: &str,
    model: M,
    loss: impl Fn(&M, &Batch) -> Tensor<1>,
    is_ignored: impl Fn(&str) -> bool,
    [smallest, tolerance]: [f64; 2],
) {
    const STEP: f64 = 1e-5;
    let all = examples_of(&[(3, 2), (5, 0)], [13, 11], 2);
    let start = loss(&model, &batch(&all));
    assert_eq!(start.dtype(), DType::F64);
    let gradients = parameters::gradients(&model, Some(&start.backward()));
    assert!(gradients.len() >= 20, "{:?}", gradients.keys());

    let model = model.valid();
    let batch = batch_on(&all, &host());
    for (name, gradient) in &gradients {
        let gradient = &gradient.data;
        let size = |entry: &usize| gradient[*entry].abs();
        let by_size = |a: &usize, b: &usize| size(a).total_cmp(&size(b));
        let largest = (0..gradient.len()).max_by(by_size).unwrap();
        if is_ignored(name) {
            assert!(size(&largest) < 1e-12, "{what}: {name}");
            continue;
        }
        assert!(size(&largest) > smallest, "{what}: {name}");
        for entry in [largest, gradient.len() / 2] {
            let moved = |by: f64| {
                let model = parameters::changed(model.clone(), |path, mut value| {
                    if path == name {
                        value.data[entry] += by;
                    }
                    value
                });
                read(loss(&model, &batch))[0]
            };
            let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let what = format!("{what}: {name}, entry {entry}");
            assert_close(&what, &[gradient[entry]], &[expected], tolerance);
        }
    }
}

#[test]
fn of_a_model_with_each_attention_are_finite_differences() {
    for kind in without_noise() {
        check(kind, CellKind::Gru, true);
    }
}

#[test]
fn of_a_model_in_one_direction_are_finite_differences() {
    check(AttentionKind::Additive, CellKind::Gru, false);
}

#[test]
fn of_a_model_of_lstms_are_finite_differences() {
    check(AttentionKind::Dot, CellKind::Lstm, true);
}

#[test]
fn of_a_transformer_are_finite_differences() {
    configure();
    let config = TransformerConfig::new(13, 11)
        .with_hidden_size(4)
        .with_heads(2)
        .with_feed_forward_size(5);
    use AttentionKind::{Additive, Biaffine, Dot, Gaussian};
    for kind in [Dot, Additive, Biaffine, Gaussian] {
        let device = device();
        let model = config.init_with(|_| kind.score(2, &device).unwrap(), &device);
        // Softmax ignores a term that all keys share, as a bias of theirs is where the score is linear in the keys.
        let is_linear = [Dot, Biaffine].contains(&kind);
        let is_ignored = |name: &str| {
            name.ends_with(".attention.key.bias")
                || is_linear && name.ends_with(".cross_attention.key.bias")
                || name.contains(".offset.")
        };
        let loss = |model: &Transformer<AnyScore>, batch: &Batch| model.loss(batch, 0.0).loss;
        // Normalizations before each sublayer make some gradients small.
        let bounds = [1e-8, 1e-7];
        check_model(&kind.to_string(), drawn(model, 1), loss, is_ignored, bounds);
    }
}
