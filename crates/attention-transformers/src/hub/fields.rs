//! The fields of a `config.json`.

use std::path::Path;

use attention_core::import::{kind, read_object};
use serde_json::{Map, Value};
use tensor_files::shown;

use super::names::Names;

/// The largest size, so that products of two do not overflow.
const MAX_SIZE: u64 = i32::MAX as u64;

/// The most layers: a config alone may not take all memory.
const MAX_LAYERS: usize = 10_000;

/// Fields of families that are not here, and the value of each that changes nothing, as null: with the `model_type` of
/// another family the numbers would be wrong.
const UNREAD: [(&str, f64); 21] = [
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
    ("use_parallel_residual", 0.0),
    ("use_qk_norm", 0.0),
];

/// The fields of an object, which errors name by their path.
#[derive(Clone)]
pub(super) struct Fields {
    /// The path of the object, with a dot after it; empty for the whole file.
    path: String,
    object: Map<String, Value>,
    /// Names of the family's own, by which errors name fields, too.
    names: Names,
}

impl Fields {
    /// Those of the `config.json` at `path`. Without a `model_type` those with types of tokens are BERT's: the first
    /// files have none.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let fields = Self {
            path: String::new(),
            object: read_object(path)?,
            names: Names(&[]),
        };
        Ok(if fields.has("type_vocab_size") {
            fields.or("model_type", "bert".into())
        } else {
            fields
        })
    }

    /// The same, where a family has names of its own.
    pub(super) fn named(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// Those of the object in the field `name`; `None` if it is absent or null.
    pub(super) fn object(&self, name: &str) -> Result<Option<Self>, String> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(Self {
                path: format!("{}{name}.", self.path),
                object: object.clone(),
                names: Names(&[]),
            })),
            Some(other) => Err(self.unexpected(name, "an object", other)),
        }
    }

    /// The name of a field in the file.
    pub(super) fn own<'a>(&self, name: &'a str) -> &'a str {
        self.names.own(name)
    }

    /// The same with `value` in the field `name`; `None` removes it.
    pub(super) fn with(mut self, name: &str, value: Option<Value>) -> Self {
        match value {
            Some(value) => self.object.insert(name.to_string(), value),
            None => self.object.remove(name),
        };
        self
    }

    /// The same with `value` in the field `name`, unless it has one.
    pub(super) fn or(self, name: &str, value: Value) -> Self {
        if self.value(name).is_some() {
            return self;
        }
        self.with(name, Some(value))
    }

    /// The same with the fields of another object in the place of its own.
    pub(super) fn updated(mut self, other: Self) -> Self {
        self.object.extend(other.object);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.object.is_empty()
    }

    /// The value of a field; `None` if it is absent or null.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        let value = self.object.get(self.names.own(name));
        value.filter(|value| !value.is_null())
    }

    /// Whether there is a field, which may be null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.object.contains_key(self.names.own(name))
    }

    /// The size in the field `name`.
    pub(super) fn size(&self, name: &str) -> Result<usize, String> {
        let size = self.optional_size(name)?;
        size.ok_or_else(|| self.missing(name, "a size"))
    }

    /// The size in the field of one of several names.
    pub(super) fn size_of_any(&self, names: &[&str]) -> Result<usize, String> {
        let mut found = Vec::new();
        for name in names {
            found.extend(self.optional_size(name)?.map(|size| (name, size)));
        }
        match found[..] {
            [(name, size), ..] => {
                let other = found.iter().find(|(_, other)| *other != size);
                other.map_or(Ok(size), |(other, got)| {
                    Err(format!(
                        "`{}{other}`: expected {size}, as `{name}` is the same size, got {got}",
                        self.path
                    ))
                })
            }
            [] => Err(self.missing(&names.join("` or `"), "a size")),
        }
    }

    /// The one of several names of a field that is there; the first one if none is.
    pub(super) fn present<'a>(&self, names: &[&'a str]) -> &'a str {
        let found = names.iter().find(|name| self.value(name).is_some());
        found.unwrap_or(&names[0])
    }

    /// The number of layers in the field of one of several names.
    pub(super) fn num_layers(&self, names: &[&str]) -> Result<usize, String> {
        let number = self.size_of_any(names)?;
        if number > MAX_LAYERS {
            let expected = format!("at most {MAX_LAYERS} layers");
            return Err(self.wrong(self.present(names), &expected, &number.to_string()));
        }
        Ok(number)
    }

    pub(super) fn optional_size(&self, name: &str) -> Result<Option<usize>, String> {
        let size = |value: &Value| match value.as_u64() {
            Some(size) if (1..=MAX_SIZE).contains(&size) => Ok(size as usize),
            _ => Err(self.unexpected(name, &format!("a size in 1 ..= {MAX_SIZE}"), value)),
        };
        self.value(name).map(size).transpose()
    }

    /// The size in the field `name`, or 0.
    pub(super) fn size_or_0(&self, name: &str) -> Result<usize, String> {
        match self.value(name).and_then(Value::as_u64) {
            Some(0) => Ok(0),
            _ => self.size(name),
        }
    }

    /// The number above 0 in the field `name`.
    pub(super) fn positive(&self, name: &str) -> Result<f64, String> {
        let number = self.optional_positive(name)?;
        number.ok_or_else(|| self.missing(name, "a number above 0"))
    }

    pub(super) fn optional_positive(&self, name: &str) -> Result<Option<f64>, String> {
        let number = |value: &Value| {
            let number = value.as_f64();
            let number = number.filter(|number| number.is_finite() && *number > 0.0);
            number.ok_or_else(|| self.unexpected(name, "a number above 0", value))
        };
        self.value(name).map(number).transpose()
    }

    /// The number above 0 in a field that must be there and may be null.
    pub(super) fn positive_or_null(&self, name: &str) -> Result<Option<f64>, String> {
        if !self.has(name) {
            return Err(self.missing(name, "a number above 0 or null"));
        }
        self.optional_positive(name)
    }

    /// The probability of dropout in the field `name`; 0 if there is none.
    pub(super) fn dropout(&self, name: &str) -> Result<f64, String> {
        let Some(value) = self.value(name) else {
            return Ok(0.0);
        };
        let probability = value.as_f64().filter(|number| (0.0..1.0).contains(number));
        probability.ok_or_else(|| self.unexpected(name, "a probability in [0, 1)", value))
    }

    /// The numbers above 0 in the list `name`, one for each of `len`.
    pub(super) fn positives(&self, name: &str, len: usize) -> Result<Vec<f64>, String> {
        let expected = format!("a list of {len} numbers above 0");
        let Some(value) = self.value(name) else {
            return Err(self.missing(name, &expected));
        };
        let numbers = value.as_array().filter(|list| list.len() == len);
        let numbers = numbers.and_then(|list| {
            let numbers = list.iter().map(Value::as_f64);
            numbers
                .map(|number| number.filter(|number| *number > 0.0))
                .collect()
        });
        numbers.ok_or_else(|| self.unexpected(name, &expected, value))
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.value(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.unexpected(name, "true or false", other)),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<&str, String> {
        let text = self.optional_text(name)?;
        text.ok_or_else(|| self.missing(name, "a string"))
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.unexpected(name, "a string", other)),
        }
    }

    /// The strings in the list `name`; `None` if it is absent or null.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<&str>>, String> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let texts = value.as_array().and_then(|list| {
            let texts = list.iter().map(Value::as_str);
            texts.collect::<Option<Vec<_>>>()
        });
        let texts = texts.ok_or_else(|| self.unexpected(name, "a list of strings", value))?;
        Ok(Some(texts))
    }

    /// # Errors
    /// If the field `name` has a value, whatever it is.
    pub(super) fn refuse(&self, name: &str, reason: &str) -> Result<(), String> {
        match self.value(name) {
            None => Ok(()),
            Some(value) => Err(self.unexpected(name, &format!("none, since {reason}"), value)),
        }
    }

    /// # Errors
    /// If a field of [`UNREAD`] has another value than the one that changes nothing.
    pub(super) fn refuse_unread(&self) -> Result<(), String> {
        for (name, neutral) in UNREAD {
            let number = |value: &Value| match value {
                Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
                other => other.as_f64(),
            };
            if self
                .value(name)
                .is_some_and(|value| number(value) != Some(neutral))
            {
                self.refuse(name, "the models here do not compute what it changes")?;
            }
        }
        Ok(())
    }

    /// # Errors
    /// If the flag `name` is set.
    pub(super) fn refuse_flag(&self, name: &str, reason: &str) -> Result<(), String> {
        if self.flag(name, false)? {
            return Err(self.wrong(name, &format!("false, since {reason}"), "true"));
        }
        Ok(())
    }

    /// The error of a text that is none of those that are known.
    pub(super) fn unknown(&self, name: &str, known: &[&str], got: &str) -> String {
        let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
        let got = format!("\"{}\"", shown(got));
        self.wrong(name, &known.join(" or "), &got)
    }

    /// The error of a field that does not fit another.
    pub(super) fn wrong(&self, name: &str, expected: &str, got: &str) -> String {
        let (path, name) = (&self.path, self.names.own(name));
        format!("`{path}{name}`: expected {expected}, got {got}")
    }

    fn unexpected(&self, name: &str, expected: &str, got: &Value) -> String {
        self.wrong(name, expected, &kind(got))
    }

    pub(super) fn missing(&self, name: &str, expected: &str) -> String {
        self.wrong(name, expected, "none")
    }
}
