//! Models of sentence-transformers: a model without a head, and modules that turn its features into one vector.

use std::path::{Component, Path, PathBuf};

use attention_core::NewRows;
use attention_import::json::kind;
use attention_import::{ImportError, Place, Reason, StateDict};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::{Activation, activate, linear};
use serde_json::Value;

use super::bart;
use super::fields::Fields;
use super::folder::{CONFIG, load_weights};
use super::names::Names;
use super::open::{OpenModel, open_alone};
use crate::text_encoder::{Pooling, normalized, vectors};

/// The file that lists the modules.
const MODULES: &str = "modules.json";

/// The name parts in `sentence_.._config.json`, the first module's file: the current one, and those of older versions.
const TEXTS: &str = "bert roberta distilbert camembert albert xlm-roberta xlnet";

/// The kinds of modules, by the last part of their `type`.
const KINDS: [&str; 4] = ["Transformer", "Pooling", "Dense", "Normalize"];

/// Poolings by name (in older files part of the names of flags), in the order in which their vectors are concatenated.
const POOLINGS: [(&str, Pooling); 6] = [
    ("cls", Pooling::First),
    ("max", Pooling::Max),
    ("mean", Pooling::Mean),
    ("mean_sqrt_len_tokens", Pooling::MeanSqrtLen),
    ("weightedmean", Pooling::WeightedMean),
    ("lasttoken", Pooling::Last),
];

/// Arguments of downloads, which change no model.
const OF_DOWNLOADS: [&str; 6] = [
    "subfolder",
    "token",
    "cache_dir",
    "revision",
    "local_files_only",
    "trust_remote_code",
];

type Activate = fn(Tensor<2>) -> Tensor<2>;

/// Activations by the last part of their names.
const ACTIVATIONS: [(&str, Activate); 6] = [
    ("Identity", |vectors| vectors),
    ("Sigmoid", sigmoid),
    ("Tanh", tanh),
    ("ReLU", |vectors| activate(vectors, Activation::Relu)),
    ("GELU", |vectors| activate(vectors, Activation::Gelu)),
    ("SiLU", |vectors| activate(vectors, Activation::Silu)),
];

/// A model of sentence-transformers: LaBSE, GTR, sentence-T5, MiniLM, BGE, .. Made by [`open_sentences`].
#[derive(Module, Debug)]
pub struct SentenceEncoder {
    /// The model that computes the features of tokens.
    pub encoder: OpenModel,
    /// The poolings of the features, whose vectors are concatenated.
    #[module(skip)]
    pub poolings: Vec<Pooling>,
    /// The layers that follow, the first one first.
    pub dense: Vec<SentenceDense>,
    /// The numbers of layers after which vectors are divided by their norms.
    #[module(skip)]
    pub normalized_after: Vec<usize>,
    /// The number of tokens to which a text is cut, including those that the tokenizer adds.
    #[module(skip)]
    pub max_tokens: Option<usize>,
    /// The text that precedes each text, unless the caller gives another.
    #[module(skip)]
    pub prompt: Option<String>,
    /// Whether texts are lowercased before the tokenizer reads them.
    #[module(skip)]
    pub lower_case: bool,
    /// The number of elements that vectors are cut to, if they have more.
    #[module(skip)]
    pub truncate_dim: Option<usize>,
}

/// A linear layer and its activation.
#[derive(Module, Debug)]
pub struct SentenceDense {
    /// The layer.
    pub linear: Linear,
    #[module(skip)]
    activation: Activate,
}

impl SentenceEncoder {
    /// The vector of each text, as `SentenceTransformer.encode` computes it from the same tokens.
    ///
    /// # Shapes
    /// - tokens `[batch, rows]`, result `[batch, size]`
    ///
    /// # Panics
    /// As [`OpenModel::features`], or if a text has no tokens.
    pub fn embeddings(&self, tokens: Tensor<2, Int>, rows: NewRows) -> Tensor<2> {
        let features = self.encoder.features(tokens, rows);
        let poolings = self.poolings.iter();
        let poolings = poolings.map(|pooling| vectors(features.clone(), rows, *pooling));
        let mut embeddings = Tensor::cat(poolings.collect(), 1);
        for after in 0..=self.dense.len() {
            if let Some(dense) = after.checked_sub(1).map(|at| &self.dense[at]) {
                let (weight, bias) = of_linear(&dense.linear);
                embeddings = (dense.activation)(linear(embeddings, weight, bias));
            }
            if self.normalized_after.contains(&after) {
                embeddings = normalized(embeddings);
            }
        }
        match self.truncate_dim {
            Some(size) if size < embeddings.dims()[1] => embeddings.narrow(1, 0, size),
            _ => embeddings,
        }
    }
}

