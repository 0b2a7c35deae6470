//! The mean of the weights of several checkpoints.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};

use crate::device::open_default_device;
use crate::error::{Error, Result};
use crate::model::AnyModel;
use crate::run::{CheckpointFiles, Manifest, RunConfig, RunDir, load_model, save_model};
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
/// Settings, vocabularies and the number of its epoch are those of the last checkpoint, and so is the optimizer's
/// state: training can go on from it. It has no history.
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
    sums.add(&last.model);
    for other in others {
        let other = Loaded::read(other, &device)?;
        last.check_alike(&other)?;
        sums.add(&other.model);
    }
    let mean = sums.mean(last.model.clone());
    let model = save_model(mean).map_err(|error| {
        let found = error.to_string().replace('\n', " ");
        let expected = "parameters that can be saved";
        Error::config("the mean of the weights", expected, found)
    })?;
    let journal = last
        .run
        .journal(Some(last.epoch), last.config.train.select)?;
    let files = journal.checkpoint(last.epoch)?;
    let files = CheckpointFiles {
        // Training goes on from the mean, whether its model is an average of weights or not.
        weights: files.weights.map(|_| model.clone()),
        model,
        optim: files.optim,
    };
    out.create_with(&last.config, &last.vocabs, last.epoch, &files)
}

/// A checkpoint in memory.
struct Loaded {
    run: RunDir,
    epoch: usize,
    config: RunConfig,
    vocabs: Vocabs,
    model: AnyModel,
}

impl Loaded {
    fn read(checkpoint: &CheckpointOfRun, device: &Device) -> Result<Self> {
        let run = checkpoint.run.clone();
        let manifest: Manifest = run.manifest()?;
        let epoch = checkpoint.epoch.or_else(|| run.model_of(&manifest));
        let epoch = epoch.ok_or_else(|| Error::unusable(run.path(), "it has no checkpoint"))?;
        let config = run.config_of(&manifest)?;
        let content = run.read_model(&manifest, epoch)?;
        let model = load_model(config.init_model(device), content)
            .map_err(|error| Error::unusable(&run.file_of_model(epoch), error))?;
        Ok(Self {
            vocabs: run.vocabs_of(&manifest, &config.model)?,
            model,
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
    models: usize,
}

impl Sums {
    fn add(&mut self, model: &impl Module) {
        let mut adder = Adder {
            sums: &mut self.parameters,
            next: 0,
        };
        model.visit(&mut adder);
        self.models += 1;
    }

    /// The model with the mean of the parameters.
    fn mean<M: Module>(self, model: M) -> M {
        model.map(&mut Mean {
            sums: self.parameters.into_iter(),
            models: self.models as f64,
        })
    }
}

struct Adder<'a> {
    sums: &'a mut Vec<Vec<f64>>,
    /// The parameter that comes next.
    next: usize,
}

impl ModuleVisitor for Adder<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let data = param.val().into_data();
        let elements = data.iter::<f64>();
        match self.sums.get_mut(self.next) {
            Some(sums) => {
                for (sum, element) in sums.iter_mut().zip(elements) {
                    *sum += element;
                }
            }
            None => self.sums.push(elements.collect()),
        }
        self.next += 1;
    }
}

/// Replaces each parameter by its mean.
struct Mean {
    sums: std::vec::IntoIter<Vec<f64>>,
    models: f64,
}

impl ModuleMapper for Mean {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let Some(sums) = self.sums.next() else {
                return tensor;
            };
            let mean: Vec<f64> = sums.into_iter().map(|sum| sum / self.models).collect();
            let options = (&tensor.device(), tensor.dtype());
            Tensor::from_data(TensorData::new(mean, tensor.dims()), options)
        })
    }
}

#[cfg(test)]
mod tests {
    use attention_tests::parameters::{changed, values};

    use super::*;
    use crate::device::test_device;
    use crate::model::{Seq2SeqConfig, TransformerConfig};

    #[test]
    fn parameters_are_the_means_of_those_of_the_models() {
        fn check<M: Module>(init: impl Fn() -> M) {
            let models = [init(), init(), init()];
            let mut sums = Sums::default();
            models.iter().for_each(|model| sums.add(model));
            // Of the model that it is made of, nothing is left.
            let mean = values(&sums.mean(changed(init(), |_, value| value.map(|_| 9.0))));
            let models = models.each_ref().map(|model| values(model));
            assert!(mean.keys().eq(models[0].keys()));
            for (path, mean) in &mean {
                for (at, mean) in mean.data.iter().enumerate() {
                    let sum: f64 = models.iter().map(|model| model[path].data[at]).sum();
                    assert_eq!(*mean as f32, (sum / 3.0) as f32, "{path}");
                }
            }
        }
        let device = test_device();
        let config = Seq2SeqConfig::new(9, 7).with_hidden_size(4);
        let kind = crate::attention::AttentionKind::Additive;
        check(|| config.init(kind.init(&config, &device), &device));
        check(|| {
            TransformerConfig::new(9, 7)
                .with_hidden_size(8)
                .init(&device)
        });
    }
}
