//! A line plot on a canvas.

use super::{
    layout::{Layout, LegendEntry, NAME_EM, SAMPLE, SAMPLE_GAP, Sample, TICK_EM},
    plot::{LinePlot, Series, SeriesStyle},
};
use crate::{
    canvas::{Anchor, Area, Canvas, Figure, INK, Page, Place, Point, Rgb, Text},
    measures::{TICK, TICK_GAP, TITLE_EM},
};

/// Places are rounded to a tenth of a pixel.
const UNITS: i32 = 10;
const LINE_WIDTH: f64 = 1.8;
const VERTICAL_WIDTH: f64 = 1.0;
const RADIUS: f64 = 3.0;

const GRID: Rgb = [228, 228, 228];
const VERTICAL: Rgb = [120, 120, 120];
/// The length of a dash, and of the gap after it.
const DASH: f64 = 5.0;

/// A plot with its layout.
pub(super) struct LineFigure<'a> {
    pub(super) plot: &'a LinePlot,
    pub(super) layout: &'a Layout,
}

impl Figure for LineFigure<'_> {
    fn page(&self) -> Page {
        Page {
            width: self.layout.width,
            height: self.layout.height,
            units: UNITS,
        }
    }

    fn draw(&self, canvas: &mut impl Canvas) {
        self.draw_grid(canvas);
        let panel = self.layout.panel;
        for vertical in &self.plot.verticals {
            let Place { x, .. } = self.layout.place((vertical.x, 0.0));
            let ends = [panel.y, panel.bottom()].map(|y| Place { x, y: y.into() });
            draw_dashes(canvas, &ends, VERTICAL_WIDTH, VERTICAL);
        }
        for (at, series) in self.plot.series.iter().enumerate() {
            self.draw_series(canvas, series, self.color(at));
        }
        self.draw_axes(canvas);
        self.draw_titles(canvas);
        for (row, entry) in self.layout.legend.iter().enumerate() {
            self.draw_legend_entry(canvas, entry, self.layout.legend_at(row));
        }
    }
}

impl LineFigure<'_> {
    /// Ten colours that are told apart well; more than ten series take even steps through a rainbow.
    fn color(&self, series: usize) -> Rgb {
        let count = self.plot.series.len();
        let color = if count <= colorous::TABLEAU10.len() {
            colorous::TABLEAU10[series]
        } else {
            colorous::TURBO.eval_rational(series, count)
        };
        color.into_array()
    }

    fn draw_grid(&self, canvas: &mut impl Canvas) {
        let (layout, panel) = (self.layout, self.layout.panel);
        for tick in &layout.x_ticks {
            let x = layout.column(tick.value);
            canvas.fill(
                Area {
                    x,
                    width: 1,
                    ..panel
                },
                GRID,
            );
        }
        for tick in &layout.y_ticks {
            let y = layout.row(tick.value);
            canvas.fill(
                Area {
                    y,
                    height: 1,
                    ..panel
                },
                GRID,
            );
        }
    }

    fn draw_series(&self, canvas: &mut impl Canvas, series: &Series, color: Rgb) {
        // A point that is not finite divides the line.
        let is_gap = |(x, y): &(f32, f32)| !(x.is_finite() && y.is_finite());
        for part in series.points.split(is_gap) {
            let places: Vec<_> = part.iter().map(|point| self.layout.place(*point)).collect();
            draw_line(canvas, &places, series.style, color);
            if has_points(series.style) || places.len() == 1 {
                for place in places {
                    canvas.disc(place, RADIUS, color);
                }
            }
        }
    }

    fn draw_axes(&self, canvas: &mut impl Canvas) {
        let (layout, panel) = (self.layout, self.layout.panel);
        let bottom = panel.bottom();
        canvas.fill(Area { width: 1, ..panel }, INK);
        canvas.fill(
            Area {
                y: bottom,
                height: 1,
                ..panel
            },
            INK,
        );
        for tick in &layout.x_ticks {
            let x = layout.column(tick.value);
            let mark = Area {
                x,
                y: bottom,
                width: 1,
                height: TICK,
            };
            canvas.fill(mark, INK);
            let y = mark.bottom() + TICK_GAP + (TICK_EM / 2.0) as i32;
            canvas.text(Text::new(
                &tick.label,
                TICK_EM,
                Point { x, y },
                Anchor::Middle,
            ));
        }
        for tick in &layout.y_ticks {
            let y = layout.row(tick.value);
            let mark = Area {
                x: panel.x - TICK,
                y,
                width: TICK,
                height: 1,
            };
            canvas.fill(mark, INK);
            let x = mark.x - TICK_GAP;
            canvas.text(Text::new(&tick.label, TICK_EM, Point { x, y }, Anchor::End));
        }
    }

    fn draw_titles(&self, canvas: &mut impl Canvas) {
        let layout = self.layout;
        layout.x_title.draw_below(canvas, layout.below_labels());
        layout.y_title.draw_beside(canvas, layout.beside_labels());
        canvas.text(Text::new(
            &layout.title,
            TITLE_EM,
            layout.title_at(),
            Anchor::Middle,
        ));
    }

    /// Draws a sample of a line and its name, from `at` on.
    fn draw_legend_entry(&self, canvas: &mut impl Canvas, entry: &LegendEntry, at: Point) {
        let place = |x: i32| Place {
            x: x.into(),
            y: f64::from(at.y) + 0.5,
        };
        let ends = [place(at.x), place(at.x + SAMPLE)];
        match entry.sample {
            Sample::Series(series) => {
                let (color, style) = (self.color(series), self.plot.series[series].style);
                draw_line(canvas, &ends, style, color);
                if has_points(style) {
                    canvas.disc(place(at.x + SAMPLE / 2), RADIUS, color);
                }
            }
            Sample::Vertical => draw_dashes(canvas, &ends, VERTICAL_WIDTH, VERTICAL),
        }
        let start = Point {
            x: at.x + SAMPLE + SAMPLE_GAP,
            ..at
        };
        canvas.text(Text::new(&entry.name, NAME_EM, start, Anchor::Start));
    }
}

fn has_points(style: SeriesStyle) -> bool {
    matches!(style, SeriesStyle::Points | SeriesStyle::LineAndPoints)
}

/// Draws the line that a style has through two places or more.
fn draw_line(canvas: &mut impl Canvas, places: &[Place], style: SeriesStyle, color: Rgb) {
    if places.len() < 2 {
        return;
    }
    match style {
        SeriesStyle::Points => {}
        SeriesStyle::Line | SeriesStyle::LineAndPoints => canvas.line(places, LINE_WIDTH, color),
        SeriesStyle::Dashes => draw_dashes(canvas, places, LINE_WIDTH, color),
    }
}

/// Draws dashes and gaps of one length, measured along the line.
fn draw_dashes(canvas: &mut impl Canvas, places: &[Place], width: f64, color: Rgb) {
    let (mut in_dash, mut left) = (true, DASH);
    let mut dash: Vec<Place> = places.iter().take(1).copied().collect();
    for ends in places.windows(2) {
        let (from, to) = (ends[0], ends[1]);
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let length = dx.hypot(dy);
        let mut gone = 0.0;
        while length - gone > left {
            gone += left;
            let cut = Place {
                x: from.x + gone / length * dx,
                y: from.y + gone / length * dy,
            };
            if in_dash {
                dash.push(cut);
                canvas.line(&dash, width, color);
            }
            dash = vec![cut];
            in_dash = !in_dash;
            left = DASH;
        }
        left -= length - gone;
        dash.push(to);
    }
    if in_dash {
        canvas.line(&dash, width, color);
    }
}
