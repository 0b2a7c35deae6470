use attention_core::{DotProductAttention, DotProductAttentionConfig};
use attention_tests::parameters;
use burn::module::Module;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::device::test_device;
use crate::model::{Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig};
use crate::vocab::Vocab;

type Model = Seq2Seq<DotProductAttention>;

/// The same model each time.
fn trainee() -> Trainee<Model> {
    let config = Seq2SeqConfig::new(12, 12).with_hidden_size(6);
    let device = test_device().autodiff();
    let model = config.init(DotProductAttentionConfig::new().init(), &device);
    let mut random = StdRng::seed_from_u64(5);
    let model = parameters::changed(model, |_, mut value| {
        value.data.fill_with(|| random.random_range(-0.5..0.5));
        value
    });
    Trainee::new(model).with_clip(0.1).with_label_smoothing(0.1)
}

/// A Transformer whose output layer is frozen.
fn transformer() -> Trainee<Transformer> {
    let device = test_device().autodiff();
    device.seed(7);
    let config = TransformerConfig::new(12, 12)
        .with_hidden_size(8)
        .with_heads(2)
        .with_dropout(0.0);
    let mut model = config.init(&device);
    model.output = model.output.set_require_grad(false);
    Trainee::new(model).with_clip(0.1)
}

/// Examples of lengths from 1 to 5, another one each time.
fn examples(count: u32) -> Vec<Example> {
    let tokens = |count: u32, first: u32| (0..count).map(|at| 4 + (first + 3 * at) % 8).collect();
    let example = |at: u32| Example {
        source: tokens(1 + at % 5, at),
        target: tokens(at % 4, at + 1),
    };
    (0..count).map(example).collect()
}

/// The device of all tests, so many times.
fn joint<M: Seq2SeqModel + 'static>(devices: usize) -> Joint<M> {
    let device = || test_device().autodiff();
    let further = (1..devices).map(|_| device()).collect();
    Joint::new(device(), further).unwrap()
}

/// The gradients of all parameters that have one, concatenated.
fn elements<M: Seq2SeqModel>(gradients: &GradientsParams, trainee: &Trainee<M>) -> Vec<f64> {
    struct All<'a>(&'a GradientsParams, Vec<f64>);
    impl burn::module::ModuleVisitor for All<'_> {
        fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id) {
                self.1.extend(gradient.into_data().iter::<f64>());
            }
        }
    }
    let mut all = All(gradients, Vec::new());
    trainee.visit(&mut all);
    all.1
}

#[test]
fn devices_together_make_the_step_of_one() {
    check_step(&trainee());
}

#[test]
fn a_frozen_layer_has_no_gradient_on_any_device() {
    let trainee = transformer();
    let step = joint(2).train_step(&trainee, examples(5), Squares::Scaled);
    let gradients = step.unwrap().gradients;
    assert!(gradients.get::<2>(trainee.model.output.weight.id).is_none());
    check_step(&trainee);
}

/// Checks that several devices make the step of one.
fn check_step<M: Seq2SeqModel + 'static>(trainee: &Trainee<M>) {
    // 11 are shared unevenly, of 2 and of 1 there is none for a third device.
    for count in [11, 2, 1] {
        let step = |devices: usize| {
            let joint = joint(devices);
            let step = || joint.train_step(trainee, examples(count), Squares::Scaled);
            // The second step of the same threads is the same.
            let (first, second) = (step().unwrap(), step().unwrap());
            let [first_all, second_all] =
                [&first, &second].map(|it| elements(&it.gradients, trainee));
            assert_eq!(first_all, second_all);
            first
        };
        let alone = step(1);
        for devices in [2, 3] {
            let together = step(devices);
            let [expected, found] = [&alone, &together].map(|it| elements(&it.gradients, trainee));
            assert_eq!(expected.len(), found.len());
            let largest = expected
                .iter()
                .fold(0.0, |most: f64, it| most.max(it.abs()));
            for (expected, found) in expected.iter().zip(&found) {
                assert!(
                    (expected - found).abs() <= 1e-5 * largest,
                    "{expected} {found}"
                );
            }
            let norms = [&alone, &together].map(|it| it.norm.as_ref().unwrap().read().unwrap());
            assert!(norms[0] > 0.1, "it is clipped");
            assert!((norms[0] - norms[1]).abs() <= 1e-5 * norms[0]);
            let losses = [&alone, &together].map(|it| it.output.loss.clone().into_scalar::<f64>());
            assert!((losses[0] - losses[1]).abs() <= 1e-5 * losses[0]);
            assert_eq!(alone.output.tokens, together.output.tokens);
            assert_eq!(rows(&alone.output), rows(&together.output));
        }
    }
}

/// Outputs beside their targets, in an order of their own, without padding.
fn rows(output: &StepOutput) -> Vec<[Vec<i64>; 2]> {
    let rows = |tokens: &Tensor<2, Int>| -> Vec<Vec<i64>> {
        let [_, width] = tokens.dims();
        let tokens = tokens.to_data().iter::<i64>().collect::<Vec<_>>();
        let padding = i64::from(Vocab::PAD);
        let rows = tokens.chunks(width);
        rows.map(|row| row.iter().copied().filter(|it| *it != padding).collect())
            .collect()
    };
    let (outputs, targets) = (rows(&output.outputs), rows(&output.targets));
    let mut all: Vec<[Vec<i64>; 2]> = outputs
        .into_iter()
        .zip(targets)
        .map(|(output, target)| [output, target])
        .collect();
    all.sort();
    all
}

#[test]
fn every_share_has_all_lengths() {
    let mut sorted = examples(40);
    sorted.sort_by_key(|example| example.source.len());
    let shares = dealt(sorted, 3);
    let counts: Vec<usize> = shares.iter().map(Vec::len).collect();
    assert_eq!(counts, [14, 13, 13]);
    for share in shares {
        let lens: Vec<usize> = share.iter().map(|it| it.source.len()).collect();
        let of_length = |len| lens.iter().filter(|it| **it == len).count();
        assert!(
            (1..=5).all(|len| (2..=3).contains(&of_length(len))),
            "{lens:?}"
        );
    }
}

#[test]
fn a_step_that_is_not_finite_on_one_device_is_refused() {
    let poisoned = parameters::changed(trainee(), |path, mut value| {
        if path == "model.encoder.embedding.weight" {
            let width = value.data.len() / 12;
            value.data[5 * width..6 * width].fill(f64::NAN);
        }
        value
    });
    let mut all = examples(2);
    all[0].source = vec![4, 6];
    all[1].source = vec![5];
    let step = joint(2)
        .train_step(&poisoned, all, Squares::Scaled)
        .unwrap();
    assert!(
        step.fault(&poisoned)
            .unwrap()
            .unwrap()
            .contains("is not finite")
    );
    assert!(!TrainOutput::are_finite(&[step]).unwrap());
}
