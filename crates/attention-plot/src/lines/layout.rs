//! Where everything of a line plot goes, in pixels of an SVG at its natural size.
//!
//! ```text
//!               title
//!   y     t ┌────────────┐  ── series
//!   title t │ panel      │  ── series
//!         t └────────────┘
//!            t   t   t   t
//!               x title
//! ```

use super::plot::LinePlot;
use crate::{
    PlotError,
    canvas::{Area, Place, Point, check_sides},
    font::Face,
    measures::{GAP, MARGIN, TICK, TICK_GAP, TITLE_EM, TITLE_GAP, ceil},
    scale::{Scale, Tick},
    title::Title,
};

pub(super) const TICK_EM: f64 = 10.0;
pub(super) const NAME_EM: f64 = 11.0;
/// The piece of line before a name in the legend, and the space between the two.
pub(super) const SAMPLE: i32 = 25;
pub(super) const SAMPLE_GAP: i32 = 7;
/// From one name to the next.
pub(super) const ROW: i32 = 18;

const PANEL: (i32, i32) = (460, 285);
/// Names longer than this are cut.
const NAME_LIMIT: f64 = 220.0;
/// Ticks of an axis, at most.
const TICKS: usize = 8;
/// The least space between two labels of a horizontal axis.
const LABEL_GAP: f64 = 16.0;

/// A line of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    /// The series of this number.
    Series(usize),
    Vertical,
}

/// A name in the legend, beside a sample of what it names.
#[derive(Debug)]
pub(super) struct LegendEntry {
    pub(super) sample: Sample,
    pub(super) name: String,
}

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) panel: Area,
    pub(super) x_ticks: Vec<Tick>,
    pub(super) y_ticks: Vec<Tick>,
    pub(super) title: String,
    pub(super) x_title: Title,
    pub(super) y_title: Title,
    pub(super) legend: Vec<LegendEntry>,
    x: Scale,
    y: Scale,
    /// The width of the vertical axis' labels.
    y_labels: i32,
}

impl Layout {
    pub(super) fn new(plot: &LinePlot, face: &Face) -> Result<Self, PlotError> {
        if plot.series.is_empty() {
            return Err(PlotError::NoSeries);
        }
        let points = || plot.series.iter().flat_map(|series| drawn(&series.points));
        let verticals = plot.verticals.iter().map(|vertical| vertical.x);
        let x = Scale::over(points().map(|(x, _)| x).chain(verticals));
        let reaching = plot.reaching.iter().copied();
        let y = Scale::over(points().map(|(_, y)| y).chain(reaching));

        let (panel_width, panel_height) = PANEL;
        let x_ticks = ticks_that_fit(x, panel_width.into(), face);
        let y_ticks = y.ticks(TICKS);
        let title = face.fit(&plot.title, TITLE_EM, panel_width.into());
        let x_title = Title::fit(&plot.x_title, panel_width.into(), face);
        let y_title = Title::fit(&plot.y_title, panel_height.into(), face);
        let legend = legend(plot, face);

        let widest = |texts: &mut dyn Iterator<Item = &String>, em| {
            ceil(texts.map(|text| face.width(text, em)).fold(0.0, f64::max))
        };
        let y_labels = widest(&mut y_ticks.iter().map(|tick| &tick.label), TICK_EM);
        let names = widest(&mut legend.iter().map(|entry| &entry.name), NAME_EM);
        let above = if title.is_empty() {
            // Half the uppermost label.
            ceil(TICK_EM / 2.0)
        } else {
            ceil(TITLE_EM) + TITLE_GAP
        };
        let panel = Area {
            x: MARGIN + y_title.room() + y_labels + TICK_GAP + TICK,
            y: MARGIN + above,
            width: panel_width,
            height: panel_height,
        };

        let legend_right = if legend.is_empty() {
            0
        } else {
            panel.right() + GAP + SAMPLE + SAMPLE_GAP + names
        };
        // A label below the end of the axis may reach beyond it.
        let label_right = |tick: &Tick| {
            let middle = x.position(tick.value) * f64::from(panel.width);
            panel.x + ceil(middle + face.width(&tick.label, TICK_EM) / 2.0)
        };
        let labels_right = x_ticks
            .iter()
            .map(label_right)
            .fold(panel.right(), i32::max);
        let width = labels_right.max(legend_right) + MARGIN;

        let x_labels = TICK + TICK_GAP + ceil(TICK_EM);
        let bottom = panel.bottom() + x_labels + x_title.room();
        let legend_bottom = panel.y as u64 + ROW as u64 * legend.len() as u64;
        let height = legend_bottom.max(bottom as u64) + MARGIN as u64;
        check_sides(width as u64, height)?;
        Ok(Self {
            width,
            height: height as i32,
            panel,
            x_ticks,
            y_ticks,
            title,
            x_title,
            y_title,
            legend,
            x,
            y,
            y_labels,
        })
    }