/// Loads a model of sentence-transformers (6.2) from its folder: `modules.json` lists the modules, which are a
/// `Transformer` (any model of [`open`](super::open) except BART and mBART), a `Pooling`, and any number of `Dense` and
/// `Normalize` in any order.
///
/// - `Pooling`: `pooling_mode`, or the six flags of older versions
/// - `Dense`: `linear.weight` and `linear.bias` in the folder of the module, and an activation: the identity, `Tanh`,
///   `Sigmoid`, `ReLU`, `GELU` or `SiLU`
/// - [`max_tokens`](SentenceEncoder::max_tokens): `max_seq_length` in `sentence_bert_config.json`, otherwise
///   `model_max_length` in `tokenizer_config.json` (since version 6.2), but at most the number of the model's positions
/// - [`prompt`](SentenceEncoder::prompt) and [`truncate_dim`](SentenceEncoder::truncate_dim): the prompt
///   `default_prompt_name` and the field of that name of `config_sentence_transformers.json`
///
/// # Errors
/// As [`hub`](super) describes; a module of another kind, or one that reads or writes other features, is refused.
///
/// ```no_run
/// use attention_core::NewRows;
/// use attention_transformers::hub::open_sentences;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let model = open_sentences("LaBSE", &device)?;
/// // Two texts by its tokenizer, which is not ours, the second shorter: "[CLS] .. [SEP]" and padding.
/// let tokens = Tensor::from_ints([[101, 15094, 2008, 102], [101, 7592, 102, 0]], &device);
/// let embeddings = model.embeddings(tokens, NewRows::First(&[4, 3]));
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn open_sentences(
    folder: impl AsRef<Path>,
    device: &Device,
) -> Result<SentenceEncoder, ImportError> {
    let folder = folder.as_ref();
    let modules = modules(folder)?;
    let [transformer, pooling, rest @ ..] = &modules[..] else {
        let reason = format!("expected at least two modules, got {}", modules.len());
        return Err(ImportError::of(&folder.join(MODULES))(reason));
    };
    transformer.expect(&KINDS[..1])?;
    pooling.expect(&KINDS[1..2])?;
    let encoder = open_alone(&transformer.folder, device)?;
    read(&transformer.folder.join(CONFIG), |fields| {
        let got = fields.text("model_type")?;
        if bart::HAVE_DECODERS.contains(&got) {
            let expected = "a model whose features are those of an encoder";
            return Err(fields.wrong("model_type", expected, format!("\"{got}\"")));
        }
        Ok(())
    })?;
    let [_, num_hiddens] = encoder.embedding().tokens.weight.dims();
    let (max_tokens, lower_case) = texts(&transformer.folder, &encoder)?;
    let (prompt, truncate_dim) = of_all_modules(folder)?;
    let poolings = read(&pooling.folder.join(CONFIG), |fields| {
        if prompt.is_some() {
            fields.expect_flag("include_prompt", "since the prompt is pooled with its text")?;
        }
        poolings(fields, num_hiddens)
    })?;
    let mut size = num_hiddens * poolings.len();
    let (mut dense, mut normalized_after) = (Vec::new(), Vec::new());
    for module in rest {
        module.expect(&KINDS[2..])?;
        if module.kind == KINDS[3] {
            module.expect_vectors()?;
            normalized_after.push(dense.len());
        } else {
            dense.push(module.dense(&mut size, device)?);
        }
    }
    Ok(SentenceEncoder {
        encoder,
        poolings,
        dense,
        normalized_after,
        max_tokens,
        prompt,
        lower_case,
        truncate_dim,
    })
}

/// # Errors
/// If the folder has a `modules.json` with a module beyond pooling and normalization.
pub(super) fn refuse_dense(folder: &Path) -> Result<(), ImportError> {
    if !folder.join(MODULES).exists() {
        return Ok(());
    }
    let mut modules = modules(folder)?.into_iter();
    let Some(other) = modules.find(|of| !of.is_of(&[KINDS[0], KINDS[1], KINDS[3]])) else {
        return Ok(());
    };
    let reason = format!(
        "expected no module `{}`, without which the vectors of texts are others: load the folder by \
         `hub::open_sentences`",
        other.class
    );
    Err(ImportError::of(&other.file)(reason))
}

