//! JSON objects by the names of their fields, with errors in the words of JSON.
//!
//! serde's derived readers would also take an array for an object, field by field, and name Rust's types in errors.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::unique::Unique;

/// The fields of an object that are not read yet. One that is null counts as left out.
pub(super) struct Fields {
    /// The path of the object, which ends in a dot unless it is empty.
    path: String,
    fields: Map<String, Value>,
}

/// A fault of a request.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// It is not the JSON that is expected.
    Form(String),
    /// A number is out of its range.
    Range(String),
}

type Result<T> = std::result::Result<T, Fault>;

impl Fields {
    /// The fields of a body. Each comes once, and is among `known`.
    pub(super) fn of_body(body: &[u8], known: &[&str]) -> Result<Self> {
        let body = serde_json::from_slice::<Unique>(body);
        let Unique(body) = body.map_err(|error| Fault::Form(error.to_string()))?;
        Self::of_value(body, "", known)
    }

    fn of_value(value: Value, name: &str, known: &[&str]) -> Result<Self> {
        let Value::Object(fields) = value else {
            let name = if name.is_empty() { "the body" } else { name };
            return Err(wrong_form(name, "an object", &value));
        };
        let path = if name.is_empty() {
            String::new()
        } else {
            format!("{name}.")
        };
        if let Some(name) = fields.keys().find(|name| !known.contains(&name.as_str())) {
            let known = known.join(", ");
            let name = shortened(name);
            return Err(Fault::Form(format!(
                "unknown field `{path}{name}`; expected {known}"
            )));
        }
        Ok(Self { path, fields })
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// The fields of an object in this one, none where it is left out.
    pub(super) fn object(&mut self, name: &str, known: &[&str]) -> Result<Self> {
        let value = self.take(name).unwrap_or_else(|| Map::new().into());
        Self::of_value(value, &self.name(name), known)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_form(&self.name(name), "a text", &other)),
        }
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        let path = self.name(name);
        let values = match self.take(name) {
            None => return Ok(None),
            Some(Value::Array(values)) => values,
            Some(other) => return Err(wrong_form(&path, "an array of texts", &other)),
        };
        let texts = (1..).zip(values).map(|(number, value)| match value {
            Value::String(text) => Ok(text),
            other => Err(wrong_form(
                &format!("{path}, number {number}"),
                "a text",
                &other,
            )),
        });
        texts.collect::<Result<_>>().map(Some)
    }

    /// A whole number within a range.
    pub(super) fn count(
        &mut self,
        name: &str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let (least, most) = (range.start(), range.end());
        let path = self.name(name);
        let count = value.as_u64();
        match count.and_then(|count| usize::try_from(count).ok()) {
            Some(count) if range.contains(&count) => Ok(Some(count)),
            _ if value.as_f64().is_some_and(|it| it > *most as f64) => Err(Fault::Range(format!(
                "{path}: expected at most {most}, found {value}"
            ))),
            _ if value.as_f64().is_some_and(|it| it < *least as f64) => Err(Fault::Range(format!(
                "{path}: expected {least} to {most}, found {value}"
            ))),
            _ => {
                let expected = format!("a whole number from {least} to {most}");
                Err(wrong_form(&path, &expected, &value))
            }
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_f64()),
            Some(other) => Err(wrong_form(&self.name(name), "a number", &other)),
        }
    }

    /// A text that is one of a few, by `parse`.
    pub(super) fn choice<T>(
        &mut self,
        name: &str,
        choices: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let found = value.as_str().and_then(parse).map(Some);
        let expected = format!("one of {}", choices.join(", "));
        found.ok_or_else(|| wrong_form(&self.name(name), &expected, &value))
    }
}

pub(super) fn required<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| Fault::Form(format!("missing field `{name}`, which may not be null")))
}

/// The beginning of a text that is long.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text.to_owned(),
    }
}

fn wrong_form(name: &str, expected: &str, found: &Value) -> Fault {
    let found = match found {
        Value::Null => "null".to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("{:?}", shortened(text)),
        Value::Array(_) => "an array".to_string(),
        Value::Object(_) => "an object".to_string(),
    };
    Fault::Form(format!("{name}: expected {expected}, found {found}"))
}
