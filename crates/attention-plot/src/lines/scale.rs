//! The places of numbers on an axis, and the round ones among them.

use crate::figure::ends;

/// How far an axis reaches beyond the outermost points, of the distance between them.
const MARGIN: f64 = 0.04;

/// An axis from `low` to `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// The axis that shows all of `values`, which are finite; from 0 to 1 if there are none.
    pub(super) fn over(values: impl Iterator<Item = f32>) -> Self {
        let (low, high) = ends(values.map(f64::from));
        let (low, high) = match (low < high, low.is_finite()) {
            (true, _) => (low, high),
            (false, true) if low != 0.0 => (low - low.abs() / 2.0, low + low.abs() / 2.0),
            (false, true) => (-1.0, 1.0),
            (false, false) => (0.0, 1.0),
        };
        let margin = MARGIN * (high - low);
        Self {
            low: low - margin,
            high: high + margin,
        }
    }

    /// From 0 at the lower end of the axis to 1 at the upper one.
    pub(super) fn position(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// The round numbers on the axis, as many as there are but at most `most` (three or more), each with its text.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let places = |step: f64| {
            let (first, last) = ((self.low / step).ceil(), (self.high / step).floor());
            first as i64..=last as i64
        };
        let step_of = |(digit, exponent): (f64, i32)| digit * 10_f64.powi(exponent);
        let rough = (self.high - self.low) / most as f64;
        let least = rough.log10().floor() as i32;
        let (digit, exponent) = (least..)
            .flat_map(|exponent| [1.0, 2.0, 5.0].map(|digit| (digit, exponent)))
            .find(|step| places(step_of(*step)).count() <= most)
            .unwrap_or((1.0, least));

        let largest = self.low.abs().max(self.high.abs()).log10().floor() as i32;
        let text = |value: f64| match (exponent, largest) {
            (-4.., ..5) => format!("{value:.*}", (-exponent).max(0) as usize),
            _ => format!("{value:.*e}", (largest - exponent).max(0) as usize),
        };
        let step = step_of((digit, exponent));
        places(step)
            .map(|count| count as f64 * step)
            .map(|value| (value, text(value)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f32, high: f32, most: usize) -> Vec<String> {
        let ticks = Scale::over([low, high].into_iter()).ticks(most);
        ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_as_exact_as_their_step() {
        assert_eq!(
            texts(0.0, 1.0, 6),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(texts(8.0, 64.0, 7), ["10", "20", "30", "40", "50", "60"]);
        assert_eq!(
            texts(-0.003, 0.004, 4),
            ["-0.002", "0.000", "0.002", "0.004"]
        );
        assert_eq!(texts(0.0, 24_000.0, 4), ["0", "10000", "20000"]);
        assert_eq!(texts(0.0, 3e-9, 4), ["0e0", "1e-9", "2e-9", "3e-9"]);
        assert_eq!(texts(0.0, 1e6, 3), ["0.0e0", "5.0e5", "1.0e6"]);
        assert_eq!(texts(f32::MIN, f32::MAX, 3), ["-2e38", "0e0", "2e38"]);
    }

    #[test]
    fn ticks_lie_on_the_axis_and_are_as_many_as_asked_for_at_most() {
        let ends = [
            -3e38,
            -7.5e4,
            -1.0,
            -1e-3,
            0.0,
            1e-45,
            2e-7,
            0.999,
            1.0,
            1.000_000_1,
            3e38,
        ];
        for (at, low) in ends.into_iter().enumerate() {
            for high in &ends[at..] {
                let scale = Scale::over([low, *high].into_iter());
                for most in 3..12 {
                    let ticks = scale.ticks(most);
                    let what = format!("{low} to {high}: {ticks:?}");
                    assert!((1..=most).contains(&ticks.len()), "{what}");
                    for (value, text) in &ticks {
                        assert!((0.0..=1.0).contains(&scale.position(*value)), "{what}");
                        let read: f64 = text.parse().unwrap_or(f64::NAN);
                        let off = scale.position(read) - scale.position(*value);
                        assert!(off.abs() < 0.1 / most as f64, "{what}");
                    }
                    let texts = ticks.windows(2).all(|two| two[0].1 != two[1].1);
                    assert!(texts, "{what}: two with one text");
                }
            }
        }
    }

    #[test]
    fn an_axis_is_never_empty() {
        let ends = |values: &[f32]| {
            let Scale { low, high } = Scale::over(values.iter().copied());
            (
                (low * 100.0).round() / 100.0,
                (high * 100.0).round() / 100.0,
            )
        };
        assert_eq!(ends(&[]), (-0.04, 1.04));
        assert_eq!(ends(&[0.0, 0.0]), (-1.08, 1.08));
        assert_eq!(ends(&[-10.0]), (-15.4, -4.6));
        assert_eq!(ends(&[1.0, 3.0, 2.0]), (0.92, 3.08));
    }
}
