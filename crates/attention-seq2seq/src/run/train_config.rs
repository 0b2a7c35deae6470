//! The settings of a training.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Select;
use crate::error::{Error, Result};
use crate::model::ModelKind;

/// The settings of a training. The default is the program's for a generated task and a recurrent model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// The number of times that every example is visited.
    pub epochs: usize,
    /// The number of steps after which training ends, even within an epoch; without it, only `epochs` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// The number of examples in a step.
    pub batch_size: usize,
    /// Adam's learning rate in the first step; along a cosine, it falls to 1 % of that in the last step. A training
    /// that is resumed with more epochs follows the longer cosine from its last step.
    pub learning_rate: f64,
    /// The number of steps in which the learning rate rises to that cosine, at most a quarter of all steps: step `n`,
    /// counted from 1, has `n / warmup` of the cosine's rate. Vaswani et al. 2017, section 5.3.
    #[serde(default)]
    pub warmup: usize,
    /// The part of a target that is spread over all tokens: Szegedy et al. 2016, section 7. Not used in validation.
    #[serde(default)]
    pub label_smoothing: f64,
    /// The decay of the exponential moving average of the weights, which becomes the model; 0 for no average. It is
    /// smaller in the first steps: at most `(1 + n) / (10 + n)` in step `n`.
    #[serde(default)]
    pub ema: f64,
    /// The number of minutes after which training ends, even within an epoch, including a validation as long as the
    /// last one. The learning rate falls so that it then is as low as at the end of the last epoch.
    #[serde(default)]
    pub max_minutes: Option<f64>,
    /// The validation metric by which checkpoints are kept, and training is stopped.
    #[serde(default)]
    pub select: Select,
    /// The norm to which the gradient of all parameters together is clipped. Norms above 1e18 count as 1e18, because
    /// the optimizer squares gradients.
    pub clip: f32,
    /// The number of epochs without improvement of [`select`](Self::select) after which training stops.
    pub patience: usize,
    /// The seed of the parameters, of the order of batches and of dropout.
    pub seed: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self::of(ModelKind::Rnn)
    }
}

impl TrainConfig {
    /// The program's settings for a generated task and this kind of model.
    pub fn of(model: ModelKind) -> Self {
        let (epochs, learning_rate, warmup) = match model {
            ModelKind::Rnn => (3, 0.004, 0),
            ModelKind::Transformer => (10, 0.002, 400),
        };
        Self {
            epochs,
            steps: None,
            batch_size: 64,
            learning_rate,
            warmup,
            label_smoothing: 0.0,
            ema: 0.0,
            max_minutes: None,
            select: Select::Loss,
            clip: 1.0,
            patience: 3,
            seed: 0,
        }
    }

    /// The random numbers of an epoch, which are the same in a resumed training.
    pub(crate) fn random(&self, epoch: usize) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(epoch as u64);
        random
    }

    /// Checks that every setting is in its range.
    pub(crate) fn check(&self) -> Result<()> {
        let positive = [
            ("the number of steps", self.steps.unwrap_or(1)),
            ("the number of epochs", self.epochs),
            ("the batch size", self.batch_size),
            ("the patience", self.patience),
        ];
        for (what, number) in positive {
            if number == 0 {
                return Err(Error::config(what, "at least 1", number));
            }
        }
        if !(self.learning_rate > 0.0 && self.learning_rate <= 1.0) {
            let (expected, found) = ("more than 0 and at most 1", self.learning_rate);
            return Err(Error::config("the learning rate", expected, found));
        }
        let shares = [
            ("the label smoothing", self.label_smoothing),
            ("the decay of the average of weights", self.ema),
        ];
        for (what, share) in shares {
            if !(0.0..1.0).contains(&share) {
                return Err(Error::config(what, "at least 0 and less than 1", share));
            }
        }
        if let Some(minutes) = self.max_minutes
            && !(minutes > 0.0 && minutes.is_finite())
        {
            let what = "the minutes of training";
            return Err(Error::config(what, "more than 0", minutes));
        }
        if !(self.clip > 0.0 && self.clip.is_finite()) {
            return Err(Error::config("the clipping norm", "more than 0", self.clip));
        }
        Ok(())
    }
}
