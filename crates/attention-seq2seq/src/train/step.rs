//! A training step and a validation step.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_fused_layers::harness::wide::wide;

use super::clip::{Clipped, GradientNorm, Squares, clip_by_norm, first_not_finite};
use super::failure::failed;
use crate::data::batch::Batch;
use crate::error::Result;
use crate::model::{LossOutput, Seq2SeqModel};
use crate::text::vocab::Vocab;

/// A model in training, with steps for a loop of your own; [`Training`](super::Training) is the loop of the program.
#[derive(Module, Debug)]
pub struct Trainee<M: Seq2SeqModel> {
    /// The model.
    pub model: M,
    /// The norm to which gradients are clipped.
    #[module(skip)]
    clip: Option<f32>,
    /// The part of each target that is spread over all tokens in training.
    #[module(skip)]
    label_smoothing: f64,
}

impl<M: Seq2SeqModel> Trainee<M> {
    /// A model to train.
    pub fn new(model: M) -> Self {
        Self {
            model,
            clip: None,
            label_smoothing: 0.0,
        }
    }

    /// Clips the gradients of each step to a norm, taken over all parameters together. Gradients with a non-finite norm
    /// stay as they are: see [`TrainOutput::norm`].
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

    /// Smooths the targets of training steps: a part of each is spread over all tokens, see
    /// [`ClassTargets::label_smoothing`](burn_fused_layers::ClassTargets::label_smoothing).
    ///
    /// # Panics
    /// If it is not in `[0, 1)`.
    pub fn with_label_smoothing(mut self, share: f64) -> Self {
        assert!(
            (0.0..1.0).contains(&share),
            "Trainee: label smoothing expected in [0, 1), got {share}"
        );
        self.label_smoothing = share;
        self
    }
}

/// The result of a training step.
#[derive(Debug)]
pub struct TrainOutput {
    /// The gradients of the parameters, clipped if requested.
    pub gradients: GradientsParams,
    /// Their norm before clipping; `None` without clipping. If it is not finite, do not make a step: an optimizer would
    /// spread it to moments and parameters, which never recover.
    pub norm: Option<GradientNorm>,
    /// The output of the model.
    pub output: StepOutput,
}

impl TrainOutput {
    /// Whether losses and norms of these steps are finite, so that the steps can be made. All are read at once.
    pub(super) fn are_finite(steps: &[Self]) -> Result<bool> {
        let mut all = Vec::new();
        for step in steps {
            all.push(step.output.loss.clone());
            match &step.norm {
                Some(GradientNorm::Known(norm)) if !norm.is_finite() => return Ok(false),
                Some(GradientNorm::OnDevice(factors)) => all.push(factors.clone()),
                _ => {}
            }
        }
        // If a norm overflows f32, the steps are made again, one by one.
        let all = all.into_iter().map(|it| it.cast(DType::F32)).collect();
        let all = Tensor::cat(all, 0).try_into_vec_as::<f32>();
        Ok(all.map_err(failed)?.into_iter().all(f32::is_finite))
    }

    /// The reason to refuse the step, if any; `trainee` made the step. Gradients are inspected only if their norm is
    /// not finite.
    ///
    /// A loss that is not finite may have finite gradients, if a NaN met a maximum or a mask in the backward pass. Such
    /// gradients are meaningless.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if the device fails.
    pub(super) fn fault<M: Seq2SeqModel>(&self, trainee: &Trainee<M>) -> Result<Option<String>> {
        let norm = self.norm.as_ref().map(GradientNorm::read).transpose()?;
        if norm.is_some_and(|norm| !norm.is_finite()) {
            let name = first_not_finite(&self.gradients, &trainee.model)
                .unwrap_or_else(|| "all parameters together".to_string());
            return Ok(Some(format!("the gradient of {name} is not finite")));
        }
        let loss = self.output.loss.clone();
        let loss = loss.try_into_scalar::<f64>().map_err(failed)?;
        Ok((!loss.is_finite()).then(|| format!("its loss is {loss}")))
    }
}

