//! From a weight to a colour.

use colorous::Gradient;

/// The colours of a heatmap, from the smallest weight to the largest.
///
/// `Reds` and `Blues` are ColorBrewer's sequential tables, `Viridis` is matplotlib's; all three carry the names they
/// have in matplotlib.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColorMap {
    /// Near white to dark red: what the book uses. The default.
    #[default]
    Reds,
    /// Near white to dark blue.
    Blues,
    /// Dark violet over green to yellow: even steps for the eye, also in print and for the colour-blind.
    Viridis,
}

/// The colour of a cell whose weight is NaN or infinite: on no map's path.
const NOT_FINITE: [u8; 3] = [160, 160, 160];

/// A colour map with the weights at its two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    gradient: Gradient,
    pub(crate) low: f32,
    pub(crate) high: f32,
}

impl Scale {
    pub(crate) fn new(map: ColorMap, (low, high): (f32, f32)) -> Self {
        let gradient = match map {
            ColorMap::Reds => colorous::REDS,
            ColorMap::Blues => colorous::BLUES,
            ColorMap::Viridis => colorous::VIRIDIS,
        };
        Self {
            gradient,
            low,
            high,
        }
    }

    /// Where a weight lies between the two ends, from 0 to 1; `None` if it is not finite.
    pub(crate) fn position(&self, weight: f32) -> Option<f64> {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        weight
            .is_finite()
            .then(|| ((f64::from(weight) - low) / (high - low)).clamp(0.0, 1.0))
    }

    pub(crate) fn color(&self, weight: f32) -> [u8; 3] {
        self.position(weight)
            .map_or(NOT_FINITE, |position| self.color_at(position))
    }

    pub(crate) fn color_at(&self, position: f64) -> [u8; 3] {
        self.gradient.eval_continuous(position).into_array()
    }

    /// `count` weights (two or more) in even steps from the lower end to the upper, as text.
    pub(crate) fn ticks(&self, count: usize) -> Vec<String> {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        let span = high - low;
        let exponent = span.log10().floor();
        (0..count)
            .map(|index| low + span * index as f64 / (count - 1) as f64)
            .map(|value| match exponent {
                -4.0..=4.0 => format!("{value:.*}", (2.0 - exponent).clamp(0.0, 6.0) as usize),
                _ => format!("{value:.2e}"),
            })
            .collect()
    }
}

/// The range of the finite weights, widened to zero if all are equal, so that uniform attention has a colour.
pub(crate) fn range_of(weights: &[f32]) -> (f32, f32) {
    let finite = weights.iter().copied().filter(|weight| weight.is_finite());
    let (low, high) = finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), weight| {
        (low.min(weight), high.max(weight))
    });
    if low < high {
        (low, high)
    } else if low.is_finite() && low != 0.0 {
        (low.min(0.0), low.max(0.0))
    } else {
        (0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_the_published_colors() {
        let ends = |map| {
            let scale = Scale::new(map, (0.0, 2.0));
            (scale.color(0.0), scale.color(2.0))
        };
        assert_eq!(ends(ColorMap::Viridis), ([68, 1, 84], [253, 231, 37]));
        assert_eq!(ends(ColorMap::Reds), ([255, 245, 240], [103, 0, 13]));
        assert_eq!(ends(ColorMap::Blues), ([247, 251, 255], [8, 48, 107]));
    }

    #[test]
    fn weights_outside_the_range_take_the_end_colors() {
        let scale = Scale::new(ColorMap::Reds, (0.2, 0.4));
        assert_eq!(scale.color(-3.0), scale.color(0.2));
        assert_eq!(scale.color(f32::MAX), scale.color(0.4));
        for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(scale.color(broken), NOT_FINITE);
        }
    }

    #[test]
    fn range_ignores_what_is_not_finite_and_is_never_empty() {
        assert_eq!(range_of(&[0.25, f32::NAN, 0.5, f32::INFINITY]), (0.25, 0.5));
        assert_eq!(range_of(&[0.1, 0.1]), (0.0, 0.1));
        assert_eq!(range_of(&[-2.0]), (-2.0, 0.0));
        assert_eq!(range_of(&[0.0]), (0.0, 1.0));
        assert_eq!(range_of(&[f32::NAN]), (0.0, 1.0));
    }

    #[test]
    fn ticks_show_as_many_digits_as_the_range_needs() {
        let ticks = |range| Scale::new(ColorMap::Reds, range).ticks(3);
        assert_eq!(ticks((0.0, 1.0)), ["0.00", "0.50", "1.00"]);
        assert_eq!(ticks((0.0, 0.02)), ["0.0000", "0.0100", "0.0200"]);
        assert_eq!(ticks((-300.0, 300.0)), ["-300", "0", "300"]);
        assert_eq!(ticks((0.0, 1e-9)), ["0.00e0", "5.00e-10", "1.00e-9"]);
        assert_eq!(ticks((f32::MIN, f32::MAX))[2], "3.40e38");
    }
}
