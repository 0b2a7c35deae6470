//! Shared by the tests of the model: a device, models, batches.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod oracle;

use attention_core::stateful::StatefulAttention;
use attention_seq2seq::attention::AnyAttention;
use attention_seq2seq::data::Source;
use attention_seq2seq::device::compiled_in_devices;
use attention_seq2seq::train::StepOutput;
use attention_seq2seq::{
    AttentionKind, Batch, Example, Seq2Seq, Seq2SeqConfig, Vocab, open_device,
};
use attention_tests::{Outcome, parameters};
use burn::data::dataloader::Progress;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::metric::{
    CerInput, CharErrorRate, LossInput, LossMetric, Metric, MetricMetadata, Numeric,
};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// The default device, with autodiff.
pub(crate) fn device() -> Device {
    open_device(compiled_in_devices()[0]).unwrap().autodiff()
}

/// [`device`] without autodiff, as translation has it.
pub(crate) fn host() -> Device {
    device().inner()
}

/// Random numbers that depend on `seed` only.
pub(crate) fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub(crate) fn config() -> Seq2SeqConfig {
    Seq2SeqConfig::new(13, 11)
        .with_embedding_size(5)
        .with_hidden_size(6)
}

/// A model whose parameters depend on `seed` only, all of them far from 0: no path of a gradient is dead.
pub(crate) fn drawn_model(
    kind: AttentionKind,
    config: &Seq2SeqConfig,
    seed: u64,
) -> Seq2Seq<AnyAttention> {
    drawn(config.init(kind.init(config, &device()), &device()), seed)
}

/// The same model with parameters that depend on `seed` only.
pub(crate) fn drawn<M: Module>(model: M, seed: u64) -> M {
    let mut random = random(seed);
    parameters::changed(model, |_, mut value| {
        value.data.fill_with(|| random.random_range(-0.7..0.7));
        value
    })
}

pub(crate) fn example(source: &[u32], target: &[u32]) -> Example {
    let [source, target] = [source, target].map(<[u32]>::to_vec);
    Example { source, target }
}

/// Examples of these lengths of source and target, of ordinary tokens.
pub(crate) fn examples(lens: &[(usize, usize)], config: &Seq2SeqConfig, seed: u64) -> Vec<Example> {
    let vocab_sizes = [config.source_vocab_size, config.target_vocab_size];
    examples_of(lens, vocab_sizes, seed)
}

/// [`examples`], of vocabularies of these sizes.
pub(crate) fn examples_of(
    lens: &[(usize, usize)],
    [source_vocab_size, target_vocab_size]: [usize; 2],
    seed: u64,
) -> Vec<Example> {
    let mut random = random(seed);
    let mut tokens = |len: usize, vocab: usize| {
        let ordinary = Vocab::SPECIAL_TOKENS as u32..vocab as u32;
        (0..len)
            .map(|_| random.random_range(ordinary.clone()))
            .collect()
    };
    lens.iter()
        .map(|&(source, target)| Example {
            source: tokens(source, source_vocab_size),
            target: tokens(target, target_vocab_size),
        })
        .collect()
}

/// [`source`] on [`host`].
pub(crate) fn source_on_host(examples: &[Example]) -> Source {
    source(examples, &host())
}

/// The sources of `examples`.
pub(crate) fn source(examples: &[Example], device: &Device) -> Source {
    let sources = examples.iter().map(|example| example.source.as_slice());
    Source::new(sources, device)
}

/// All of `examples` together.
pub(crate) fn batch(examples: &[Example]) -> Batch {
    batch_on(examples, &device())
}

pub(crate) fn batch_on(examples: &[Example], device: &Device) -> Batch {
    Batch::new(examples, device)
}

/// The mean cross-entropy over target tokens, their ends included.
pub(crate) fn loss<A: StatefulAttention>(model: &Seq2Seq<A>, batch: &Batch) -> Tensor<1> {
    loss_of_logits(model.forward(batch), batch)
}

/// [`loss`], of these logits.
pub(crate) fn loss_of_logits(logits: Tensor<3>, batch: &Batch) -> Tensor<1> {
    let [examples, steps, tokens] = logits.dims();
    CrossEntropyLossConfig::new()
        .with_pad_tokens(Some(vec![Vocab::PAD as usize]))
        .init(&logits.device())
        .forward(
            logits.reshape([examples * steps, tokens]),
            batch.target.clone().reshape([examples * steps]),
        )
}

/// The gradients of a training step, of all parameters after each other.
pub(crate) fn step_gradients<M: Module>(module: &M, gradients: GradientsParams) -> Vec<f64> {
    struct Collector(GradientsParams, Vec<f64>);
    impl ModuleVisitor for Collector {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.extend(read(self.0.get::<D>(param.id).unwrap()));
        }
    }
    let mut collector = Collector(gradients, Vec::new());
    module.visit(&mut collector);
    collector.1
}

/// The metrics of a step, Burn's where it has them: loss, exact matches and token errors in percent.
pub(crate) fn measured(output: &StepOutput) -> [f64; 3] {
    let metadata = MetricMetadata {
        progress: Progress {
            items_processed: 1,
            items_total: 1,
            unit: None,
        },
        iteration: None,
        lr: None,
    };
    let step = output.clone();
    let mut of_tokens = LossMetric::new();
    let losses = LossInput::new(step.loss.expand([step.tokens]));
    of_tokens.update(&losses, &metadata).unwrap();
    let is_right = step.outputs.clone().equal(step.targets.clone()).all_dim(1);
    let exact = 100.0 * is_right.float().mean().into_scalar::<f64>();
    let mut errors = CharErrorRate::new().with_pad_token(Vocab::PAD as usize);
    let texts = CerInput::new(step.outputs, step.targets);
    errors.update(&texts, &metadata).unwrap();
    let loss = of_tokens.final_value().current();
    [loss, exact, errors.final_value().current()]
}

/// Reads a tensor, row by row.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Every element of `actual` lies within `tolerance` of `expected`, relative to the largest element expected.
#[track_caller]
pub(crate) fn assert_close(what: &str, actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}: length");
    let largest = expected.iter().fold(0.0, |most: f64, e| most.max(e.abs()));
    assert!(largest.is_finite(), "{what}: the reference is not finite");
    for (at, (a, e)) in actual.iter().zip(expected).enumerate() {
        // Not `>`: a NaN must fail.
        let close = (a - e).abs() <= tolerance * (0.1 + largest);
        assert!(close, "{what}: element {at}: {a} is not {e}");
    }
}

/// [`assert_close`] for every parameter.
#[track_caller]
pub(crate) fn assert_all_close(what: &str, actual: &Outcome, expected: &Outcome, tolerance: f64) {
    let are_same = actual.keys().eq(expected.keys());
    assert!(are_same, "{what}: other parameters");
    for (name, expected) in expected {
        let what = format!("{what}: {name}");
        assert_close(&what, &actual[name].data, &expected.data, tolerance);
    }
}

/// The attentions whose training is the same each time: all but the one that draws noise.
pub(crate) fn without_noise() -> Vec<AttentionKind> {
    let all = AttentionKind::ALL.iter().copied();
    all.filter(|kind| *kind != AttentionKind::Monotonic)
        .collect()
}
