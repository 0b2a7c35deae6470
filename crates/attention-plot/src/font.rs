//! The one typeface: how wide a text is, and its pixels.

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};
use unicode_width::UnicodeWidthChar;

use crate::PlotError;

/// What an SVG asks its viewer for. Verdana has the widths of DejaVu Sans, the usual defaults are narrower, so a layout
/// made with DejaVu's measures holds everywhere.
pub(crate) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// DejaVu Sans, matplotlib's typeface, out of this program's own binary.
pub(crate) struct Face(FontRef<'static>);

impl Face {
    pub(crate) fn load(format: &'static str) -> Result<Self, PlotError> {
        FontRef::try_from_slice(dejavu::sans::regular())
            .map(Self)
            .map_err(|error| PlotError::drawing(format, error))
    }

    /// The width of a text whose letters are `em` pixels large.
    pub(crate) fn width(&self, text: &str, em: f64) -> f64 {
        self.line(text, em).1
    }

    /// The text, cut with an ellipsis if it is wider than `limit` pixels.
    pub(crate) fn fit(&self, text: &str, em: f64, limit: f64) -> String {
        if self.width(text, em) <= limit {
            return text.into();
        }
        // No run of visible letters is narrower than an eighth of an em each; a page as a label is cut at once.
        let most = (8.0 * limit / em) as usize;
        let mut start: String = text.chars().take(most).collect();
        loop {
            let kept = format!("{}…", start.trim_end());
            if self.width(&kept, em) <= limit || start.pop().is_none() {
                return kept;
            }
        }
    }

    /// Half the height of a small letter: how far below a text's middle its baseline runs.
    pub(crate) fn half_x_height(&self, em: f64) -> f64 {
        // An outline's corner `min` is the upper left one; heights count upwards.
        let top = self
            .0
            .outline(self.0.glyph_id('x'))
            .map_or(0.0, |outline| outline.bounds.min.y);
        f64::from(top) / self.units_per_em() * em / 2.0
    }

    /// Calls `pixel(x, y, coverage)` for the pixels of a line of text that begins at the origin and whose baseline is
    /// `y = baseline`.
    pub(crate) fn rasterize(
        &self,
        text: &str,
        em: f64,
        start: f64,
        baseline: f64,
        mut pixel: impl FnMut(i32, i32, f32),
    ) {
        for mut glyph in self.line(text, em).0 {
            glyph.position.x += start as f32;
            glyph.position.y += baseline as f32;
            if let Some(outlined) = self.0.outline_glyph(glyph) {
                let corner = outlined.px_bounds().min;
                outlined.draw(|x, y, coverage| {
                    pixel(
                        corner.x as i32 + x as i32,
                        corner.y as i32 + y as i32,
                        coverage.min(1.0),
                    );
                });
            }
        }
    }

    /// The placed glyphs of a line of text, and its width.
    fn line(&self, text: &str, em: f64) -> (Vec<Glyph>, f64) {
        // ab_glyph scales by the height from ascender to descender, typography by the em square.
        let scale = f64::from(self.0.height_unscaled()) / self.units_per_em() * em;
        let scale = PxScale::from(scale as f32);
        let font = self.0.as_scaled(scale);
        let (mut glyphs, mut x, mut previous) = (Vec::new(), 0.0, None);
        for character in text.chars() {
            let id = self.0.glyph_id(character);
            x += previous.map_or(0.0, |previous| font.kern(previous, id));
            glyphs.push(id.with_scale_and_position(scale, point(x, 0.0)));
            // What the face lacks, a viewer of the SVG may have: Chinese letters are one em wide.
            let wide = id.0 == 0 && character.width() == Some(2);
            x += if wide { em as f32 } else { font.h_advance(id) };
            previous = Some(id);
        }
        (glyphs, f64::from(x))
    }

    fn units_per_em(&self) -> f64 {
        f64::from(self.0.units_per_em().unwrap_or(2048.0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn accents_and_token_marks_have_glyphs() {
        let face = Face::load("PNG").unwrap();
        for character in "éèêëüöäßñçåøłőşčžığœæÉÜÑ¿¡«»„“’–—…ΑωЖя▁Ġ⏎⇥\u{fffd}".chars()
        {
            assert_ne!(face.0.glyph_id(character).0, 0, "{character} has no glyph");
        }
    }

    #[test]
    fn width_grows_with_text_and_size() {
        let face = Face::load("PNG").unwrap();
        let width = face.width("weights", 10.0);
        assert!((30.0..60.0).contains(&width), "{width}");
        assert!((face.width("weights", 20.0) - 2.0 * width).abs() < 0.1);
        assert!(face.width("weights!", 10.0) > width);
        assert_eq!(face.width("", 10.0), 0.0);
    }

    #[test]
    fn fit_cuts_to_the_limit() {
        let face = Face::load("PNG").unwrap();
        let long = "Donaudampfschifffahrt".repeat(9);
        let cut = face.fit(&long, 10.0, 100.0);
        assert!(
            cut.ends_with('…') && face.width(&cut, 10.0) <= 100.0 && cut.len() > 9,
            "{cut}"
        );
        assert_eq!(face.fit("short", 10.0, 100.0), "short");
        assert_eq!(face.fit("short", 10.0, 0.0), "…");
    }

    #[test]
    fn small_letters_are_half_an_em_high() {
        let half = Face::load("PNG").unwrap().half_x_height(100.0);
        assert!((26.0..29.0).contains(&half), "{half}");
    }

    #[test]
    fn pixels_lie_where_the_measure_says() {
        let face = Face::load("PNG").unwrap();
        let (mut left, mut right, mut lowest) = (i32::MAX, i32::MIN, i32::MIN);
        face.rasterize("HEH", 100.0, 10.0, 200.0, |x, y, coverage| {
            if coverage > 0.5 {
                (left, right, lowest) = (left.min(x), right.max(x), lowest.max(y));
            }
        });
        let width = face.width("HEH", 100.0) as i32;
        assert!((10..30).contains(&left) && (width - 20..width + 10).contains(&right));
        assert!((198..=200).contains(&lowest), "{lowest}");
    }
}
