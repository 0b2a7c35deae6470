//! The line plot on any plotters backend.

use plotters::{
    backend::DrawingBackend,
    style::{Color, FontTransform, RGBColor, ShapeStyle, text_anchor::HPos},
};

use super::{
    LinePlot, Series, SeriesStyle,
    layout::{Layout, NAME_EM, ROW, SAMPLE, SAMPLE_GAP, Sample, TICK_EM},
};
use crate::figure::{
    AXIS_TITLE_EM, Area, Drawn, Figure, INK, TICK, TICK_GAP, TITLE_EM, fill, text,
};

/// Places are rounded to a tenth of a pixel.
const UNITS: i32 = 10;
const LINE_WIDTH: f64 = 1.8;
const VERTICAL_WIDTH: f64 = 1.0;
const RADIUS: f64 = 3.0;

const GRID: RGBColor = RGBColor(228, 228, 228);
const VERTICAL: RGBColor = RGBColor(120, 120, 120);
/// The lengths of a dash and of the space after it.
const DASH: [f64; 2] = [5.0, 5.0];

/// Pixels of an SVG from the left and from the top.
type Place = (f64, f64);

pub(super) struct LineFigure<'a> {
    pub(super) plot: &'a LinePlot,
    pub(super) layout: &'a Layout,
}

impl Figure for LineFigure<'_> {
    const UNITS: i32 = UNITS;

    fn size(&self) -> (i32, i32) {
        (self.layout.width, self.layout.height)
    }

    fn draw<B: DrawingBackend>(&self, b: &mut B) -> Drawn<B> {
        let (plot, layout) = (self.plot, self.layout);
        draw_grid(b, layout)?;
        let panel = layout.panel;
        for vertical in &plot.verticals {
            let (x, _) = layout.place((f64::from(vertical.x), 0.0));
            let ends = [panel.y, panel.y + panel.height].map(|y| (x, f64::from(y)));
            dashes(b, &ends, VERTICAL_WIDTH, VERTICAL)?;
        }
        for (at, series) in plot.series.iter().enumerate() {
            draw_series(b, layout, series, self.color(at))?;
        }
        draw_axes(b, layout)?;
        self.draw_legend(b)
    }
}

impl LineFigure<'_> {
    /// Ten colours that are told apart well; more than ten series take even steps through a rainbow.
    fn color(&self, series: usize) -> RGBColor {
        let count = self.plot.series.len();
        let color = match count <= colorous::TABLEAU10.len() {
            true => colorous::TABLEAU10[series],
            false => colorous::TURBO.eval_rational(series, count),
        };
        RGBColor(color.r, color.g, color.b)
    }

    fn draw_legend<B: DrawingBackend>(&self, b: &mut B) -> Drawn<B> {
        let (left, first) = self.layout.legend_at;
        for (row, (sample, name)) in (0..).zip(&self.layout.legend) {
            let y = first + row * ROW;
            let end = |x: i32| (f64::from(x), f64::from(y) + 0.5);
            let ends = [end(left), end(left + SAMPLE)];
            match *sample {
                Sample::Series(at) => {
                    let (color, style) = (self.color(at), self.plot.series[at].style);
                    draw_line(b, &ends, style, color)?;
                    if has_points(style) {
                        disc(b, end(left + SAMPLE / 2), color)?;
                    }
                }
                Sample::Vertical => dashes(b, &ends, VERTICAL_WIDTH, VERTICAL)?,
            }
            let at = (left + SAMPLE + SAMPLE_GAP, y);
            label(b, name, NAME_EM, at, HPos::Left, FontTransform::None)?;
        }
        Ok(())
    }
}

fn draw_grid<B: DrawingBackend>(b: &mut B, layout: &Layout) -> Drawn<B> {
    let panel = layout.panel;
    for (value, _) in &layout.x_ticks {
        let from = (layout.column(*value), panel.y);
        rule(b, from, (1, panel.height), GRID)?;
    }
    for (value, _) in &layout.y_ticks {
        let from = (panel.x, layout.row(*value));
        rule(b, from, (panel.width, 1), GRID)?;
    }
    Ok(())
}

fn draw_series<B: DrawingBackend>(
    b: &mut B,
    layout: &Layout,
    series: &Series,
    color: RGBColor,
) -> Drawn<B> {
    // What is not finite divides the line.
    let is_gap = |(x, y): &(f32, f32)| !(x.is_finite() && y.is_finite());
    for part in series.points.split(is_gap) {
        let place = |(x, y): &(f32, f32)| layout.place((f64::from(*x), f64::from(*y)));
        let places: Vec<_> = part.iter().map(place).collect();
        draw_line(b, &places, series.style, color)?;
        if has_points(series.style) || places.len() == 1 {
            for place in places {
                disc(b, place, color)?;
            }
        }
    }
    Ok(())
}