    /// The place of a point.
    pub(super) fn place(&self, (x, y): (f32, f32)) -> Place {
        // The middle of the pixel, as that of the axes and the grid.
        Place {
            x: f64::from(self.panel.x) + self.right(x.into()) + 0.5,
            y: f64::from(self.panel.y) + self.down(y.into()) + 0.5,
        }
    }

    /// The column of pixels of a number on the horizontal axis.
    pub(super) fn column(&self, x: f64) -> i32 {
        self.panel.x + (self.right(x) + 0.5).floor() as i32
    }

    /// The row of pixels of a number on the vertical axis.
    pub(super) fn row(&self, y: f64) -> i32 {
        self.panel.y + (self.down(y) + 0.5).floor() as i32
    }

    /// The middle of the title.
    pub(super) fn title_at(&self) -> Point {
        Point {
            x: self.panel.middle().x,
            y: self.panel.y - TITLE_GAP - ceil(TITLE_EM / 2.0),
        }
    }

    /// The middle of the lower edge of the horizontal axis' labels.
    pub(super) fn below_labels(&self) -> Point {
        Point {
            x: self.panel.middle().x,
            y: self.panel.bottom() + TICK + TICK_GAP + ceil(TICK_EM),
        }
    }

    /// The middle of the left edge of the vertical axis' labels.
    pub(super) fn beside_labels(&self) -> Point {
        Point {
            x: self.panel.x - TICK - TICK_GAP - self.y_labels,
            y: self.panel.middle().y,
        }
    }

    /// The left end of a row of the legend, on its middle line.
    pub(super) fn legend_at(&self, row: usize) -> Point {
        Point {
            x: self.panel.right() + GAP,
            y: self.panel.y + ROW / 2 + ROW * row as i32,
        }
    }

    /// The distance of a number from the left end of its axis.
    fn right(&self, x: f64) -> f64 {
        self.x.position(x) * f64::from(self.panel.width)
    }

    /// The distance of a number from the upper end of its axis.
    fn down(&self, y: f64) -> f64 {
        (1.0 - self.y.position(y)) * f64::from(self.panel.height)
    }
}

/// The points that have a place on both axes.
fn drawn(points: &[(f32, f32)]) -> impl Iterator<Item = (f32, f32)> {
    let points = points.iter().copied();
    points.filter(|(x, y)| x.is_finite() && y.is_finite())
}

/// As many ticks as there is room for their labels.
fn ticks_that_fit(scale: Scale, width: f64, face: &Face) -> Vec<Tick> {
    let fit = |ticks: &[Tick]| {
        ticks.windows(2).all(|two| {
            let apart = (scale.position(two[1].value) - scale.position(two[0].value)) * width;
            let labels = face.width(&two[0].label, TICK_EM) + face.width(&two[1].label, TICK_EM);
            apart >= labels / 2.0 + LABEL_GAP
        })
    };
    let fewer = (2..=TICKS).rev().map(|most| scale.ticks(most));
    let mut fewer = fewer.skip_while(|ticks| !fit(ticks));
    fewer.next().unwrap_or_default()
}

fn legend(plot: &LinePlot, face: &Face) -> Vec<LegendEntry> {
    let series = plot.series.iter().enumerate();
    let series = series.map(|(at, series)| (Sample::Series(at), &series.name));
    let verticals = plot.verticals.iter();
    let verticals = verticals.map(|vertical| (Sample::Vertical, &vertical.name));
    series
        .chain(verticals)
        .filter(|(_, name)| !name.is_empty())
        .map(|(sample, name)| LegendEntry {
            sample,
            name: face.fit(name, NAME_EM, NAME_LIMIT),
        })
        .collect()
}
