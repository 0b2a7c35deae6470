//! The settings of `seq2seq train`, from the command line, a file, or a preset.

use attention_seq2seq::data::{Columns, JsonFields, PairFormat, Stress};
use attention_seq2seq::model::ModelKind;
use attention_seq2seq::run::Select;
use attention_seq2seq::text::Normalization;
use attention_seq2seq::{AttentionKind, Tokenization, TrainConfig};
use clap::{Arg, Args, Command, Id};
use serde::{Deserialize, Serialize};

use super::as_text;
use super::cell::Cell;
use crate::values;

/// The arguments that a resumed run refuses: the settings that it keeps, and those that would set them.
pub(super) fn kept_by_resume() -> Vec<Id> {
    const MAY_CHANGE: [&str; 4] = ["epochs", "max_time", "learning_rate", "patience"];
    let settings = Settings::augment_args(Command::new("settings"));
    let kept = settings.get_arguments().map(Arg::get_id).cloned();
    let kept = kept.filter(|id| !MAY_CHANGE.contains(&id.as_str()));
    let others = ["preset", "config", "valid"].map(Id::from);
    kept.chain(others).collect()
}

/// The data or the model to which a setting belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Files,
    Tasks,
    Rnn,
    Transformer,
    Any,
}

/// Declares settings in groups, with all functions that treat each of them. The group `TrainConfig` is the last.
macro_rules! settings {
    (
        $(#[$of_all:meta])*
        struct $Settings:ident;
        $(=> $group:ident $($(#[$meta:meta])* $setting:ident: Option<$type:ty>,)*)*
        -> TrainConfig $($(#[$of_train:meta])* $train:ident: Option<$of:ty>,)*
    ) => {
        $(#[$of_all])*
        pub(crate) struct $Settings {
            $($($(#[$meta])* pub(super) $setting: Option<$type>,)*)*
            $($(#[$of_train])* pub(super) $train: Option<$of>,)*
        }

        impl $Settings {
            /// These settings, completed by those in `below`.
            pub(super) fn or(self, below: Self) -> Self {
                Self {
                    $($($setting: self.$setting.or(below.$setting),)*)*
                    $($train: self.$train.or(below.$train),)*
                }
            }

            /// The first given setting of a group, as a command-line option.
            pub(super) fn given_of(&self, group: Group) -> Option<String> {
                let all = [$($((stringify!($setting), Group::$group, self.$setting.is_some()),)*)*];
                let mut given = all.iter().filter(|(_, of, is_given)| *of == group && *is_given);
                given.next().map(|(name, ..)| format!("--{}", name.replace('_', "-")))
            }

            /// The settings of a training that are its fields with the same names.
            pub(super) fn of_train(train: &TrainConfig) -> Self {
                Self { $($train: Some(train.$train),)* ..Self::default() }
            }

            /// The reverse: these settings, completed by `defaults`.
            pub(super) fn train_over(&self, defaults: TrainConfig) -> TrainConfig {
                TrainConfig { $($train: self.$train.unwrap_or(defaults.$train),)* ..defaults }
            }
        }
    };
}

settings! {
    /// Settings; each may be left to a preset or the defaults. In a file they are named as on the command line.
    #[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    struct Settings;

    => Files
    /// The format of the files: tsv (columns divided by TAB), dict (a pronunciation dictionary, whose numbers and
    /// brackets between a word and its phonemes are left out) or jsonl (a JSON object a line) [default: as the ending
    /// of --data tells, .dict or .jsonl, CMUdict's own name, or a first line with `;;;`; else tsv].
    #[arg(long, value_name = "FORMAT")]
    #[arg(requires = "data", conflicts_with = "task")]
    #[serde(default, with = "as_text")]
    input_format: Option<PairFormat>,
    /// The columns of source and target, from 1, or the role of each column: source (or lemma), target (or form), tags,
    /// or - for none. Tags are divided by `;`, and each is a token before the source's; in a text to translate they
    /// come first: "V;PST go" [default: 1,2].
    #[arg(long, value_name = "SOURCE,TARGET")]
    #[arg(requires = "data", conflicts_with = "task")]
    #[serde(default, with = "as_text")]
    columns: Option<Columns>,
    /// The names of the fields of jsonl, of tags too if there are some [default: source,target].
    #[arg(long, value_name = "SOURCE,TARGET[,TAGS]")]
    #[arg(requires = "data", conflicts_with = "task")]
    #[serde(default, with = "as_text")]
    fields: Option<JsonFields>,
    /// The digits of stress of a dict [default: keep].
    #[arg(long, value_parser = values::stress(), requires = "data", conflicts_with = "task")]
    stress: Option<Stress>,
    /// Unicode's normal form of sources, targets and texts to translate, in which a letter and its accent are the same
    /// tokens whichever keyboard or system wrote them [default: nfc, which changes nothing in most files;
    /// nfd where source characters are syllables, as Hangul's are].
    #[arg(long, value_parser = values::normalization(), value_name = "FORM")]
    #[arg(requires = "data", conflicts_with = "task")]
    unicode: Option<Normalization>,
    /// The tokens of a source: spaces (U+0020 alone separates) or chars [default: as the preset has them, else guessed
    /// from the file].
    #[arg(long, value_name = "TOKENS")]
    #[arg(requires = "data", conflicts_with = "task")]
    source_tokens: Option<Tokenization>,
    /// The tokens of a target: spaces (U+0020 alone separates) or chars [default: as the preset has them, else guessed
    /// from the file].
    #[arg(long, value_name = "TOKENS")]
    #[arg(requires = "data", conflicts_with = "task")]
    target_tokens: Option<Tokenization>,
    /// Divide words into subwords, at most N different ones, learned from the file of --data by byte-pair encoding:
    /// source and target each their own, but for a side whose tokens are given. In a build with the feature `subwords`.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(requires = "data", conflicts_with = "task")]
    subwords: Option<usize>,
    /// The most tokens of a source or a target; a file with a longer one is refused [default: 1000].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(requires = "data", conflicts_with = "task")]
    max_tokens: Option<usize>,

    => Any
    /// The fewest occurrences of a token that the model knows; it reads others as `<unk>`, and writes none of them
    /// [default: 1].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    min_count: Option<usize>,
    /// The most tokens of source and of target that the model knows, the most frequent ones [default: all].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_vocab: Option<usize>,

    => Tasks
    /// The number of pairs of a task generated to learn from [default: 24000].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(conflicts_with = "data")]
    train_pairs: Option<usize>,
    /// The number of pairs of a task generated to validate on, of other sources [default: 1000].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(conflicts_with = "data")]
    valid_pairs: Option<usize>,

    => Any
    /// The model [default: rnn].
    #[arg(long, value_parser = values::model())]
    model: Option<ModelKind>,
    /// The attention of the decoder to the source; a Transformer takes those from additive to gaussian [default:
    /// additive, of a Transformer dot].
    #[arg(long, value_parser = values::attention())]
    attention: Option<AttentionKind>,
    /// The feature dimension of a state of encoder and decoder [default: 128].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    hidden: Option<usize>,
    /// The number of layers of encoder and decoder [default: 1, of a Transformer 2].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    layers: Option<usize>,

    => Rnn
    /// The recurrent cell of encoder and decoder [default: gru].
    #[arg(long, value_enum)]
    cell: Option<Cell>,
    /// The feature dimension of a token's embedding, before recurrent layers [default: 32].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    embedding: Option<usize>,
    /// Read the source left to right only, by recurrent layers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    unidirectional: Option<bool>,

    => Transformer
    /// The number of heads of each attention of a Transformer [default: 4].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    heads: Option<usize>,
    /// The number of hidden units of the feed-forward networks of a Transformer [default: twice --hidden].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    feed_forward: Option<usize>,

    => Any
    /// The probability to drop an attention weight or an output feature while training; of a Transformer, an element of
    /// an embedding or of what a sublayer adds [default: 0].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    dropout: Option<f64>,

    => Rnn
    /// The probability to drop a feature of an embedding, before recurrent layers [default: 0].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    embedding_dropout: Option<f64>,
    /// The probability to drop an output of a recurrent layer below another [default: 0].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    layer_dropout: Option<f64>,

    => Any
    /// The number of times that every pair is visited [default: 3 for a task, 6 for a file; of a Transformer 10
    /// and 20].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(conflicts_with = "steps")]
    epochs: Option<usize>,
    /// The number of steps instead, after which training ends within an epoch, too.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    steps: Option<usize>,
    /// End training after MINUTES minutes, wherever it is; the learning rate has fallen by then.
    #[arg(long, value_name = "MINUTES", allow_negative_numbers = true)]
    max_time: Option<f64>,

    // Fields of `TrainConfig` by the same names.
    -> TrainConfig
    /// The number of pairs in a step [default: 64].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    batch_size: Option<usize>,
    /// Adam's learning rate at the start; it falls along a cosine [default: 0.004, of a Transformer 0.002].
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    learning_rate: Option<f64>,
    /// The number of steps in which the learning rate first rises, linearly, at most a quarter of all [default: 0, of a
    /// Transformer 400].
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true)]
    warmup: Option<usize>,
    /// The share of each target that is spread over all tokens, in training [default: 0].
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    label_smoothing: Option<f64>,
    /// Keep the exponential moving average of the weights, of this decay, as the model; 0 keeps the weights
    /// [default: 0].
    #[arg(long, value_name = "DECAY", allow_negative_numbers = true)]
    ema: Option<f64>,
    /// The norm to which the gradient of all parameters together is clipped, at most 1e18 [default: 1]. A step whose
    /// gradient or loss is not finite changes nothing and is named on the standard error; after ten in a row training
    /// ends with exit code 2.
    #[arg(long, value_name = "NORM", allow_negative_numbers = true)]
    clip: Option<f32>,
    /// The figure of validation by which checkpoints are kept, the model is chosen and training is stopped, by error
    /// rate and BLEU by their mean over three epochs [default: loss].
    #[arg(long, value_parser = values::select())]
    select: Option<Select>,
    /// Stop after this many epochs without a better one [default: 3].
    #[arg(long, value_name = "EPOCHS", allow_negative_numbers = true)]
    patience: Option<usize>,
    /// The seed of data, parameters and dropout [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
}
