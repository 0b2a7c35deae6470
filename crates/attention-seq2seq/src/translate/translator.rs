//! A trained model with its vocabularies.

use std::fmt;
use std::path::Path;

use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Device};

use super::batches::{BATCH_SIZE, BATCH_TOKENS, BATCHES_OF_WINDOW};
use super::ensemble::MemberIds;
use crate::data::batch::Source;
use crate::device::open_default_device;
use crate::error::{Error, Result};
use crate::memory;
use crate::model::{AnyModel, Decoding, EnsembleDecoding, FrozenModel};
use crate::run::{Manifest, Part, RunConfig, RunDir, check_max_len};
use crate::text::vocab::Vocabs;

/// The memory of a token of an output, in bytes: its id, its string, and its part of the text.
const BYTES_OF_TOKEN: f64 = 64.0;

/// A trained model with its vocabularies, or [several](Self::ensemble) that translate as one. The example in the
/// crate's documentation trains one.
///
/// ```no_run
/// use attention_seq2seq::model::AttentionHead;
/// use attention_seq2seq::{SearchConfig, Translator};
///
/// let translator = Translator::open("runs/cmudict")?;
/// for output in translator.translate(["hello", "world"])? {
///     println!("{}{}", output.text, if output.ended { "" } else { " .." });
/// }
///
/// // The pronunciations that have 85 % of the probability together.
/// let search = SearchConfig::new().with_beam(Some(8)).with_mass(Some(0.85));
/// for output in &translator.n_best(["read"], &search)?[0] {
///     println!("{} {:.2}", output.text, output.log_probability.exp());
/// }
///
/// // Which characters of the source was each token of the output predicted from?
/// let attended = translator.attend(&translator.source_tokens("hello")?, AttentionHead::default())?;
/// for (token, weights) in attended.target.iter().zip(attended.weights.chunks(attended.source.len())) {
///     println!("{token} {weights:.2?}");
/// }
/// # Ok::<(), attention_seq2seq::Error>(())
/// ```
pub struct Translator {
    /// The models whose probabilities are averaged; usually one.
    pub(super) members: Vec<Member>,
    pub(super) config: RunConfig,
    pub(super) vocabs: Vocabs,
    epoch: usize,
    is_chosen: bool,
    pub(super) max_len: usize,
    pub(super) most_sources: usize,
}

/// Shows neither vocabularies nor parameters.
impl fmt::Debug for Translator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Translator")
            .field("models", &self.members.len())
            .field("config", &self.config)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// A model and its place.
pub(super) struct Member {
    pub(super) model: FrozenModel,
    pub(super) device: Device,
    /// Its token ids, if it is not the first model of an ensemble.
    pub(super) ids: Option<MemberIds>,
}
/// The parameters in a checkpoint, by the names of a `Trainee`'s fields.
#[derive(Module, Debug)]
struct Saved {
    model: AnyModel,
}

