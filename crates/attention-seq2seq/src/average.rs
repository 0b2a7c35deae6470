//! The mean of the weights of several checkpoints.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};

use crate::device::open_default_device;
use crate::error::{Error, Result};
use crate::model::AnyModel;
use crate::run::{CheckpointFiles, Manifest, RunConfig, RunDir};
use crate::train::Trainee;
use crate::translate::load_trainee;
use crate::vocabs::Vocabs;

/// A checkpoint of a run.
#[derive(Clone, Debug)]
pub struct CheckpointOfRun {
    /// The run.
    pub run: RunDir,
    /// The epoch, of one of its [checkpoints](RunDir::checkpoints); `None` is its model.
    pub epoch: Option<usize>,
}

/// Makes a run whose model has the mean of the weights of several checkpoints, of one training or of several that began
/// with the same weights: it often translates better than each (Vaswani et al. 2017, section 6.1; Izmailov et al. 2018,
/// "Averaging Weights Leads to Wider Optima and Better Generalization"). Sums are taken in `f64`.
///
/// Settings, vocabularies and the number of its epoch are those of the last checkpoint, and so is the optimizer's state:
/// training can go on from it. It has no history.
///
/// ```no_run
/// use attention_seq2seq::{CheckpointOfRun, RunDir, Translator, average_checkpoints};
///
/// let run = RunDir::new("runs/pairs");
/// let checkpoint = |epoch| CheckpointOfRun { run: run.clone(), epoch: Some(epoch) };
/// let checkpoints: Vec<_> = run.checkpoints()?.into_iter().map(checkpoint).collect();
/// average_checkpoints(&checkpoints, &RunDir::new("runs/mean"))?;
/// let translator = Translator::open("runs/mean")?;
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
///
/// # Errors
/// [`Error::Config`] without checkpoints, or if models or vocabularies differ; those of
/// [`Translator::load`](crate::Translator::load) for each checkpoint, and of [`RunDir::create`].
pub fn average_checkpoints(checkpoints: &[CheckpointOfRun], out: &RunDir) -> Result<()> {
    let Some((last, others)) = checkpoints.split_last() else {
        let what = "the checkpoints to average";
        return Err(Error::config(what, "at least one", "none"));
    };
    let device = open_default_device()?;
    let last = Loaded::read(last, &device)?;
    let mut sums = Sums::default();
    last.trainee.model.visit(&mut sums);
    for other in others {
        let other = Loaded::read(other, &device)?;
        last.check_alike(&other)?;
        other.trainee.model.visit(sums.again());
    }
    let mut mean = Mean {
        sums: sums.parameters.into_iter(),
        count: checkpoints.len() as f64,
    };
    let model = last.trainee.model.clone().map(&mut mean);
    let model = Trainee::new(model).into_record().into_bytes();
    let model = model.map_err(|error| {
        let found = error.to_string().replace('\n', " ");
        Error::config(
            "the mean of the weights",
            "parameters that can be saved",
            found,
        )
    })?;
    let journal = last
        .run
        .journal(Some(last.epoch), last.config.train.select)?;
    let files = CheckpointFiles {
        model: model.to_vec(),
        optim: journal.checkpoint(last.epoch)?.optim,
        // Training goes on from the mean.
        weights: None,
    };
    out.create_with(&last.config, &last.vocabs, last.epoch, &files)
}

/// A checkpoint in memory.
struct Loaded {
    run: RunDir,
    epoch: usize,
    config: RunConfig,
    vocabs: Vocabs,
    trainee: Trainee<AnyModel>,
}

impl Loaded {
    fn read(checkpoint: &CheckpointOfRun, device: &Device) -> Result<Self> {
        let run = checkpoint.run.clone();
        let manifest: Manifest = run.manifest()?;
        let epoch = checkpoint.epoch.or_else(|| run.model_of(&manifest));
        let epoch = epoch.ok_or_else(|| Error::unusable(run.path(), "it has no checkpoint"))?;
        let config = run.config_of(&manifest)?;
        Ok(Self {
            vocabs: run.vocabs_of(&manifest, &config.model)?,
            trainee: load_trainee(&run, &manifest, &config, epoch, device)?,
            run,
            epoch,
            config,
        })
    }

    /// Checks that the weights of both mean the same.
    fn check_alike(&self, other: &Self) -> Result<()> {
        let [own, folder] = [self, other].map(|it| it.run.path().display());
        let refuse = |part: &str, that: &str, found: String| {
            let what = format!("{part} of the run in {folder}");
            let expected = format!("{that} of the run in {own}");
            Err(Error::config(&what, &expected, found))
        };
        if other.config.model != self.config.model {
            return refuse("the model", "that", "another".to_string());
        }
        if other.config.attention != self.config.attention {
            let found = other.config.attention.to_string();
            return refuse("the attention", "that", found);
        }
        if other.vocabs != self.vocabs {
            return refuse("the vocabularies", "those", "others".to_string());
        }
        Ok(())
    }
}

/// The elements of all parameters, in the order of a visit, added up over models.
#[derive(Default)]
struct Sums {
    parameters: Vec<Vec<f64>>,
    /// The parameter that comes next.
    next: usize,
}

impl Sums {
    /// From the first parameter on.
    fn again(&mut self) -> &mut Self {
        self.next = 0;
        self
    }
}

impl ModuleVisitor for Sums {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let data = param.val().into_data();
        let elements = data.iter::<f64>();
        match self.parameters.get_mut(self.next) {
            Some(sums) => sums
                .iter_mut()
                .zip(elements)
                .for_each(|(sum, it)| *sum += it),
            None => self.parameters.push(elements.collect()),
        }
        self.next += 1;
    }
}

/// Replaces each parameter by its mean.
struct Mean {
    sums: std::vec::IntoIter<Vec<f64>>,
    count: f64,
}

impl ModuleMapper for Mean {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let Some(sums) = self.sums.next() else {
                return tensor;
            };
            let mean: Vec<f64> = sums.into_iter().map(|sum| sum / self.count).collect();
            let options = (&tensor.device(), tensor.dtype());
            Tensor::from_data(TensorData::new(mean, tensor.dims()), options)
        })
    }
}
