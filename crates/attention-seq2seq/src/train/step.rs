//! A step of training and a step of validation.

use attention_core::StatefulAttention;
use burn::module::Module;
use burn::tensor::{ExecutionError, Int, Tensor, TensorData};
use burn::train::metric::{Adaptor, CerInput, LossInput};
use burn::train::{InferenceStep, ItemLazy, TrainOutput, TrainStep};

use super::clip::clip_by_norm;
use super::metric::ExactMatchInput;
use crate::batch::Batch;
use crate::model::{LossOutput, Seq2Seq};
use crate::vocab::Vocab;

/// A model in training, with the steps of `burn-train` for a loop of one's own; [`Training`](super::Training) is the
/// loop of the program.
///
/// ```
/// use attention_core::DotProductAttentionConfig;
/// use attention_seq2seq::{Adam, Batch, Example, Seq2SeqConfig, Trainee};
/// use burn::optim::ModuleOptimizer;
/// use burn::tensor::Device;
/// use burn::train::TrainStep;
///
/// let device = Device::flex().autodiff();
/// let attention = DotProductAttentionConfig::new().init();
/// let model = Seq2SeqConfig::new(8, 8).with_hidden_size(4).init(attention, &device);
/// let example = Example { source: vec![4, 5], target: vec![5, 4] };
/// let batch = Batch::new(&[example], &device);
///
/// let mut trainee = Trainee::new(model);
/// let mut adam: ModuleOptimizer = Adam::new().into();
/// for _ in 0..3 {
///     let output = TrainStep::step(&trainee, batch.clone());
///     trainee = adam.step(0.01, trainee, output.grads);
/// }
/// ```
#[derive(Module, Debug)]
pub struct Trainee<A: StatefulAttention> {
    /// The model.
    pub model: Seq2Seq<A>,
    /// The norm to which gradients are clipped.
    #[module(skip)]
    clip: Option<f32>,
}

impl<A: StatefulAttention> Trainee<A> {
    /// A model to train.
    pub fn new(model: Seq2Seq<A>) -> Self {
        Self { model, clip: None }
    }

    /// Clips the gradients of each step to a norm, that of all parameters together.
    ///
    /// # Panics
    /// If the norm is not above 0.
    pub fn with_clip(self, norm: f32) -> Self {
        assert!(
            norm > 0.0,
            "Trainee: norm to clip to expected above 0, got {norm}"
        );
        let clip = Some(norm);
        Self { clip, ..self }
    }
}

/// The loss of a step, and the model's outputs beside their targets: the input of `burn-train`'s `LossMetric` and
/// `CharErrorRate`, and of [`ExactMatch`](super::ExactMatch).
pub struct StepOutput {
    /// The mean over target tokens, with the attention's penalty if it has one.
    loss: Tensor<1>,
    /// The number of target tokens, padding not counted.
    tokens: usize,
    /// `[batch, tokens]`, padded after the end.
    outputs: Tensor<2, Int>,
    /// `[batch, tokens]`, padded after the end.
    targets: Tensor<2, Int>,
}

impl ItemLazy for StepOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(Self {
            loss: self.loss.without_autodiff(),
            tokens: self.tokens,
            outputs: self.outputs.without_autodiff(),
            targets: self.targets.without_autodiff(),
        })
    }
}

impl Adaptor<LossInput> for StepOutput {
    fn adapt(&self) -> LossInput {
        // Burn weighs a batch by the number of its losses: here one for each token.
        LossInput::new(self.loss.clone().expand([self.tokens]))
    }
}

impl Adaptor<CerInput> for StepOutput {
    fn adapt(&self) -> CerInput {
        CerInput::new(self.outputs.clone(), self.targets.clone())
    }
}

impl Adaptor<ExactMatchInput> for StepOutput {
    fn adapt(&self) -> ExactMatchInput {
        ExactMatchInput {
            outputs: self.outputs.clone(),
            targets: self.targets.clone(),
        }
    }
}

impl<A: StatefulAttention> TrainStep for Trainee<A> {
    type Input = Batch;
    type Output = StepOutput;

    /// A step of teacher forcing: the outputs are the most likely tokens after those of the target.
    fn step(&self, batch: Batch) -> TrainOutput<StepOutput> {
        let LossOutput { loss, predictions } = self.model.loss(&batch);
        let gradients = loss.backward();
        let padding = batch.target.clone().equal_scalar(Vocab::PAD);
        let output = StepOutput {
            loss,
            tokens: batch.target_tokens(),
            outputs: predictions.mask_fill(padding, Vocab::PAD),
            targets: batch.target,
        };
        let mut output = TrainOutput::new(self, gradients, output);
        if let Some(norm) = self.clip {
            output.grads = clip_by_norm(output.grads, self, norm);
        }
        output
    }
}

impl<A: StatefulAttention> InferenceStep for Trainee<A> {
    type Input = Batch;
    type Output = StepOutput;

    /// The loss of teacher forcing, and the outputs of greedy search.
    fn step(&self, batch: Batch) -> StepOutput {
        let LossOutput { loss, .. } = self.model.loss(&batch);
        let [examples, width] = batch.target.dims();
        let translation = self.model.greedy(&batch.source, width, false);
        let mut outputs = vec![i64::from(Vocab::PAD); examples * width];
        for (row, tokens) in outputs.chunks_mut(width).zip(&translation.tokens) {
            // An output longer than the longest target is cut off: it is wrong already.
            let ended = tokens.iter().copied().chain([Vocab::EOS]);
            for (slot, token) in row.iter_mut().zip(ended) {
                *slot = i64::from(token);
            }
        }
        StepOutput {
            loss,
            tokens: batch.target_tokens(),
            outputs: Tensor::from_data(
                TensorData::new(outputs, [examples, width]),
                &batch.target.device(),
            ),
            targets: batch.target,
        }
    }
}