impl Translator {
    /// Opens the model in the folder of a run, on the first device of this build.
    ///
    /// # Errors
    /// As [`load`](Self::load), and as [`open_device`](crate::open_device).
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let run = RunDir::new(folder.as_ref());
        // A missing model is reported before a device is opened.
        run.load_config()?;
        Self::load(&run, &open_default_device()?)
    }

    /// Loads the model in `run`: the checkpoint that [`RunDir::keep_best`] chose, otherwise the newest.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if there is no checkpoint, it does not fit its settings or was changed; [`Error::Json`] or
    /// [`Error::Io`] if a file of the run cannot be read.
    pub fn load(run: &RunDir, device: &Device) -> Result<Self> {
        let manifest = run.manifest()?;
        match run.model_of(&manifest) {
            Some(epoch) => Self::of_epoch(run, &manifest, epoch, device),
            None => {
                let reason = "its training was stopped before the first checkpoint; train again with --resume";
                Err(Error::unusable(run.path(), reason))
            }
        }
    }

    /// Loads the model after an epoch.
    fn of_epoch(run: &RunDir, manifest: &Manifest, epoch: usize, device: &Device) -> Result<Self> {
        let config = run.config_of(manifest)?;
        let vocabs = run.vocabs_of(manifest, &config.model)?;
        let model = config.init_model(device);
        let saved = Saved { model };
        let content = Bytes::from_bytes_vec(run.read_model(manifest, epoch)?);
        let saved = ModuleRecord::from_bytes(content)
            .and_then(|record| saved.try_load_record(record))
            .map_err(|error| Error::unusable(&Part::Model.file(run.path(), epoch), error))?;
        let member = Member {
            model: FrozenModel::new(saved.model.valid()),
            device: device.clone(),
            ids: None,
        };
        Ok(Self {
            members: vec![member],
            max_len: config.max_len,
            most_sources: BATCH_SIZE,
            config,
            vocabs,
            epoch,
            is_chosen: manifest.model == Some(epoch),
        })
    }

    /// The epoch of the model.
    pub fn epoch(&self) -> usize {
        self.epoch
    }

    /// Whether the model is the best of a finished training, as [`RunDir::keep_best`] chose it; otherwise it is the
    /// newest of a training that is running or was killed.
    pub fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// The settings that the model was trained with.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// The model.
    ///
    /// # Errors
    /// [`Error::Config`] for an ensemble of several models.
    pub fn model(&self) -> Result<&AnyModel> {
        match &self.members[..] {
            [member] => Ok(&member.model),
            members => Err(Error::config("the model", "one", members.len())),
        }
    }

    /// The vocabularies that the model was trained with.
    pub fn vocabs(&self) -> &Vocabs {
        &self.vocabs
    }

    /// The number of tokens after which an output is cut off: that of the settings, unless another was set.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// Sets the number of tokens after which an output is cut off. The default in the settings is 5/4 of the longest
    /// training target, plus two: longer sources may need more.
    ///
    /// # Errors
    /// [`Error::Config`] if it is 0 or more than 1,000,000, or outputs of this length do not fit into free memory.
    pub fn with_max_len(self, max_len: usize) -> Result<Self> {
        check_max_len(max_len)?;
        let translator = Self { max_len, ..self };
        let tokens = translator.window_size() * max_len;
        memory::check("the memory of outputs", BYTES_OF_TOKEN * tokens as f64)?;
        Ok(translator)
    }

    /// Sets the largest number of sources that are translated at once, by default 256. On a CPU, outputs of
    /// [`n_best`](Self::n_best) are the same for any number, bit for bit.
    ///
    /// # Errors
    /// [`Error::Config`] if it is 0.
    pub fn with_batch_size(mut self, most_sources: usize) -> Result<Self> {
        if most_sources == 0 {
            return Err(Error::config("the batch size", "at least 1", most_sources));
        }
        self.most_sources = most_sources;
        Ok(self)
    }

    /// The number of sources that are translated at once: fewer if [`max_len`](Self::max_len) is large, so that their
    /// outputs fit into memory.
    pub fn batch_size(&self) -> usize {
        self.sources_up_to(self.most_sources)
    }

    /// The number of sources to pass at once if there are many, such as the lines of a file: sixteen
    /// [batches](Self::batch_size), so that each batch finds sources of equal length. It is smaller if
    /// [`max_len`](Self::max_len) is large, so that their outputs fit into memory.
    pub fn window_size(&self) -> usize {
        self.sources_up_to(self.most_sources.saturating_mul(BATCHES_OF_WINDOW))
    }

    /// The number of sources whose outputs fit into memory together, at most `most`.
    fn sources_up_to(&self, most: usize) -> usize {
        (BATCH_TOKENS / self.max_len.max(1)).clamp(1, most)
    }

    /// The steps of decoding sources with all members.
    pub(super) fn decoding<'a>(
        &'a self,
        sources: &[&[u32]],
        max_len: usize,
        with_weights: bool,
    ) -> Box<dyn Decoding + 'a> {
        let decoding = |member: &'a Member, sources: &[&[u32]]| {
            let source = Source::new(sources.iter().copied(), &member.device);
            member.model.decoding(&source, max_len, with_weights)
        };
        let of_ensemble = |member: &'a Member| {
            let Some(ids) = &member.ids else {
                return (decoding(member, sources), None);
            };
            let own = |source: &&[u32]| source.iter().map(|&id| ids.source[id as usize]).collect();
            let sources: Vec<Vec<u32>> = sources.iter().map(own).collect();
            let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
            (decoding(member, &sources), Some(&ids.target[..]))
        };
        match &self.members[..] {
            [member] => decoding(member, sources),
            members => Box::new(EnsembleDecoding::new(
                members.iter().map(of_ensemble).collect(),
            )),
        }
    }

    /// The ids of source tokens; [`Vocab::UNK`](crate::Vocab::UNK) for tokens that are not in the vocabulary.
    pub(super) fn encoded(&self, sources: &[&[String]]) -> Vec<Vec<u32>> {
        let sources = sources.iter();
        let ids = sources.map(|source| self.vocabs.source.encode(source));
        ids.collect()
    }
}
