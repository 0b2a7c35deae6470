//! Positions of numbers on an axis, and the round numbers among them.

/// An axis reaches so far beyond the outermost points, relative to the distance between them.
const MARGIN: f64 = 0.04;

/// An axis from `low` to `high`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// A labelled number on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// Multiples of 1, 2 or 5 times ten to the power of `exponent`.
struct RoundNumbers {
    values: Vec<f64>,
    exponent: i32,
}

impl Scale {
    /// The axis that shows all of `values`, which are finite; from 0 to 1 if there are none.
    pub(crate) fn over(values: impl Iterator<Item = f32>) -> Self {
        let (low, high) = values
            .map(f64::from)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let (low, high) = if low < high {
            (low, high)
        } else if low > high {
            (0.0, 1.0)
        } else if low == 0.0 {
            (-1.0, 1.0)
        } else {
            (low - low.abs() / 2.0, low + low.abs() / 2.0)
        };
        let margin = MARGIN * (high - low);
        Self {
            low: low - margin,
            high: high + margin,
        }
    }

    /// From 0 at the lower end of the axis to 1 at the upper one.
    pub(crate) fn position(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// At most `most` (two or more) round numbers on the axis, with labels as exact as the step from one to the next.
    pub(crate) fn ticks(&self, most: usize) -> Vec<Tick> {
        let RoundNumbers { values, exponent } = self.round_numbers(most, 0.0);
        self.labelled(values, exponent)
    }

    /// At most `most` (two or more) round numbers on the axis, with labels as exact as
    /// [`end_labels`](Self::end_labels).
    ///
    /// An end whose label is that of a round number counts as this number: a smallest weight of 0.00001 as 0.
    pub(crate) fn ticks_like_ends(&self, most: usize) -> Vec<Tick> {
        let finest = self.finest();
        let slack = 10_f64.powi(finest) / 2.0;
        self.labelled(self.round_numbers(most, slack).values, finest)
    }

    /// The labels of both ends, as exact as the third digit of the length of the axis.
    pub(crate) fn end_labels(&self) -> [String; 2] {
        [self.low, self.high].map(|end| self.label(end, self.finest()))
    }

    /// The multiples of the smallest round step that has at most `most` on the axis.
    ///
    /// One number alone does not tell a scale: rather than a step with fewer than two multiples, the outermost two of
    /// the next smaller step are taken.
    fn round_numbers(&self, most: usize, slack: f64) -> RoundNumbers {
        // This step has `most` multiples or more; twenty of it have `most` or fewer.
        let least = ((self.high - self.low) / most as f64).log10().floor() as i32;
        let mut numbers = self.multiples(1.0, least, slack);
        for (digit, power) in [(2.0, 0), (5.0, 0), (1.0, 1), (2.0, 1)] {
            if numbers.values.len() <= most {
                break;
            }
            let coarser = self.multiples(digit, least + power, slack);
            if coarser.values.len() < 2 {
                numbers.values.drain(1..numbers.values.len() - 1);
            } else {
                numbers = coarser;
            }
        }
        numbers
    }

    /// The multiples of `digit` times ten to the power of `exponent` on the axis, or `slack` beyond its ends and moved
    /// there.
    fn multiples(&self, digit: f64, exponent: i32, slack: f64) -> RoundNumbers {
        let step = digit * 10_f64.powi(exponent);
        let first = ((self.low - slack) / step).ceil() as i64;
        let last = ((self.high + slack) / step).floor() as i64;
        let values = (first..=last)
            .map(|count| (count as f64 * step).clamp(self.low, self.high))
            .collect();
        RoundNumbers { values, exponent }
    }

    fn labelled(&self, values: Vec<f64>, finest: i32) -> Vec<Tick> {
        let tick = |value| Tick {
            value,
            label: self.label(value, finest),
        };
        values.into_iter().map(tick).collect()
    }

    /// A number with its digits down to that of ten to the power of `finest`.
    fn label(&self, value: f64, finest: i32) -> String {
        let largest = magnitude(self.low.abs().max(self.high.abs()));
        if (-4..5).contains(&largest) {
            format!("{value:.*}", (-finest).max(0) as usize)
        } else {
            format!("{value:.*e}", (largest - finest).max(0) as usize)
        }
    }

    /// The place of the third digit of the length of the axis.
    fn finest(&self) -> i32 {
        magnitude(self.high - self.low) - 2
    }
}

/// The exponent of the first digit.
fn magnitude(value: f64) -> i32 {
    // 1e-9 as an `f32` is a little less.
    (value.log10() + 1e-6).floor() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f32, high: f32, most: usize) -> Vec<String> {
        let ticks = Scale::over([low, high].into_iter()).ticks(most);
        ticks.into_iter().map(|tick| tick.label).collect()
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
    fn labels_show_as_many_digits_as_the_range_needs() {
        let range = |(low, high): (f32, f32)| Scale {
            low: low.into(),
            high: high.into(),
        };
        let ticks = |ends| -> Vec<String> {
            let ticks = range(ends).ticks_like_ends(3);
            ticks.into_iter().map(|tick| tick.label).collect()
        };
        assert_eq!(ticks((0.0, 1.0)), ["0.00", "0.50", "1.00"]);
        assert_eq!(ticks((0.0, 0.02)), ["0.0000", "0.0100", "0.0200"]);
        assert_eq!(ticks((-300.0, 300.0)), ["-200", "0", "200"]);
        assert_eq!(ticks((0.0, 1e-9)), ["0.00e0", "5.00e-10", "1.00e-9"]);
        assert_eq!(ticks((f32::MIN, f32::MAX))[2], "2.00e38");

        let ends = |ends| range(ends).end_labels();
        assert_eq!(ends((0.0, 1.0)), ["0.00", "1.00"]);
        assert_eq!(ends((0.0, 0.02)), ["0.0000", "0.0200"]);
        assert_eq!(ends((-300.0, 300.0)), ["-300", "300"]);
        assert_eq!(ends((0.0, 1e-9)), ["0.00e0", "1.00e-9"]);
        assert_eq!(ends((f32::MIN, f32::MAX))[1], "3.40e38");
    }

    #[test]
    fn two_ticks_or_more_tell_the_scale() {
        // Halves, fifths and tenths: one, four or nine.
        let range = Scale {
            low: 0.03,
            high: 0.97,
        };
        let labels = |most| -> Vec<String> {
            let ticks = range.ticks_like_ends(most);
            ticks.into_iter().map(|tick| tick.label).collect()
        };
        assert_eq!(labels(2), ["0.200", "0.800"]);
        assert_eq!(labels(3), ["0.200", "0.800"]);
        assert_eq!(labels(4), ["0.200", "0.400", "0.600", "0.800"]);
    }

    #[test]
    fn an_end_that_reads_as_a_round_number_is_labelled() {
        let labels = |low, high| -> Vec<String> {
            let ticks = Scale { low, high }.ticks_like_ends(6);
            assert!(ticks.iter().all(|tick| (low..=high).contains(&tick.value)));
            ticks.into_iter().map(|tick| tick.label).collect()
        };
        let round = ["0.000", "0.200", "0.400", "0.600", "0.800"];
        assert_eq!(labels(0.000_4, 0.999), round);
        assert_eq!(labels(0.000_6, 0.999), round[1..]);
        assert_eq!(labels(0.000_4, 0.999_6)[5], "1.000");
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
                for most in 2..12 {
                    let ticks = scale.ticks(most);
                    let what = format!("{low} to {high}: {ticks:?}");
                    assert!((2..=most).contains(&ticks.len()), "{what}");
                    for Tick { value, label } in &ticks {
                        assert!((0.0..=1.0).contains(&scale.position(*value)), "{what}");
                        let read: f64 = label.parse().unwrap_or(f64::NAN);
                        let off = scale.position(read) - scale.position(*value);
                        assert!(off.abs() < 0.1 / most as f64, "{what}");
                    }
                    let texts = ticks.windows(2).all(|two| two[0].label != two[1].label);
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
