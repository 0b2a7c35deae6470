//! Objects in JSON files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};
use tensor_files::shown;

/// The largest file to read: the format of safetensors allows its header as much, whose names an index has.
const MAX_BYTES: u64 = 100_000_000;

/// The object that the file at `path` holds.
pub fn read_object(path: &Path) -> Result<Map<String, Value>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!(
            "expected JSON of at most {MAX_BYTES} bytes, got more"
        ));
    }
    let value = serde_json::from_slice(&text);
    match value.map_err(|error| format!("expected an object in JSON: {error}"))? {
        Value::Object(object) => Ok(object),
        other => Err(format!("expected an object in JSON, got {}", kind(&other))),
    }
}

/// The kind of an unexpected value, and the value if it is short.
pub fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("\"{}\"", shown(text)),
        Value::Array(_) => "a list".to_string(),
        Value::Object(_) => "an object".to_string(),
    }
}