/// An entry of `modules.json`.
struct SentenceModule {
    /// The file that lists the module.
    file: PathBuf,
    class: String,
    /// The last part of the class name, if the class is one of sentence-transformers.
    kind: String,
    folder: PathBuf,
}

fn modules(folder: &Path) -> Result<Vec<SentenceModule>, ImportError> {
    let file = folder.join(MODULES);
    let module = |(at, value): (usize, Value)| {
        let Value::Object(object) = value else {
            let got = kind(&value);
            return Err(format!("module {at}: expected an object, got {got}").into());
        };
        let fields = Fields::of(format!("{at}."), object);
        let class = fields.text("type")?.to_string();
        let path = Path::new(fields.text("path")?);
        let mut parts = path.components();
        if !parts.all(|part| matches!(part, Component::Normal(_))) {
            let got = format!("\"{}\"", path.display());
            return Err(fields.wrong("path", "a folder beside the file", got));
        }
        let of_library = class.strip_prefix("sentence_transformers.").unwrap_or("");
        let kind = of_library.rsplit('.').next().unwrap_or("").to_string();
        Ok(SentenceModule {
            file: file.clone(),
            folder: folder.join(path),
            class,
            kind,
        })
    };
    let modules = std::fs::read(&file).map_err(|error| Reason::from(error.to_string()));
    let modules = modules.and_then(|text| {
        let all: Vec<Value> = serde_json::from_slice(&text)
            .map_err(|error| format!("expected a list of modules in JSON: {error}"))?;
        all.into_iter().enumerate().map(module).collect()
    });
    modules.map_err(ImportError::of(&file))
}

impl SentenceModule {
    fn is_of(&self, kinds: &[&str]) -> bool {
        kinds.contains(&self.kind.as_str())
    }

    /// # Errors
    /// If the module is of another kind.
    fn expect(&self, kinds: &[&str]) -> Result<(), ImportError> {
        if self.is_of(kinds) {
            return Ok(());
        }
        let (kinds, got) = (kinds.join(" or "), &self.class);
        let reason = format!("expected a module of sentence-transformers, {kinds}, got `{got}`");
        Err(ImportError::of(&self.file)(reason))
    }

    /// # Errors
    /// If the module reads or writes other features than the vector of a text.
    fn expect_vectors(&self) -> Result<(), ImportError> {
        read(&self.folder.join(CONFIG), |fields| {
            fields.expect_text("module_input_name", "sentence_embedding")?;
            fields.expect_text("module_output_name", "sentence_embedding")
        })
    }

    /// The layer for vectors of `size` elements; `size` then becomes the number of its outputs.
    fn dense(&self, size: &mut usize, device: &Device) -> Result<SentenceDense, ImportError> {
        self.expect_vectors()?;
        let config = self.folder.join(CONFIG);
        let (linear, activation) = read(&config, |fields| {
            fields.refuse_flag("use_residual", "the input is not added to the result")?;
            let [inputs, outputs] = [fields.size("in_features")?, fields.size("out_features")?];
            if inputs != *size {
                let expected = format!("{size}, as the modules before it make");
                return Err(fields.wrong("in_features", &expected, inputs));
            }
            *size = outputs;
            let config = LinearConfig::new(inputs, outputs);
            let linear = config.with_bias(fields.flag("bias", true)?).init(device);
            let given = fields.optional_text("activation_function")?;
            let name = given.unwrap_or("torch.nn.Tanh");
            let of_torch = name.strip_prefix("torch.nn.").unwrap_or("");
            let own = of_torch.rsplit('.').next();
            let found = ACTIVATIONS.iter().find(|(name, _)| own == Some(name));
            let known = ACTIVATIONS.map(|(name, _)| name);
            let unknown = || fields.unknown("activation_function", &known, name);
            Ok((linear, found.ok_or_else(unknown)?.1))
        })?;
        let place = Place::weight_and_bias("linear");
        let load = |file: &StateDict| file.linear(linear, place);
        Ok(SentenceDense {
            linear: load_weights(&self.folder, load, |_| false)?,
            activation,
        })
    }
}

