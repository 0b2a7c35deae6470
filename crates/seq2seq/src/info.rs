//! `seq2seq info`

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use attention_seq2seq::device::compiled_in_devices;
use attention_seq2seq::run::{Epoch, Figures};
use attention_seq2seq::{Error, Result, RunConfig, RunDir, Vocab, open_device};
use burn::module::Module;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::output::say;
use crate::train::Settings;

/// The number of tokens of a vocabulary to show.
const SHOWN: usize = 12;

/// The size of a parameter, in bytes.
const BYTES: usize = 4;

#[derive(Args)]
pub(crate) struct InfoArgs {
    /// The folder of a training.
    #[arg(value_name = "DIR", default_value = "runs/dates")]
    run: PathBuf,
    /// As lines for a person, or as an object of JSON in one line.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

impl InfoArgs {
    pub(crate) fn run(self) -> Result<()> {
        let info = Info::of(RunDir::new(self.run))?;
        match self.format {
            Format::Text => say(info.to_text().trim_end()),
            Format::Json => say(serde_json::json!(info)),
        }
    }
}

/// A run, according to its folder.
#[derive(Serialize)]
struct Info {
    folder: PathBuf,
    /// The number of parameters of the model.
    parameters: usize,
    /// Their size in memory when translating, in bytes.
    bytes_in_memory: usize,
    /// The size of all files in the folder, in bytes.
    bytes_on_disk: u64,
    source_vocab: VocabInfo,
    target_vocab: VocabInfo,
    settings: RunConfig,
    history: Vec<Epoch>,
    /// The epoch with the lowest value of the metric by which checkpoints are kept.
    best: Option<usize>,
    /// The epochs from which training can continue.
    checkpoints: Vec<usize>,
    /// The epoch of the model.
    model: Option<usize>,
    /// Whether the model was chosen as the best when training ended; otherwise it is the newest.
    is_chosen: bool,
}

impl Info {
    fn of(run: RunDir) -> Result<Self> {
        let settings = run.load_config()?;
        let vocabs = run.load_vocabs(&settings.model)?;
        let history = run.history()?;
        let device = open_device(compiled_in_devices().first().unwrap_or(&"none"))?;
        // Parameters are counted without being initialised.
        let parameters = settings.init_model(&device).num_params();
        Ok(Self {
            folder: run.path().to_path_buf(),
            parameters,
            bytes_in_memory: BYTES * parameters,
            bytes_on_disk: bytes_below(run.path())?,
            source_vocab: VocabInfo::of(&vocabs.source),
            target_vocab: VocabInfo::of(&vocabs.target),
            best: settings.train.select.best(&history),
            history,
            checkpoints: run.checkpoints()?,
            model: run.model_file()?.map(|(_, epoch)| epoch),
            is_chosen: run.is_chosen()?,
            settings,
        })
    }

    /// A line for each fact, beginning with its name.
    fn to_text(&self) -> String {
        let Self { settings, .. } = self;
        let (kind, attention) = (settings.model.kind(), settings.attention);
        let mut data = settings.data.to_string();
        if let Some(checksum) = settings.data_checksum {
            data += &format!(", CRC-32 {checksum:08x}");
        }
        let model = match (self.model, self.is_chosen) {
            (Some(epoch), true) => {
                let select = settings.train.select;
                format!("epoch {epoch}, chosen for its {select}")
            }
            (Some(epoch), false) => {
                format!("epoch {epoch}, the newest: the training has not ended")
            }
            (None, _) => "none yet: no epoch was trained".to_string(),
        };
        let epochs = self.checkpoints.iter().map(usize::to_string);
        let facts = [
            ("folder", self.folder.display().to_string()),
            ("model", model),
            ("kind", format!("{kind} with the attention {attention}")),
            ("parameters", self.parameters.to_string()),
            ("in memory", size(self.bytes_in_memory as f64)),
            ("on disk", size(self.bytes_on_disk as f64)),
            ("source", self.source_vocab.to_text()),
            ("target", self.target_vocab.to_text()),
            ("data", data),
            ("settings", Settings::of(settings).to_toml()),
            ("outputs", format!("at most {} tokens", settings.max_len)),
            ("checkpoints", epochs.collect::<Vec<_>>().join(", ")),
            ("epochs", self.history_text()),
        ];
        let mut text = String::new();
        for (name, fact) in facts {
            let mut name = name;
            for line in fact.lines() {
                let _ = writeln!(text, "{name:<12} {}", line.trim_end());
                name = "";
            }
        }
        text
    }

    fn history_text(&self) -> String {
        let mut text = format!("{:>5}  {:<28}  {}\n", "", "train", "valid");
        let columns = format!("{:>8} {:>8} {:>8}", "loss", "exact  ", "errors  ");
        let _ = writeln!(text, "{:>5}  {columns:<28}  {columns}", "");
        for figures in &self.history {
            let epoch = figures.epoch;
            let mark = match Some(epoch) == self.best {
                true => format!("  lowest {}", self.settings.train.select),
                false => String::new(),
            };
            let (train, valid) = (row(&figures.train), row(&figures.valid));
            let _ = writeln!(text, "{epoch:>5}  {train:<28}  {valid}{mark}");
        }
        text
    }
}

/// Metrics in columns.
fn row(figures: &Figures) -> String {
    let bleu = figures.bleu.map(|bleu| format!(" BLEU {bleu:.2}"));
    let bleu = bleu.unwrap_or_default();
    let [loss, exact, errors] = [figures.loss, figures.exact_match, figures.token_errors];
    format!("{loss:>8.4} {exact:>6.2} % {errors:>6.2} %{bleu}")
}

fn size(bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    let (unit, name) = unit.unwrap_or((1e3, "kB"));
    format!("{:.1} {name}", bytes / unit)
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let failed = |source| Error::io("read", folder, source);
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        bytes += match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => bytes_below(&path)?,
            Ok(metadata) => metadata.len(),
            // A training that is running removes files that it no longer needs.
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(Error::io("read", path, error)),
        };
    }
    Ok(bytes)
}

/// A vocabulary.
#[derive(Serialize)]
struct VocabInfo {
    /// The number of tokens, including special tokens.
    size: usize,
    /// The most frequent tokens.
    first: Vec<String>,
}

impl VocabInfo {
    fn of(vocab: &Vocab) -> Self {
        let of_data = Vocab::SPECIAL_TOKENS..vocab.len();
        let first: Vec<u32> = of_data.take(SHOWN).map(|id| id as u32).collect();
        let (size, first) = (vocab.len(), vocab.decode(&first));
        Self { size, first }
    }

    fn to_text(&self) -> String {
        let tokens = self.first.iter().map(|token| format!("{token:?}"));
        let tokens = tokens.collect::<Vec<_>>().join(" ");
        let more = match self.size > Vocab::SPECIAL_TOKENS + self.first.len() {
            true => " ..",
            false => "",
        };
        format!("{} tokens: {tokens}{more}", self.size)
    }
}
