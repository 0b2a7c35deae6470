//! The arguments of `seq2seq train`.

use std::path::PathBuf;

use attention_seq2seq::{AttentionKind, Columns, ModelKind, Tokenization, TrainConfig, TsvOptions};
use burn_fused_layers::recurrent::CellKind;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::cli::Machine;

/// The settings that a resumed run keeps.
const KEPT_BY_RESUME: [&str; 21] = [
    "valid",
    "columns",
    "source_tokens",
    "target_tokens",
    "max_tokens",
    "train_pairs",
    "valid_pairs",
    "model",
    "attention",
    "cell",
    "embedding",
    "unidirectional",
    "heads",
    "feed_forward",
    "hidden",
    "layers",
    "dropout",
    "batch_size",
    "warmup",
    "clip",
    "seed",
];

#[derive(Args)]
pub(crate) struct TrainArgs {
    /// The task: dates (human-written dates to ISO 8601), reverse or copy [default: dates].
    #[arg(conflicts_with = "data")]
    pub(super) task: Option<String>,
    /// A file of pairs instead: source TAB target, one pair a line; `-` is the standard input. Spaces and carriage
    /// returns around a column are no part of it; other white space, such as a no-break space, is.
    #[arg(long, value_name = "FILE")]
    pub(super) data: Option<PathBuf>,
    // `conflicts_with` too: clap waives `requires` beside a task, because `--data` would conflict with that.
    /// The pairs to validate on, another file or stream than --data [default: 5 % of the sources of --data].
    #[arg(long, value_name = "FILE", requires = "data", conflicts_with = "task")]
    pub(super) valid: Option<PathBuf>,
    /// The columns of source and target, from 1.
    #[arg(
        long,
        value_name = "SOURCE,TARGET",
        default_value = "1,2",
        requires = "data",
        conflicts_with = "task"
    )]
    pub(super) columns: Columns,
    /// The tokens of a source: spaces (U+0020 alone separates) or chars [default: guessed from the file].
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "data",
        conflicts_with = "task"
    )]
    pub(super) source_tokens: Option<Tokenization>,
    /// The tokens of a target: spaces (U+0020 alone separates) or chars [default: guessed from the file].
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "data",
        conflicts_with = "task"
    )]
    pub(super) target_tokens: Option<Tokenization>,
    /// The most tokens of a source or a target; a file with a longer one is refused.
    #[arg(
        long,
        value_name = "N", allow_negative_numbers = true,
        default_value_t = TsvOptions::MAX_TOKENS,
        requires = "data",
        conflicts_with = "task"
    )]
    pub(super) max_tokens: usize,
    /// The number of pairs of a task generated to learn from.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        default_value_t = 24_000,
        conflicts_with = "data"
    )]
    pub(super) train_pairs: usize,
    /// The number of pairs of a task generated to validate on, of other sources.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        default_value_t = 1_000,
        conflicts_with = "data"
    )]
    pub(super) valid_pairs: usize,

    /// The model.
    #[arg(long, value_enum, default_value_t)]
    pub(super) model: ModelKind,
    /// The attention of the decoder to the source; a Transformer takes those from additive to gaussian [default:
    /// additive, of a Transformer dot].
    #[arg(long, value_enum)]
    pub(super) attention: Option<AttentionKind>,
    /// The feature dimension of a state of encoder and decoder.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        default_value_t = 128
    )]
    pub(super) hidden: usize,
    /// The number of layers of encoder and decoder [default: 1, of a Transformer 2].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) layers: Option<usize>,
    /// The recurrent cell of encoder and decoder [default: gru].
    #[arg(long, value_name = "CELL", value_parser = cells())]
    pub(super) cell: Option<CellKind>,
    /// The feature dimension of a token's embedding, before recurrent layers [default: 32].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) embedding: Option<usize>,
    /// Read the source left to right only, by recurrent layers.
    #[arg(long)]
    pub(super) unidirectional: bool,
    /// The number of heads of each attention of a Transformer [default: 4].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) heads: Option<usize>,
    /// The number of hidden units of the feed-forward networks of a Transformer [default: twice --hidden].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) feed_forward: Option<usize>,
    /// The probability to drop an attention weight or an output feature while training; of a Transformer, an element of
    /// an embedding or of what a sublayer adds.
    #[arg(
        long,
        value_name = "P",
        allow_negative_numbers = true,
        default_value_t = 0.0
    )]
    pub(super) dropout: f64,

    /// The number of times that every pair is visited [default: 3 for a task, 6 for a file; of a Transformer 10
    /// and 20].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) epochs: Option<usize>,
    /// The number of pairs in a step.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = TrainConfig::default().batch_size)]
    pub(super) batch_size: usize,
    /// Adam's learning rate at the start; it falls along a cosine [default: 0.004, of a Transformer 0.002].
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub(super) learning_rate: Option<f64>,
    /// The number of steps in which the learning rate first rises, linearly, at most a quarter of all [default: 0, of a
    /// Transformer 400].
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true)]
    pub(super) warmup: Option<usize>,
    /// The norm to which the gradient of all parameters together is clipped, at most 1e18. A step whose gradient or
    /// loss is not finite changes nothing and is named on the standard error; after ten in a row training ends with
    /// exit code 2.
    #[arg(long, value_name = "NORM", allow_negative_numbers = true, default_value_t = TrainConfig::default().clip)]
    pub(super) clip: f32,
    /// Stop after this many epochs without a lower validation loss [default: 3].
    #[arg(long, value_name = "EPOCHS", allow_negative_numbers = true)]
    pub(super) patience: Option<usize>,
    /// The seed of data, parameters and dropout.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = TrainConfig::default().seed)]
    pub(super) seed: u64,

    /// The folder of the run [default: runs/TASK, or runs/FILE without its ending].
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Go on with the run in that folder, from its newest checkpoint and with its settings. --epochs raises the number
    /// of epochs, and the learning rate then follows the longer cosine from its last step; --learning-rate and
    /// --patience may change, too.
    #[arg(long, conflicts_with = "overwrite", conflicts_with_all = KEPT_BY_RESUME)]
    pub(super) resume: bool,
    /// Start anew in a folder that holds a run.
    #[arg(long)]
    pub(super) overwrite: bool,
    #[command(flatten)]
    pub(super) machine: Machine,
}

/// The names of recurrent cells.
fn cells() -> impl TypedValueParser<Value = CellKind> {
    PossibleValuesParser::new(["gru", "lstm"]).map(|name| match name.as_str() {
        "lstm" => CellKind::Lstm,
        _ => CellKind::Gru,
    })
}
