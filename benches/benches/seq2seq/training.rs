//! Our model in training.

use attention_benches::tensors::finish;
use attention_core::{AdditiveAttention, AdditiveAttentionConfig};
use attention_seq2seq::train::Adam;
use attention_seq2seq::{Batch, Example, Seq2Seq, Seq2SeqConfig, Seq2SeqModel, Trainee, Vocab};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};

use crate::sizes::Sizes;

const LEARNING_RATE: f64 = 1e-3;

/// The norm to which gradients are clipped.
const CLIP: f32 = 1.0;

const PRESENT: &str = "the optimizer does not have the model";

/// A model, its optimizer as `seq2seq train` sets it, and what it learns from.
pub(crate) struct Training {
    /// Absent while the optimizer has it: as in the program, whose parameters are then changed in place.
    trainee: Option<Trainee<Seq2Seq<AdditiveAttention>>>,
    optimizer: ModuleOptimizer,
    batch: Batch,
}

impl Training {
    pub(crate) fn new(sizes: &Sizes, device: &Device) -> Self {
        let hidden = sizes.hidden;
        let attention = AdditiveAttentionConfig::new(hidden, hidden, hidden).init(device);
        let model = Seq2SeqConfig::new(sizes.source_vocab, sizes.target_vocab)
            .with_embedding_size(sizes.embedding)
            .with_hidden_size(hidden)
            .with_layers(sizes.layers)
            .init(attention, device);
        let first = Vocab::SPECIAL_TOKENS as u32;
        // Every token of a vocabulary has its turn.
        let tokens = |seed: usize, len: usize, vocab: usize| -> Vec<u32> {
            let ordinary = (vocab - Vocab::SPECIAL_TOKENS) as u32;
            let token = |at| first + (31 * seed + 7 * at) as u32 % ordinary;
            (0..len).map(token).collect()
        };
        let examples = (0..sizes.batch).map(|seed| Example {
            source: tokens(seed, sizes.source_len, sizes.source_vocab),
            target: tokens(seed, sizes.target_len - 1, sizes.target_vocab),
        });
        let examples: Vec<Example> = examples.collect();
        Self {
            trainee: Some(Trainee::new(model).with_clip(CLIP)),
            optimizer: Adam::new().into(),
            batch: Batch::new(&examples, device),
        }
    }

    fn trainee(&self) -> &Trainee<Seq2Seq<AdditiveAttention>> {
        self.trainee.as_ref().expect(PRESENT)
    }

    pub(crate) fn loss(&self) -> Tensor<1> {
        self.trainee().model.loss(&self.batch, 0.0).loss
    }

    pub(crate) fn gradients(&self, loss: Tensor<1>) -> GradientsParams {
        GradientsParams::from_grads(loss.backward(), self.trainee())
    }

    pub(crate) fn update(&mut self, gradients: GradientsParams) {
        let trainee = self.trainee.take().expect(PRESENT);
        let trainee = self.optimizer.step(LEARNING_RATE, trainee, gradients);
        finish(trainee.model.decoder.output.weight.val());
        self.trainee = Some(trainee);
    }
}

/// A step as the program takes it.
pub(crate) fn step(sizes: &Sizes, device: &Device) -> impl FnMut() + use<> {
    let mut training = Training::new(sizes, device);
    move || {
        let output = training.trainee().train_step(training.batch.clone());
        training.update(output.gradients);
    }
}
