//! The fields of a `config.json`.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;

use attention_import::Reason;
use attention_import::json::{kind, read_object};
use serde_json::{Map, Value};
use tensor_files::shown;

use super::names::Names;

/// The largest size, for which products of two do not overflow.
const MAX_SIZE: u64 = i32::MAX as u64;

/// Positive numbers in the range of f32, whose products with its numbers need not overflow.
const IN_F32: RangeInclusive<f64> = f32::MIN_POSITIVE as f64..=f32::MAX as f64;

/// The largest number of layers, so that a config cannot exhaust memory.
const MAX_LAYERS: usize = 10_000;

/// Fields of unsupported families, and for each the value that, like null, changes nothing: in a config with the
/// `model_type` of a supported family, other values would give wrong results.
const UNREAD: [(&str, f64); 22] = [
    ("alibi", 0.0),
    ("attention_chunk_size", 0.0),
    ("attention_multiplier", 1.0),
    ("clip_qkv", 0.0),
    ("embedding_multiplier", 1.0),
    ("logit_scale", 1.0),
    ("logits_scaling", 1.0),
    ("n_routed_experts", 0.0),
    ("no_rope_layer_interval", 0.0),
    ("no_rope_layers", 0.0),
    ("num_experts", 0.0),
    ("num_local_experts", 0.0),
    ("parallel_attn", 0.0),
    ("qk_layernorm", 0.0),
    ("residual_multiplier", 1.0),
    ("rope_interleave", 0.0),
    ("rope_interleaved", 0.0),
    ("rotary_pct", 1.0),
    ("scale_depth", 1.0),
    ("scale_emb", 1.0),
    ("use_parallel_residual", 0.0),
    ("use_qk_norm", 0.0),
];

/// Families with the names of Llama's and no field for the layout of feature pairs, by how their classes begin.
const INTERLEAVED: [&str; 2] = ["Helium", "Ernie4_5"];

/// The fields of an object; errors name them by their path.
#[derive(Clone)]
pub(super) struct Fields {
    /// The path of the object, with a dot after it; empty for the whole file.
    path: String,
    object: Map<String, Value>,
    /// The family's own names, by which errors name fields, too.
    names: Names,
}

impl Fields {
    /// The fields of the `config.json` at `path`. Fields without a `model_type` but with types of tokens are BERT's,
    /// unless they name the class of another family: the first files have no `model_type`.
    pub(super) fn read(path: &Path) -> Result<Self, Reason> {
        let fields = Self::of(String::new(), read_object(path)?);
        let classes = fields.texts("architectures")?.unwrap_or_default();
        let is_bert = classes.iter().all(|class| class.starts_with("Bert"));
        Ok(if is_bert && fields.has("type_vocab_size") {
            fields.or("model_type", "bert".into())
        } else {
            fields
        })
    }

    /// The fields of an object that errors call `path`, with a dot after it.
    pub(super) fn of(path: String, object: Map<String, Value>) -> Self {
        Self {
            path,
            object,
            names: Names(&[]),
        }
    }