fn has_points(style: SeriesStyle) -> bool {
    matches!(style, SeriesStyle::Points | SeriesStyle::LineAndPoints)
}

/// What a style has of a line through two places or more.
fn draw_line<B: DrawingBackend>(
    b: &mut B,
    places: &[Place],
    style: SeriesStyle,
    color: RGBColor,
) -> Drawn<B> {
    match style {
        _ if places.len() < 2 => Ok(()),
        SeriesStyle::Points => Ok(()),
        SeriesStyle::Line | SeriesStyle::LineAndPoints => line(b, places, LINE_WIDTH, color),
        SeriesStyle::Dashes => dashes(b, places, LINE_WIDTH, color),
    }
}

fn draw_axes<B: DrawingBackend>(b: &mut B, layout: &Layout) -> Drawn<B> {
    let panel = layout.panel;
    let (bottom, middle) = (panel.y + panel.height, panel.x + panel.width / 2);
    rule(b, (panel.x, panel.y), (1, panel.height), INK)?;
    rule(b, (panel.x, bottom), (panel.width, 1), INK)?;
    for (value, name) in &layout.x_ticks {
        let x = layout.column(*value);
        rule(b, (x, bottom), (1, TICK), INK)?;
        let at = (x, bottom + TICK + TICK_GAP + (TICK_EM / 2.0) as i32);
        label(b, name, TICK_EM, at, HPos::Center, FontTransform::None)?;
    }
    for (value, name) in &layout.y_ticks {
        let (x, y) = (panel.x - TICK, layout.row(*value));
        rule(b, (x, y), (TICK, 1), INK)?;
        let at = (x - TICK_GAP, y);
        label(b, name, TICK_EM, at, HPos::Right, FontTransform::None)?;
    }
    let (up, level) = (FontTransform::Rotate270, FontTransform::None);
    let at = (layout.y_title_x, panel.y + panel.height / 2);
    label(b, &layout.y_title, AXIS_TITLE_EM, at, HPos::Center, up)?;
    for (name, em, y) in [
        (&layout.x_title, AXIS_TITLE_EM, layout.x_title_y),
        (&layout.title, TITLE_EM, layout.title_y),
    ] {
        label(b, name, em, (middle, y), HPos::Center, level.clone())?;
    }
    Ok(())
}

/// A rectangle of whole pixels, for lines along them.
fn rule<B: DrawingBackend>(
    b: &mut B,
    (x, y): (i32, i32),
    (width, height): (i32, i32),
    color: RGBColor,
) -> Drawn<B> {
    let area = Area {
        x: x * UNITS,
        y: y * UNITS,
        width: width * UNITS,
        height: height * UNITS,
    };
    fill(b, area, color)
}

fn line<B: DrawingBackend>(b: &mut B, places: &[Place], width: f64, color: RGBColor) -> Drawn<B> {
    let style = ShapeStyle {
        color: color.to_rgba(),
        filled: false,
        stroke_width: units(width) as u32,
    };
    let places = places.iter().map(|(x, y)| (units(*x), units(*y)));
    b.draw_path(places, &style)
}

/// A line that is cut along its length.
fn dashes<B: DrawingBackend>(b: &mut B, places: &[Place], width: f64, color: RGBColor) -> Drawn<B> {
    // Whether a dash (0) or a space (1) is in hand, and how much of it is left.
    let (mut space, mut left) = (0, DASH[0]);
    let mut dash: Vec<Place> = places.iter().take(1).copied().collect();
    for ends in places.windows(2) {
        let ((x, y), (dx, dy)) = (ends[0], (ends[1].0 - ends[0].0, ends[1].1 - ends[0].1));
        let length = dx.hypot(dy);
        let mut gone = 0.0;
        while length - gone > left {
            gone += left;
            let cut = (x + gone / length * dx, y + gone / length * dy);
            if space == 0 {
                dash.push(cut);
                line(b, &dash, width, color)?;
            }
            dash = vec![cut];
            space = 1 - space;
            left = DASH[space];
        }
        left -= length - gone;
        dash.push(ends[1]);
    }
    match space {
        0 => line(b, &dash, width, color),
        _ => Ok(()),
    }
}

fn disc<B: DrawingBackend>(b: &mut B, (x, y): Place, color: RGBColor) -> Drawn<B> {
    b.draw_circle((units(x), units(y)), units(RADIUS) as u32, &color, true)
}

fn label<B: DrawingBackend>(
    b: &mut B,
    name: &str,
    em: f64,
    (x, y): (i32, i32),
    end: HPos,
    transform: FontTransform,
) -> Drawn<B> {
    let at = (x * UNITS, y * UNITS);
    text(b, name, em * f64::from(UNITS), at, end, transform)
}

fn units(pixels: f64) -> i32 {
    (pixels * f64::from(UNITS)).round() as i32
}
