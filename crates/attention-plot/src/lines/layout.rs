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

use super::{LinePlot, scale::Scale};
use crate::{
    PlotError,
    figure::{
        AXIS_TITLE_EM, Area, GAP, MARGIN, TICK, TICK_GAP, TITLE_EM, TITLE_GAP, ceil, check_sides,
        room,
    },
    font::Face,
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
    /// Of the series of this number.
    Series(usize),
    Vertical,
}

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) panel: Area,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) x_ticks: Vec<(f64, String)>,
    pub(super) y_ticks: Vec<(f64, String)>,
    pub(super) title: String,
    pub(super) x_title: String,
    pub(super) y_title: String,
    /// The middle lines of the titles: that of the vertical axis runs upwards.
    pub(super) title_y: i32,
    pub(super) x_title_y: i32,
    pub(super) y_title_x: i32,
    pub(super) legend: Vec<(Sample, String)>,
    /// The left end and the first middle line of the legend.
    pub(super) legend_at: (i32, i32),
}

impl Layout {
    pub(super) fn new(plot: &LinePlot, face: &Face) -> Result<Self, PlotError> {
        if plot.series.is_empty() {
            return Err(PlotError::NoSeries);
        }
        let points = || plot.series.iter().flat_map(|series| drawn(&series.points));
        let verticals = plot.verticals.iter().map(|vertical| vertical.x);
        let x = Scale::over(points().map(|(x, _)| x).chain(verticals));
        let y = Scale::over(
            points()
                .map(|(_, y)| y)
                .chain(plot.reaching.iter().copied()),
        );

        let (panel_width, panel_height) = PANEL;
        let x_ticks = ticks_that_fit(x, f64::from(panel_width), face);
        let y_ticks = y.ticks(TICKS);
        let widest = |texts: &mut dyn Iterator<Item = &String>, em| {
            ceil(texts.map(|text| face.width(text, em)).fold(0.0, f64::max))
        };
        let labels = widest(&mut y_ticks.iter().map(|(_, text)| text), TICK_EM);

        let title = face.fit(&plot.title, TITLE_EM, f64::from(panel_width));
        let x_title = face.fit(&plot.x_title, AXIS_TITLE_EM, f64::from(panel_width));
        let y_title = face.fit(&plot.y_title, AXIS_TITLE_EM, f64::from(panel_height));
        let above = if title.is_empty() {
            // Half the uppermost label.
            ceil(TICK_EM / 2.0)
        } else {
            ceil(TITLE_EM) + TITLE_GAP
        };
        let panel = Area {
            x: MARGIN + room(&y_title, AXIS_TITLE_EM) + labels + TICK_GAP + TICK,
            y: MARGIN + above,
            width: panel_width,
            height: panel_height,
        };

        let legend = legend(plot, face);
        let names = widest(&mut legend.iter().map(|(_, name)| name), NAME_EM);
        let right = panel.x + panel.width;
        let legend_at = (right + GAP, panel.y + ROW / 2);
        let legend_right = match legend.is_empty() {
            true => 0,
            false => legend_at.0 + SAMPLE + SAMPLE_GAP + names,
        };
        // A label below the end of the axis may reach beyond it.
        let label = |(value, text): &(f64, String)| {
            let reach = x.position(*value) * f64::from(panel.width);
            panel.x + ceil(reach + face.width(text, TICK_EM) / 2.0)
        };
        let labels_right = x_ticks.iter().map(label).fold(right, i32::max);

        let bottom = panel.y + panel.height;
        let below = TICK + TICK_GAP + ceil(TICK_EM) + room(&x_title, AXIS_TITLE_EM);
        let width = labels_right.max(legend_right) + MARGIN;
        let legend_bottom = panel.y as u64 + ROW as u64 * legend.len() as u64;
        let height = legend_bottom.max((bottom + below) as u64) + MARGIN as u64;
        check_sides(width as u64, height)?;
        let half_title = ceil(AXIS_TITLE_EM / 2.0);
        Ok(Self {
            width,
            height: height as i32,
            panel,
            x,
            y,
            x_ticks,
            y_ticks,
            title,
            x_title,
            y_title,
            title_y: panel.y - TITLE_GAP - ceil(TITLE_EM / 2.0),
            x_title_y: bottom + below - half_title,
            y_title_x: MARGIN + half_title,
            legend,
            legend_at,
        })
    }

    /// The place of a point: pixels from the left and from the top.
    pub(super) fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let right = self.x.position(x) * f64::from(self.panel.width);
        let down = (1.0 - self.y.position(y)) * f64::from(self.panel.height);
        // The middle of the pixel, as that of the axes and the grid.
        (
            f64::from(self.panel.x) + right + 0.5,
            f64::from(self.panel.y) + down + 0.5,
        )
    }

    /// The column of pixels of a number on the horizontal axis.
    pub(super) fn column(&self, x: f64) -> i32 {
        self.place((x, 0.0)).0.floor() as i32
    }

    /// The row of pixels of a number on the vertical axis.
    pub(super) fn row(&self, y: f64) -> i32 {
        self.place((0.0, y)).1.floor() as i32
    }
}

/// The points that have a place on both axes.
fn drawn(points: &[(f32, f32)]) -> impl Iterator<Item = (f32, f32)> {
    let points = points.iter().copied();
    points.filter(|(x, y)| x.is_finite() && y.is_finite())
}

/// As many ticks as there is room for their labels.
fn ticks_that_fit(scale: Scale, width: f64, face: &Face) -> Vec<(f64, String)> {
    let fit = |ticks: &[(f64, String)]| {
        ticks.windows(2).all(|two| {
            let apart = (scale.position(two[1].0) - scale.position(two[0].0)) * width;
            let labels = face.width(&two[0].1, TICK_EM) + face.width(&two[1].1, TICK_EM);
            apart >= labels / 2.0 + LABEL_GAP
        })
    };
    let fewer = (3..=TICKS).rev().map(|most| scale.ticks(most));
    let mut fewer = fewer.skip_while(|ticks| !fit(ticks));
    fewer.next().unwrap_or_default()
}

fn legend(plot: &LinePlot, face: &Face) -> Vec<(Sample, String)> {
    let series = plot.series.iter().enumerate();
    let series = series.map(|(at, series)| (Sample::Series(at), &series.name));
    let verticals = plot.verticals.iter();
    let verticals = verticals.map(|vertical| (Sample::Vertical, &vertical.name));
    series
        .chain(verticals)
        .filter(|(_, name)| !name.is_empty())
        .map(|(sample, name)| (sample, face.fit(name, NAME_EM, NAME_LIMIT)))
        .collect()
}