fn poolings(fields: &Fields, num_hiddens: usize) -> Result<Vec<Pooling>, Reason> {
    const FIELD: &str = "pooling_mode";
    const SIZE: &str = "embedding_dimension";
    let names = Names(&[(SIZE, "word_embedding_dimension")]);
    let fields = fields.clone().named(names);
    let size = fields.size(SIZE)?;
    if size != num_hiddens {
        return Err(fields.wrong(SIZE, &format!("{num_hiddens}, as the features have"), size));
    }
    let names = match fields.value(FIELD) {
        Some(Value::Array(_)) => fields.texts(FIELD)?,
        _ => fields.optional_text(FIELD)?.map(|name| vec![name]),
    };
    let Some(names) = names else {
        let mut flags = Vec::new();
        let ends = ["_token", "_tokens", "_tokens", "", "_tokens", ""];
        for ((name, pooling), end) in POOLINGS.into_iter().zip(ends) {
            let is_set = fields.flag(&format!("pooling_mode_{name}{end}"), false)?;
            flags.extend(is_set.then_some(pooling));
        }
        if flags.is_empty() {
            flags.push(Pooling::Mean);
        }
        return Ok(flags);
    };
    if names.is_empty() {
        return Err(fields.wrong(FIELD, "at least one", "none"));
    }
    let pooling = |name: &str| {
        let found = POOLINGS.iter().find(|(own, _)| *own == name);
        let found = found.map(|(_, pooling)| *pooling);
        found.ok_or_else(|| fields.unknown(FIELD, &POOLINGS.map(|(own, _)| own), name))
    };
    names.into_iter().map(pooling).collect()
}

/// The number of tokens to which texts are cut, and whether they are lowercased.
fn texts(folder: &Path, encoder: &OpenModel) -> Result<(Option<usize>, bool), ImportError> {
    let names = TEXTS.split(' ');
    let mut files = names.map(|name| folder.join(format!("sentence_{name}_config.json")));
    let config = files.find(|path| path.exists()).unwrap_or_default();
    let (own, lower_case) = read(&config, |fields| {
        fields.expect_text("transformer_task", "feature-extraction")?;
        fields.expect_text("module_output_name", "token_embeddings")?;
        for name in ["config_args", "config_kwargs"] {
            if fields
                .object(name)?
                .is_some_and(|changes| !changes.has_only(&OF_DOWNLOADS))
            {
                fields.refuse(name, "the model is that of its `config.json`")?;
            }
        }
        let modalities = fields.object("modality_config")?;
        let of_texts = modalities.map(|of| of.object("text")).transpose()?;
        if let Some(of_texts) = of_texts.flatten() {
            of_texts.expect_text("method", "forward")?;
            of_texts.expect_text("method_output_name", "last_hidden_state")?;
        }
        let own = fields.optional_size("max_seq_length")?;
        Ok((own, fields.flag("do_lower_case", false)?))
    })?;
    // A tokenizer without a limit has a limit of 1e30.
    let of_file = |name: &str, field: &str| {
        let len = read(&folder.join(name), |fields| fields.optional_positive(field))?;
        Ok(len.map(|len| len as usize).filter(|_| own.is_none()))
    };
    let all = [
        own,
        of_file("tokenizer_config.json", "model_max_length")?,
        of_file(CONFIG, "max_position_embeddings")?,
        encoder.position_limit().map(|limit| limit.max_positions),
    ];
    let least = all.into_iter().flatten().min();
    Ok((least.filter(|len| *len < usize::MAX), lower_case))
}

/// The prompt for texts, unless the caller names another, and the size that vectors are cut to.
fn of_all_modules(folder: &Path) -> Result<(Option<String>, Option<usize>), ImportError> {
    let config = folder.join("config_sentence_transformers.json");
    read(&config, |fields| {
        let truncate_dim = fields.optional_size("truncate_dim")?;
        let Some(name) = fields.optional_text("default_prompt_name")? else {
            return Ok((None, truncate_dim));
        };
        let prompts = fields.object("prompts")?;
        let prompts = prompts.ok_or_else(|| fields.missing("prompts", "the default prompt"))?;
        let prompt = prompts.text(name)?.to_string();
        Ok(((!prompt.is_empty()).then_some(prompt), truncate_dim))
    })
}

/// The result of `take` for the fields of a file; a file that older folders lack counts as having no fields.
fn read<T>(path: &Path, take: impl FnOnce(&Fields) -> Result<T, Reason>) -> Result<T, ImportError> {
    let fields = if path.exists() {
        Fields::read(path)
    } else {
        Ok(Fields::of(String::new(), Default::default()))
    };
    let taken = fields.and_then(|fields| take(&fields));
    taken.map_err(ImportError::of(path))
}
