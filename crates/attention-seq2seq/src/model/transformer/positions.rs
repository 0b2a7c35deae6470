//! The positions of tokens.

use burn::tensor::{Device, Tensor, TensorData};

/// Sines and cosines of the positions from `start` on, `[1, rows, size]`: `sin(p / 10000^(2 n / size))` in feature
/// `2 n` of position `p`, and its cosine in the next.
///
/// They are made where they are needed, so that there is no longest text.
///
/// Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
pub(super) fn sinusoids(start: usize, rows: usize, size: usize, device: &Device) -> Tensor<3> {
    let rates = (0..size).map(|feature| {
        let exponent = (feature - feature % 2) as f64 / size as f64;
        10_000_f64.powf(-exponent)
    });
    let rates: Vec<f64> = rates.collect();
    let mut elements = Vec::with_capacity(rows * size);
    for position in start..start + rows {
        elements.extend(rates.iter().enumerate().map(|(feature, rate)| {
            let angle = position as f64 * rate;
            if feature.is_multiple_of(2) {
                angle.sin()
            } else {
                angle.cos()
            }
        }));
    }
    Tensor::from_data(TensorData::new(elements, [1, rows, size]), device)
}

#[cfg(test)]
mod tests {
    use burn::nn::PositionalEncodingConfig;
    use burn::tensor::Tolerance;

    use super::*;
    use crate::device::test_device;

    #[test]
    fn sinusoids_are_those_of_burn() {
        let (device, size) = (test_device(), 6);
        let burns = PositionalEncodingConfig::new(size).with_max_sequence_size(17);
        let expected = burns.init(&device).sinusoids;
        let tolerance = Tolerance::absolute(1e-5);
        for (start, rows) in [(0, 17), (5, 1), (3, 11)] {
            let expected = expected.clone().narrow(1, start, rows).into_data();
            let actual = sinusoids(start, rows, size, &device).into_data();
            actual.assert_approx_eq::<f32>(&expected, tolerance);
        }
    }

    #[test]
    fn an_odd_size_ends_with_a_sine() {
        let rows = sinusoids(2, 1, 3, &test_device());
        let expected = [
            2.0_f64.sin(),
            2.0_f64.cos(),
            (2.0 / 10_000_f64.powf(2.0 / 3.0)).sin(),
        ];
        let expected = TensorData::from([[expected]]).convert::<f32>();
        let tolerance = Tolerance::absolute(1e-6);
        rows.into_data()
            .assert_approx_eq::<f32>(&expected, tolerance);
    }
}
