//! The colours of weights.

use crate::{canvas::Rgb, scale::Scale};

/// The colour of a cell whose weight is NaN or infinite, which differs from all others.
const NOT_FINITE: Rgb = [160, 160, 160];

/// The last of the shades of an image, which leave one of 256 colours for non-finite weights.
const LAST_SHADE: u8 = 254;

/// D2L's colours, from near white to dark red (ColorBrewer's `Reds`), with the weights at the two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColorScale {
    pub(crate) weights: Scale,
}

impl ColorScale {
    pub(crate) fn new((low, high): (f32, f32)) -> Self {
        let (low, high) = (low.into(), high.into());
        let weights = Scale { low, high };
        Self { weights }
    }

    /// The position of a weight between the two ends, from 0 to 1; `None` if it is not finite.
    pub(crate) fn position(&self, weight: f32) -> Option<f64> {
        let position = || self.weights.position(weight.into()).clamp(0.0, 1.0);
        weight.is_finite().then(position)
    }

    pub(crate) fn color(&self, weight: f32) -> Rgb {
        self.position(weight)
            .map_or(NOT_FINITE, |position| self.color_at(position))
    }

    /// The colours for [`index`](Self::index): shades from the lower end to the upper, and a colour for non-finite
    /// weights.
    pub(crate) fn palette(&self) -> Vec<Rgb> {
        let shades = (0..=LAST_SHADE).map(|shade| f64::from(shade) / f64::from(LAST_SHADE));
        let colors = shades.map(|position| self.color_at(position));
        colors.chain([NOT_FINITE]).collect()
    }

    pub(crate) fn index(&self, weight: f32) -> u8 {
        self.position(weight).map_or(LAST_SHADE + 1, |position| {
            (position * f64::from(LAST_SHADE)).round() as u8
        })
    }

    pub(crate) fn color_at(&self, position: f64) -> Rgb {
        colorous::REDS.eval_continuous(position).into_array()
    }
}

/// The range of the finite weights, extended to zero if all are equal, so that uniform attention has a colour.
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
        let scale = ColorScale::new((0.0, 2.0));
        let ends = [0.0, 2.0].map(|weight| scale.color(weight));
        assert_eq!(ends, [[255, 245, 240], [103, 0, 13]]);
    }

    #[test]
    fn weights_outside_the_range_take_the_end_colors() {
        let scale = ColorScale::new((0.2, 0.4));
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
}