/// The loss of a step, and the model's outputs beside their targets, without a graph.
#[derive(Clone, Debug)]
pub struct StepOutput {
    /// The mean over target tokens, with the attention's penalty if it has one, `[1]`.
    pub loss: Tensor<1>,
    /// The number of target tokens, without padding.
    pub tokens: usize,
    /// `[batch, tokens]`, padded after the end.
    pub outputs: Tensor<2, Int>,
    /// `[batch, tokens]`, padded after the end.
    pub targets: Tensor<2, Int>,
}

impl StepOutput {
    /// The output without any example.
    pub(super) fn empty(device: &Device) -> Self {
        let device = device.clone().inner();
        let none = Tensor::zeros([0, 1], &device);
        Self {
            loss: Tensor::zeros([1], (&device, wide(device.settings().float_dtype.into()))),
            tokens: 0,
            outputs: none.clone(),
            targets: none,
        }
    }
}

impl<M: Seq2SeqModel> Trainee<M> {
    /// A step of teacher forcing: the outputs are the most likely tokens after those of the target.
    ///
    /// # Panics
    /// If the model is not on a training device (`device.autodiff()`).
    pub fn train_step(&self, batch: Batch) -> TrainOutput {
        self.clipped(self.backward(batch), Squares::Scaled)
    }

    /// The gradients of a batch, before clipping.
    pub(super) fn backward(&self, batch: Batch) -> (GradientsParams, StepOutput) {
        let LossOutput { loss, predictions } = self.model.loss(&batch, self.label_smoothing);
        let gradients = GradientsParams::from_grads(loss.backward(), self);
        let padding = batch.target.clone().equal_scalar(Vocab::PAD);
        let outputs = predictions.mask_fill(padding, Vocab::PAD);
        let output = StepOutput {
            loss: loss.without_autodiff(),
            tokens: batch.target_tokens(),
            outputs: outputs.without_autodiff(),
            targets: batch.target.without_autodiff(),
        };
        (gradients, output)
    }

    /// The step with these gradients, whose norm is computed by `squares`.
    pub(super) fn clipped(
        &self,
        (gradients, output): (GradientsParams, StepOutput),
        squares: Squares,
    ) -> TrainOutput {
        let (gradients, norm) = match self.clip {
            Some(norm) => {
                let Clipped { gradients, norm } = clip_by_norm(gradients, self, norm, squares);
                (gradients, Some(norm))
            }
            None => (gradients, None),
        };
        TrainOutput {
            gradients,
            norm,
            output,
        }
    }

    /// The loss of teacher forcing, without label smoothing, and the outputs of greedy search.
    ///
    /// An output longer than the longest target is cut off, since it is wrong in any case.
    pub fn valid_step(&self, batch: Batch) -> StepOutput {
        let [_, width] = batch.target.dims();
        self.valid_step_within(batch, width)
    }

    /// [`valid_step`](Self::valid_step), with outputs of at most `width` tokens.
    pub(super) fn valid_step_within(&self, batch: Batch, width: usize) -> StepOutput {
        let LossOutput { loss, .. } = self.model.loss(&batch, 0.0);
        let [examples, _] = batch.target.dims();
        let translation = self.model.greedy(&batch.source, width, false);
        let mut outputs = vec![i64::from(Vocab::PAD); examples * width];
        for (row, tokens) in outputs.chunks_mut(width).zip(&translation.tokens) {
            let ended = tokens.iter().copied().chain([Vocab::EOS]);
            for (slot, token) in row.iter_mut().zip(ended) {
                *slot = i64::from(token);
            }
        }
        let targets = batch.target.clone().without_autodiff();
        let outputs = TensorData::new(outputs, [examples, width]);
        StepOutput {
            loss: loss.without_autodiff(),
            tokens: batch.target_tokens(),
            outputs: Tensor::from_data(outputs, &targets.device()),
            targets,
        }
    }
}
