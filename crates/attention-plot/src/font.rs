//! The only typeface: the widths of texts and the outlines of their letters.

use std::collections::BTreeSet;

use tiny_skia::{Path, PathBuilder};
use ttf_parser::{GlyphId, OutlineBuilder};
use unicode_width::UnicodeWidthChar;

use crate::PlotError;
use crate::text::visible;

/// The typefaces that an SVG requests from its viewer. Verdana is as wide as DejaVu Sans, and the usual defaults are
/// narrower, so a layout made with the measures of DejaVu Sans fits everywhere.
pub(crate) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// DejaVu Sans, matplotlib's typeface, embedded in this program's binary.
pub(crate) struct Face(ttf_parser::Face<'static>);

impl Face {
    pub(crate) fn load(format: &'static str) -> Result<Self, PlotError> {
        let face = ttf_parser::Face::parse(dejavu::sans::regular(), 0);
        face.map(Self)
            .map_err(|error| PlotError::drawing(format, error))
    }

    /// The width of a text whose letters are `em` pixels large.
    pub(crate) fn width(&self, text: &str, em: f64) -> f64 {
        self.line(text).width as f64 * em / self.units_per_em()
    }

    /// The text, cut with an ellipsis if it is wider than `limit` pixels.
    pub(crate) fn fit(&self, text: &str, em: f64, limit: f64) -> String {
        if self.width(text, em) <= limit {
            return text.into();
        }
        // Visible letters average at least an eighth of an em each, so a page used as a label is cut immediately.
        let most = (8.0 * limit / em) as usize;
        let ends = text.char_indices().map(|(end, _)| end).take(most + 1);
        let ends: Vec<_> = ends.collect();
        let cut = |end: &usize| format!("{}…", text[..*end].trim_end());
        let fitting = ends.partition_point(|end| self.width(&cut(end), em) <= limit);
        cut(&ends[fitting.saturating_sub(1)])
    }

    /// Half the height of a small letter: the distance of the baseline below a text's middle.
    pub(crate) fn half_x_height(&self, em: f64) -> f64 {
        let letter = self.0.glyph_index('x');
        let bounds = letter.and_then(|letter| self.0.glyph_bounding_box(letter));
        let height = bounds.map_or(0.0, |bounds| bounds.y_max.into());
        height * em / self.units_per_em() / 2.0
    }

    /// The outline of a line of text in units of the face, from the start of its baseline to the right and upwards;
    /// `None` if no letter has an outline.
    pub(crate) fn outline(&self, text: &str) -> Option<Path> {
        let path = PathBuilder::new();
        let mut path = Outline { path, start: 0.0 };
        for (glyph, start) in self.line(text).glyphs {
            path.start = start as f32;
            self.0.outline_glyph(glyph, &mut path);
        }
        path.path.finish()
    }

    pub(crate) fn units_per_em(&self) -> f64 {
        f64::from(self.0.units_per_em())
    }

    fn line(&self, text: &str) -> Line {
        let (mut glyphs, mut width, mut previous) = (Vec::new(), 0, None);
        for character in text.chars() {
            let known = self.0.glyph_index(character);
            let glyph = known.unwrap_or_default();
            width += previous.map_or(0, |previous| self.kerning(previous, glyph));
            glyphs.push((glyph, width));
            // An SVG viewer may have the Chinese letters that the face lacks: they are one em wide.
            width += if known.is_none() && character.width() == Some(2) {
                i64::from(self.0.units_per_em())
            } else {
                i64::from(self.0.glyph_hor_advance(glyph).unwrap_or_default())
            };
            previous = Some(glyph);
        }
        Line { glyphs, width }
    }

    /// The correction of the space between two letters.
    fn kerning(&self, left: GlyphId, right: GlyphId) -> i64 {
        let tables = self.0.tables().kern.into_iter();
        let tables = tables.flat_map(|kern| kern.subtables);
        let mut tables = tables.filter(|table| table.horizontal && !table.variable);
        let kerning = tables.find_map(|table| table.glyphs_kerning(left, right));
        kerning.map_or(0, i64::from)
    }
}

/// The number of distinct characters in these labels that the typeface of bitmaps lacks: in a bitmap each is a box.
///
/// ```
/// assert_eq!(attention_plot::missing_in_bitmaps(["il", "日", "日本", "\n"]), 2);
/// ```
#[must_use]
pub fn missing_in_bitmaps<T: AsRef<str>>(labels: impl IntoIterator<Item = T>) -> usize {
    let Ok(face) = Face::load("PNG") else {
        return 0;
    };
    let labels = labels.into_iter();
    let shown: BTreeSet<char> = labels
        .flat_map(|it| visible(it.as_ref()).chars().collect::<Vec<_>>())
        .collect();
    let lacks = |character: &&char| face.0.glyph_index(**character).is_none();
    shown.iter().filter(lacks).count()
}

/// A line of text in units of the face: the glyphs with their starts, and its width.
struct Line {
    glyphs: Vec<(GlyphId, i64)>,
    width: i64,
}

/// Appends the outlines of glyphs that begin at `start`.
struct Outline {
    path: PathBuilder,
    start: f32,
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(self.start + x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(self.start + x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let start = self.start;
        self.path.quad_to(start + x1, y1, start + x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let start = self.start;
        self.path
            .cubic_to(start + x1, y1, start + x2, y2, start + x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn accents_and_token_marks_have_glyphs() {
        let face = Face::load("PNG").unwrap();
        let accents = "éèêëüöäßñçåøłőşčžığœæÉÜÑ";
        let marks = "¿¡«»„“’–—…ΑωЖя▁Ġ⏎⇥\u{fffd}";
        for character in accents.chars().chain(marks.chars()) {
            let glyph = face.0.glyph_index(character);
            let has_glyph = glyph.is_some_and(|glyph| glyph.0 != 0);
            assert!(has_glyph, "{character} has no glyph");
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
        let is_cut = cut.ends_with('…') && cut.len() > 9;
        assert!(is_cut && face.width(&cut, 10.0) <= 100.0, "{cut}");
        assert_eq!(face.fit("short", 10.0, 100.0), "short");
        assert_eq!(face.fit("short", 10.0, 0.0), "…");
    }

    #[test]
    fn small_letters_are_half_an_em_high() {
        let half = Face::load("PNG").unwrap().half_x_height(100.0);
        assert!((26.0..29.0).contains(&half), "{half}");
    }

    #[test]
    fn outlines_lie_where_the_measure_says() {
        let face = Face::load("PNG").unwrap();
        let bounds = face.outline("HEH").unwrap().bounds();
        let em = face.units_per_em() as f32;
        let width = face.width("HEH", face.units_per_em()) as f32;
        assert!((0.0..0.2 * em).contains(&bounds.left()), "{bounds:?}");
        assert!((width - 0.2 * em..width + 0.1 * em).contains(&bounds.right()));
        // Heights count upwards.
        assert!((-0.02 * em..=0.0).contains(&bounds.top()), "{bounds:?}");
        assert!(face.outline(" \u{a0}").is_none(), "nothing to draw");
    }
}
