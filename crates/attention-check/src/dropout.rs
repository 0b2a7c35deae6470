//! Finding the weights that a device dropped.
//!
//! No operation reports them. But if each value is followed by a one-hot vector of its key, the weighted sum carries
//! the key's weight after dropout: the context shows which weights are left, and the plain loops drop the others. The
//! remaining weights must then be scaled, and the gradients follow the same choice.

use attention_oracle::Pairs;

use crate::case::Case;
use crate::check::Input;

/// The number of standard deviations by which the number of dropped weights may differ from its expectation, which
/// chance does not reach.
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

/// The factor of each weight, from the observed context: 0 where the weight was dropped, otherwise the one that keeps
/// the expectation. NaN if the fraction of dropped weights is wrong.
pub(crate) fn factors(case: &Case, pairs: &Pairs, context: &[f64]) -> Vec<f64> {
    let mut factors = vec![1.0; pairs.count()];
    if case.dropout == 0.0 {
        return factors;
    }
    let (size, num_keys) = (case.sizes.value_size, case.sizes.keys);
    let kept = 1.0 / (1.0 - case.dropout);
    let mut dropped = 0.0;
    for pair in &pairs.attended {
        let weight = context[pair.query * (size + num_keys) + size + pair.at % num_keys];
        let is_dropped = weight == 0.0;
        dropped += f64::from(u8::from(is_dropped));
        factors[pair.at] = if is_dropped { 0.0 } else { kept };
    }
    let count = pairs.attended.len() as f64;
    let deviation = (count * case.dropout * (1.0 - case.dropout)).sqrt();
    if (dropped - count * case.dropout).abs() > DEVIATIONS * deviation {
        factors.fill(f64::NAN);
    }
    factors
}
