//! Shared by the tests of the model: a device, models, batches.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod oracle;

use attention_core::Alignment;
use attention_seq2seq::attention::{AnyAttention, AttentionKind};
use attention_seq2seq::batch::{Batch, Example, Seq2SeqBatcher};
use attention_seq2seq::device::{compiled_in, open};
use attention_seq2seq::model::{Seq2Seq, Seq2SeqConfig};
use attention_seq2seq::train::{ExactMatch, StepOutput};
use attention_seq2seq::vocab::Vocab;
use attention_tests::{Outcome, parameters};
use burn::data::dataloader::Progress;
use burn::data::dataloader::batcher::Batcher;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::metric::{Adaptor, CharErrorRate, LossMetric, Metric, MetricMetadata, Numeric};

/// The default device, with autodiff.
pub(crate) fn device() -> Device {
    open(compiled_in()[0]).unwrap().autodiff()
}

/// Numbers in `[-1, 1)` that depend on `seed` only.
pub(crate) fn draw(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
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
pub(crate) fn drawn<A: Alignment>(model: Seq2Seq<A>, seed: u64) -> Seq2Seq<A> {
    let mut next = draw(seed);
    parameters::changed(model, |_, mut value| {
        value.data.fill_with(|| 0.7 * next());
        value
    })
}

/// Examples of these lengths of source and target, of tokens from 4 on.
pub(crate) fn examples(lens: &[(usize, usize)], config: &Seq2SeqConfig, seed: u64) -> Vec<Example> {
    let mut next = draw(seed);
    let mut tokens = |len: usize, vocab: usize| {
        let ordinary = (vocab - Vocab::SPECIAL_TOKENS) as f64;
        let mut token = || 4 + (0.5 * (next() + 1.0) * ordinary) as u32;
        (0..len).map(|_| token()).collect()
    };
    lens.iter()
        .map(|&(source, target)| Example {
            source: tokens(source, config.source_vocab_size),
            target: tokens(target, config.target_vocab_size),
        })
        .collect()
}

/// All of `examples` together.
pub(crate) fn batch(examples: &[Example]) -> Batch {
    batch_on(examples, &device())
}

pub(crate) fn batch_on(examples: &[Example], device: &Device) -> Batch {
    Seq2SeqBatcher.batch(vec![examples.to_vec()], device)
}

/// The mean cross-entropy over target tokens, their ends included.
pub(crate) fn loss<A: Alignment>(model: &Seq2Seq<A>, batch: &Batch) -> Tensor<1> {
    let logits = model.forward(batch);
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

/// The numbers of a step that training shows and stops by: loss, exact matches and token errors in percent.
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
    let mut loss = LossMetric::new();
    loss.update(&output.adapt(), &metadata).unwrap();
    let mut exact = ExactMatch::new();
    exact.update(&output.adapt(), &metadata).unwrap();
    let mut errors = CharErrorRate::new().with_pad_token(Vocab::PAD as usize);
    errors.update(&output.adapt(), &metadata).unwrap();
    let values = [
        loss.final_value(),
        exact.final_value(),
        errors.final_value(),
    ];
    values.map(|value| value.current())
}

/// Reads a tensor, row by row.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Every number of `actual` lies within `tolerance` of `expected`, relative to the largest number expected.
#[track_caller]
pub(crate) fn assert_close(what: &str, actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}: length");
    let largest = expected.iter().fold(0.0, |most: f64, e| most.max(e.abs()));
    assert!(largest.is_finite(), "{what}: the reference is not finite");
    for (at, (a, e)) in actual.iter().zip(expected).enumerate() {
        // Not `>`: a NaN must fail.
        let close = (a - e).abs() <= tolerance * (0.1 + largest);
        assert!(close, "{what}: number {at}: {a} is not {e}");
    }
}

/// [`assert_close`] for every parameter.
#[track_caller]
pub(crate) fn assert_all_close(what: &str, actual: &Outcome, expected: &Outcome, tolerance: f64) {
    assert!(
        actual.keys().eq(expected.keys()),
        "{what}: other parameters"
    );
    for (name, expected) in expected {
        assert_close(
            &format!("{what}: {name}"),
            &actual[name].data,
            &expected.data,
            tolerance,
        );
    }
}

/// The attentions whose training is the same each time: all but the one that draws noise.
pub(crate) fn without_noise() -> Vec<AttentionKind> {
    let all = AttentionKind::ALL.iter().copied();
    all.filter(|kind| *kind != AttentionKind::Monotonic)
        .collect()
}