    /// These fields, for a family with its own names.
    pub(super) fn named(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// The fields of the object in the field `name`; `None` if it is absent or null.
    pub(super) fn object(&self, name: &str) -> Result<Option<Self>, Reason> {
        let object = self.read_as(name, "an object", Value::as_object)?;
        Ok(object.map(|object| Self::of(format!("{}{name}.", self.path), object.clone())))
    }

    /// The name of a field in the file: the family's own, unless only the common name occurs.
    pub(super) fn own<'a>(&self, name: &'a str) -> &'a str {
        let own = self.names.own(name);
        let is_there = |name: &str| self.object.get(name).is_some_and(|of| !of.is_null());
        // The common name of an activation is no alias in `transformers`.
        let is_common = name != "hidden_act" && is_there(name) && !is_there(own);
        if is_common { name } else { own }
    }

    /// These fields with `value` in the field `name`; `None` removes it.
    pub(super) fn with(mut self, name: &str, value: Option<Value>) -> Self {
        match value {
            Some(value) => self.object.insert(name.to_string(), value),
            None => self.object.remove(name),
        };
        self
    }

    /// These fields with `value` in the field `name`, unless it has a value.
    pub(super) fn or(self, name: &str, value: Value) -> Self {
        if self.value(name).is_some() {
            return self;
        }
        self.with(name, Some(value))
    }

    /// These fields, with those of another object replacing or added to them.
    pub(super) fn updated(mut self, other: Self) -> Self {
        self.object.extend(other.object);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.object.is_empty()
    }

    /// Whether there is no field but these.
    pub(super) fn has_only(&self, names: &[&str]) -> bool {
        self.object
            .keys()
            .all(|name| names.contains(&name.as_str()))
    }

    /// The value of a field; `None` if it is absent or null.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        let value = self.object.get(self.own(name));
        value.filter(|value| !value.is_null())
    }

    /// The value of a field, converted by `read`; `None` if it is absent or null.
    fn read_as<'a, T>(
        &'a self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Reason> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let read = read(value).map(Some);
        read.ok_or_else(|| self.unexpected(name, expected, value))
    }

    /// Whether there is a field, which may be null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.object.contains_key(self.own(name))
    }

    /// The size in the field `name`.
    pub(super) fn size(&self, name: &str) -> Result<usize, Reason> {
        let size = self.optional_size(name)?;
        size.ok_or_else(|| self.missing(name, "a size"))
    }

    /// The number of layers in the field `name`.
    pub(super) fn num_layers(&self, name: &str) -> Result<usize, Reason> {
        let number = self.size(name)?;
        if number > MAX_LAYERS {
            return Err(self.wrong(name, &format!("at most {MAX_LAYERS} layers"), number));
        }
        Ok(number)
    }

    /// The number of heads, and the size of rows, which they share.
    pub(super) fn heads_and_hiddens(&self) -> Result<[usize; 2], Reason> {
        let [heads, hiddens] = ["num_attention_heads", "hidden_size"];
        let sizes = [self.size(heads)?, self.size(hiddens)?];
        self.divides(heads, hiddens, sizes)?;
        Ok(sizes)
    }

    /// # Errors
    /// If the first size does not divide the second.
    pub(super) fn divides(
        &self,
        name: &str,
        of: &str,
        [divisor, size]: [usize; 2],
    ) -> Result<(), Reason> {
        if size.is_multiple_of(divisor) {
            return Ok(());
        }
        let expected = format!("a divisor of `{}`, {size}", self.own(of));
        Err(self.wrong(name, &expected, divisor))
    }

    /// # Errors
    /// If a size that may have two names, the common one and the family's, has them with different values.
    pub(super) fn expect_aliases(
        &self,
        names: &'static [(&'static str, &'static str)],
    ) -> Result<(), Reason> {
        let named = self.clone().named(Names(names));
        for (name, _) in names {
            named.optional_size(name)?;
        }
        Ok(())
    }

    /// # Errors
    /// If the size in the field `name` differs from that of rows.
    pub(super) fn expect_size_of_hiddens(&self, name: &str) -> Result<(), Reason> {
        let num_hiddens = self.size("hidden_size")?;
        let size = self.optional_size(name)?.unwrap_or(num_hiddens);
        if size == num_hiddens {
            return Ok(());
        }
        Err(self.wrong(name, &format!("`hidden_size`, {num_hiddens}"), size))
    }

    /// The size in the field `name`; a family may have it twice, by its own name and the common one.
    pub(super) fn optional_size(&self, name: &str) -> Result<Option<usize>, Reason> {
        let expected = format!("a size in 1 ..= {MAX_SIZE}");
        let size = self.read_as(name, &expected, |value| {
            let size = value.as_u64().filter(|size| (1..=MAX_SIZE).contains(size));
            size.map(|size| size as usize)
        })?;
        let (own, other) = (self.own(name), self.object.get(name));
        let other = other.filter(|other| own != name && !other.is_null());
        match (size, other) {
            (Some(size), Some(other)) if other.as_u64() != Some(size as u64) => Err(format!(
                "`{}{name}`: expected {size}, as `{own}` is the same size, got {}",
                self.path,
                kind(other)
            )
            .into()),
            _ => Ok(size),
        }
    }

    /// The size in the field `name`, or 0.
    pub(super) fn size_or_0(&self, name: &str) -> Result<usize, Reason> {
        match self.value(name).and_then(Value::as_u64) {
            Some(0) => Ok(0),
            _ => self.size(name),
        }
    }

    /// The number in the field `name`, which must be above 0.
    pub(super) fn positive(&self, name: &str) -> Result<f64, Reason> {
        let number = self.optional_positive(name)?;
        number.ok_or_else(|| self.missing(name, "a number above 0"))
    }

    pub(super) fn optional_positive(&self, name: &str) -> Result<Option<f64>, Reason> {
        let number = self.read_as(name, "a number above 0", |value| {
            value.as_f64().filter(|number| *number > 0.0)
        })?;
        match number.filter(|number| !IN_F32.contains(number)) {
            Some(number) => {
                Err(self.wrong(name, "a number in the range of f32", format!("{number:e}")))
            }
            None => Ok(number),
        }
    }

    /// The number in a field that must exist and may be null; it must be above 0.
    pub(super) fn positive_or_null(&self, name: &str) -> Result<Option<f64>, Reason> {
        if !self.has(name) {
            return Err(self.missing(name, "a number above 0 or null"));
        }
        self.optional_positive(name)
    }

    /// The probability of dropout in the field `name`; 0 if absent.
    pub(super) fn dropout(&self, name: &str) -> Result<f64, Reason> {
        let probability = self.read_as(name, "a probability in [0, 1)", |value| {
            value.as_f64().filter(|number| (0.0..1.0).contains(number))
        })?;
        Ok(probability.unwrap_or(0.0))
    }

    /// The numbers in the list `name`, which must be `len` numbers above 0.
    pub(super) fn positives(&self, name: &str, len: usize) -> Result<Vec<f64>, Reason> {
        let expected = format!("a list of {len} numbers above 0");
        let numbers = self.read_as(name, &expected, |value| {
            let numbers = value.as_array().filter(|list| list.len() == len)?.iter();
            let numbers =
                numbers.map(|number| number.as_f64().filter(|number| IN_F32.contains(number)));
            numbers.collect()
        })?;
        numbers.ok_or_else(|| self.missing(name, &expected))
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Reason> {
        let flag = self.read_as(name, "true or false", Value::as_bool)?;
        Ok(flag.unwrap_or(default))
    }

    pub(super) fn text(&self, name: &str) -> Result<&str, Reason> {
        let text = self.optional_text(name)?;
        text.ok_or_else(|| self.missing(name, "a string"))
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&str>, Reason> {
        self.read_as(name, "a string", Value::as_str)
    }

    /// The strings in the list `name`; `None` if it is absent or null.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<&str>>, Reason> {
        self.read_as(name, "a list of strings", |value| {
            value.as_array()?.iter().map(Value::as_str).collect()
        })
    }

    /// # Errors
    /// If the text in the field `name` is not `expected`.
    pub(super) fn expect_text(&self, name: &str, expected: &str) -> Result<(), Reason> {
        match self.optional_text(name)?.filter(|text| *text != expected) {
            Some(other) => Err(self.unknown(name, &[expected], other)),
            None => Ok(()),
        }
    }

    /// # Errors
    /// If the field `name` has any value.
    pub(super) fn refuse(&self, name: &str, reason: &str) -> Result<(), Reason> {
        match self.value(name) {
            None => Ok(()),
            Some(value) => Err(self.unexpected(name, &format!("none, since {reason}"), value)),
        }
    }

    /// # Errors
    /// If a field of [`UNREAD`] has a value that is not its neutral one.
    pub(super) fn refuse_unread(&self) -> Result<(), Reason> {
        for (name, neutral) in UNREAD {
            let number = |value: &Value| value.as_f64().or(value.as_bool().map(f64::from));
            let value = self.value(name).map(number);
            if value.is_some_and(|value| value != Some(neutral)) {
                self.refuse(name, "the models here do not compute what it changes")?;
            }
        }
        for name in self.texts("architectures")?.unwrap_or_default() {
            if INTERLEAVED.iter().any(|of| name.starts_with(of)) {
                let expected = "none with interleaved pairs of features";
                let got = format!("\"{}\"", shown(name));
                return Err(self.wrong("architectures", expected, got));
            }
        }
        Ok(())
    }

    /// # Errors
    /// If the flag `name` is set.
    pub(super) fn refuse_flag(&self, name: &str, reason: &str) -> Result<(), Reason> {
        if self.flag(name, false)? {
            return Err(self.wrong(name, &format!("false, since {reason}"), "true"));
        }
        Ok(())
    }

    /// # Errors
    /// If the flag `name` exists and is not set.
    pub(super) fn expect_flag(&self, name: &str, reason: &str) -> Result<(), Reason> {
        if self.flag(name, true)? {
            return Ok(());
        }
        Err(self.wrong(name, &format!("true, {reason}"), "false"))
    }

    /// The error for a text that is not among the known ones.
    pub(super) fn unknown(&self, name: &str, known: &[&str], got: &str) -> Reason {
        let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
        let got = format!("\"{}\"", shown(got));
        self.wrong(name, &known.join(" or "), got)
    }

    /// The error for a field that does not fit another.
    pub(super) fn wrong(&self, name: &str, expected: &str, got: impl Display) -> Reason {
        Reason::Field {
            field: format!("{}{}", self.path, self.own(name)),
            expected: expected.to_owned(),
            got: got.to_string(),
        }
    }

    fn unexpected(&self, name: &str, expected: &str, got: &Value) -> Reason {
        self.wrong(name, expected, kind(got))
    }

    pub(super) fn missing(&self, name: &str, expected: &str) -> Reason {
        self.wrong(name, expected, "none")
    }
}
