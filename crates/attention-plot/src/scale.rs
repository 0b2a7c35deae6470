//! Positions of numbers on an axis, and round numbers on it.

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

impl Scale {
    /// From 0 at the lower end of the axis to 1 at the upper one.
    pub(crate) fn position(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// At most `most` (two or more) round numbers on the axis, with labels as precise as
    /// [`end_labels`](Self::end_labels).
    ///
    /// An end whose label shows a round number counts as this number: a smallest weight of 0.00001 as 0.
    pub(crate) fn ticks_like_ends(&self, most: usize) -> Vec<Tick> {
        let finest = self.finest();
        let slack = 10_f64.powi(finest) / 2.0;
        let tick = |value| Tick {
            value,
            label: self.label(value, finest),
        };
        let numbers = self.round_numbers(most, slack);
        numbers.into_iter().map(tick).collect()
    }

    /// The labels of both ends, precise to the third digit of the length of the axis.
    pub(crate) fn end_labels(&self) -> [String; 2] {
        [self.low, self.high].map(|end| self.label(end, self.finest()))
    }

    /// The multiples, on the axis, of the smallest round step that has at most `most` of them there.
    ///
    /// A single number does not define a scale: instead of a step with fewer than two multiples, the outermost two of
    /// the next smaller step are used.
    fn round_numbers(&self, most: usize, slack: f64) -> Vec<f64> {
        // This step has at least `most` multiples; twenty times this step has at most `most`.
        let least = ((self.high - self.low) / most as f64).log10().floor() as i32;
        let mut numbers = self.multiples(1.0, least, slack);
        for (digit, power) in [(2.0, 0), (5.0, 0), (1.0, 1), (2.0, 1)] {
            if numbers.len() <= most {
                break;
            }
            let coarser = self.multiples(digit, least + power, slack);
            if coarser.len() < 2 {
                numbers.drain(1..numbers.len() - 1);
            } else {
                numbers = coarser;
            }
        }
        numbers
    }

    /// The multiples of `digit` times ten to the power of `exponent` on the axis; those up to `slack` beyond its ends
    /// are moved to the ends.
    fn multiples(&self, digit: f64, exponent: i32, slack: f64) -> Vec<f64> {
        let step = digit * 10_f64.powi(exponent);
        let first = ((self.low - slack) / step).ceil() as i64;
        let last = ((self.high + slack) / step).floor() as i64;
        let multiple = |count: i64| (count as f64 * step).clamp(self.low, self.high);
        (first..=last).map(multiple).collect()
    }

    /// A number with digits down to `10^finest`.
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
    // 1e-9 is slightly less as an `f32`.
    (value.log10() + 1e-6).floor() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let [low, high] = [0.03, 0.97];
        let range = Scale { low, high };
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
        let ends: [f32; 11] = [
            -3e38, -7.5e4, -1.0, -1e-3, 0.0, 1e-45, 2e-7, 0.999, 1.0, 1.0000001, 3e38,
        ];
        for (at, low) in ends.into_iter().enumerate() {
            for high in &ends[at + 1..] {
                let (low, high) = (f64::from(low), f64::from(*high));
                let scale = Scale { low, high };
                for most in 2..12 {
                    let ticks = scale.ticks_like_ends(most);
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
}
