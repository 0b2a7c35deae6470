//! What all figures share: paper, ink and measures, and the way to SVG.

use plotters::{
    backend::{DrawingBackend, SVGBackend},
    style::{
        Color, FontDesc, FontFamily, FontStyle, FontTransform, RGBColor, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};
use plotters_backend::DrawingErrorKind;

use crate::{PlotError, font::FAMILY};

/// Plotters counts a font's size from the top of its highest letter to the foot of its lowest.
pub(crate) const SIZE_PER_EM: f64 = 1.24;

pub(crate) const INK: RGBColor = RGBColor(38, 38, 38);
const PAPER: RGBColor = RGBColor(255, 255, 255);

pub(crate) const TITLE_EM: f64 = 13.0;
pub(crate) const AXIS_TITLE_EM: f64 = 12.0;
/// The length of a tick, and the space between a tick and its label.
pub(crate) const TICK: i32 = 3;
pub(crate) const TICK_GAP: i32 = 3;
pub(crate) const MARGIN: i32 = 14;
pub(crate) const GAP: i32 = 18;
/// Clears the upper label of a colour bar, above which a long title may run.
pub(crate) const TITLE_GAP: i32 = 10;
/// Coordinates stay far below where 32-bit arithmetic and viewers give up.
const SIDE_LIMIT: u64 = 65_535;

/// A rectangle: the upper left corner and the size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

pub(crate) type Drawn<B> = Result<(), DrawingErrorKind<<B as DrawingBackend>::ErrorType>>;

/// What can be drawn on any plotters backend.
pub(crate) trait Figure {
    /// Units for each pixel of an SVG at its natural size: plotters' coordinates are whole numbers of units.
    const UNITS: i32;

    /// Width and height in pixels of an SVG.
    fn size(&self) -> (i32, i32);

    /// Draws on blank paper, one of its units for each of the backend's.
    fn draw<B: DrawingBackend>(&self, b: &mut B) -> Drawn<B>;
}

/// Draws the figure with the paper below it.
pub(crate) fn draw<F: Figure, B: DrawingBackend>(b: &mut B, figure: &F) -> Drawn<B> {
    let (width, height) = figure.size();
    let area = Area {
        x: 0,
        y: 0,
        width: width * F::UNITS,
        height: height * F::UNITS,
    };
    fill(b, area, PAPER)?;
    figure.draw(b)
}

/// The figure as SVG text.
pub(crate) fn svg<F: Figure>(figure: &F) -> Result<String, PlotError> {
    let (width, height) = figure.size();
    let units = |side: i32| (side * F::UNITS) as u32;
    let mut text = String::new();
    let mut backend = SVGBackend::with_string(&mut text, (units(width), units(height)));
    draw(&mut backend, figure)
        .and_then(|()| backend.present())
        .map_err(|error| PlotError::drawing("SVG", error.to_string()))?;
    drop(backend);
    // The view box stays in units.
    let sides = |width, height| format!("<svg width=\"{width}\" height=\"{height}\" ");
    let in_units = sides(units(width), units(height));
    let in_pixels = sides(width as u32, height as u32);
    Ok(text.replacen(&in_units, &in_pixels, 1))
}

/// Refuses pictures, of pixels of an SVG, that viewers cannot show.
pub(crate) fn check_sides(width: u64, height: u64) -> Result<(), PlotError> {
    if width.max(height) > SIDE_LIMIT {
        let limit = "neither side may exceed 65535";
        return Err(PlotError::TooLarge {
            width,
            height,
            limit,
        });
    }
    Ok(())
}

pub(crate) fn fill<B: DrawingBackend>(b: &mut B, area: Area, color: RGBColor) -> Drawn<B> {
    b.draw_rect((area.x, area.y), corner(area), &color, true)
}

/// Draws a text; `at` is on its middle line, at its left end, middle or right end.
pub(crate) fn text<B: DrawingBackend>(
    b: &mut B,
    text: &str,
    em: f64,
    at: (i32, i32),
    end: HPos,
    transform: FontTransform,
) -> Drawn<B> {
    let font = FontDesc::new(
        FontFamily::Name(FAMILY),
        em * SIZE_PER_EM,
        FontStyle::Normal,
    );
    let style = TextStyle {
        font: font.transform(transform),
        color: INK.to_backend_color(),
        pos: Pos::new(end, VPos::Center),
    };
    b.draw_text(text, &style, at)
}

pub(crate) fn corner(area: Area) -> (i32, i32) {
    (area.x + area.width, area.y + area.height)
}

/// The room that an axis title takes, with its distance to the labels.
pub(crate) fn room(title: &str, em: f64) -> i32 {
    if title.is_empty() { 0 } else { ceil(em) + 8 }
}

/// The smallest and the largest of some numbers: infinity and minus infinity if there are none.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

pub(crate) fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

/// Control characters as visible signs: raw, they would break XML and steer the reader's terminal.
pub(crate) fn visible(text: impl Into<String>) -> String {
    let sign = |character: char| match character {
        '\n' | '\r' => '⏎',
        '\t' => '⇥',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        control if control.is_control() => '\u{fffd}',
        other => other,
    };
    text.into().chars().map(sign).collect()
}
