//! Which weights a device has dropped.
//!
//! No operation tells. But a value with a one-hot vector of its key behind it carries the key's weight, after dropout,
//! through the weighted sum: the context shows which weights are left, and the plain loops drop the others. Weights
//! that are left must then be scaled, and the gradients follow the same choice.

use attention_oracle::Pairs;

use crate::case::Case;
use crate::check::Input;

/// The standard deviations by which the number of dropped weights may differ from its expectation; chance does not
/// reach them.
const DEVIATIONS: f64 = 8.0;

/// The values of a case. With dropout each value is followed by a one-hot vector of its key.
pub(crate) fn with_identity(case: &Case, values: Input) -> Input {
    if case.dropout == 0.0 {
        return values;
    }
    let [batch, heads, num_keys, size] = values.shape;
    let mut elements = Vec::new();
    for (row, value) in values.elements.chunks(size).enumerate() {
        elements.extend_from_slice(value);
        elements.extend((0..num_keys).map(|j| f64::from(u8::from(row % num_keys == j))));
    }
    Input {
        elements,
        shape: [batch, heads, num_keys, size + num_keys],
    }
}

/// The factor of each weight, from the context that was observed: 0 where the weight was dropped, and what keeps their
/// expectation elsewhere. NaN if another share of them was dropped than should be.
pub(crate) fn factors(case: &Case, pairs: &Pairs, context: &[f64]) -> Vec<f64> {
    let mut factors = vec![1.0; pairs.count()];
    if case.dropout == 0.0 {
        return factors;
    }
    let (size, num_keys) = (case.sizes.value_size, case.sizes.keys);
    let mut dropped = 0.0;
    for pair in &pairs.attended {
        let weight = context[pair.query * (size + num_keys) + size + pair.at % num_keys];
        let is_dropped = weight == 0.0;
        dropped += f64::from(u8::from(is_dropped));
        factors[pair.at] = if is_dropped {
            0.0
        } else {
            1.0 / (1.0 - case.dropout)
        };
    }
    let count = pairs.attended.len() as f64;
    let deviation = (count * case.dropout * (1.0 - case.dropout)).sqrt();
    if (dropped - count * case.dropout).abs() > DEVIATIONS * deviation {
        factors.fill(f64::NAN);
    }
    factors
}
