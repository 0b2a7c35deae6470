//! Values of JSON in the outputs of the program.

use serde_json::Value;

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

pub(crate) fn string(value: &Value) -> &str {
    value.as_str().unwrap()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    list(value).iter().map(number).collect()
}

/// A value for each line.
#[track_caller]
pub(crate) fn lines(text: &str) -> Vec<Value> {
    let values = text.lines().map(serde_json::from_str);
    values.collect::<Result<_, _>>().unwrap()
}

/// The one line of a text.
#[track_caller]
pub(crate) fn line(text: &str) -> Value {
    let [value] = lines(text).try_into().expect(text);
    value
}

/// The output of greedy search, in the data of a page.
pub(crate) fn greedy(explanation: &Value) -> &Value {
    &explanation["outputs"][explanation["greedy"].as_u64().unwrap() as usize]
}
