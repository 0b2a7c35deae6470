//! Numbers in JSON, rounded to what readers need.

use serde::{Serialize, Serializer};

/// A number with few decimals, and without a point if it is whole. Non-finite numbers are `null`.
pub(super) struct Rounded {
    value: f64,
    /// The number of units in 1.
    units: f64,
}

impl Rounded {
    pub(super) fn probability(value: f64) -> Self {
        Self { value, units: 1e5 }
    }
}

impl Serialize for Rounded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Below this, whole numbers are the same in `i64` and `f64`.
        const MOST_WHOLE: f64 = 1e15;
        let rounded = (self.value * self.units).round() / self.units;
        match rounded.fract() == 0.0 && rounded.abs() < MOST_WHOLE {
            true => serializer.serialize_i64(rounded as i64),
            false => serializer.serialize_f64(rounded),
        }
    }
}

pub(super) fn entropy<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let (value, units) = (*value, 1e4);
    Rounded { value, units }.serialize(serializer)
}

pub(super) fn changes<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let units = 1e3;
    serializer.collect_seq(values.iter().map(|&value| Rounded { value, units }))
}

pub(super) fn weights<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    let units = 1e3;
    let values = values.iter().map(|&value| f64::from(value));
    serializer.collect_seq(values.map(|value| Rounded { value, units }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Numbers {
        #[serde(serialize_with = "weights")]
        weights: Vec<f32>,
        #[serde(serialize_with = "changes")]
        changes: Vec<f64>,
        #[serde(serialize_with = "entropy")]
        entropy: f64,
    }

    #[test]
    fn numbers_are_short_and_always_json() {
        let numbers = Numbers {
            weights: vec![0.0, 1.0, 0.123_456, 4e-4, f32::NAN],
            changes: vec![-12.345_678, f64::NEG_INFINITY, -1e-9],
            entropy: 0.123_456,
        };
        let json = serde_json::to_string(&numbers).unwrap_or_default();
        let expected =
            r#"{"weights":[0,1,0.123,0,null],"changes":[-12.346,null,0],"entropy":0.1235}"#;
        assert_eq!(json, expected);
    }
}
