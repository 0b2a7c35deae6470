//! Curves of measurements as SVG, by plotters.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::prelude::*;

const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

/// One for each series; then they begin anew.
const COLORS: [RGBColor; 8] = [
    RGBColor(78, 121, 167),
    RGBColor(242, 142, 43),
    RGBColor(225, 87, 89),
    RGBColor(118, 183, 178),
    RGBColor(89, 161, 79),
    RGBColor(176, 122, 161),
    RGBColor(156, 117, 95),
    RGBColor(121, 112, 110),
];

/// How the points of a series are drawn.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Line,
    /// A disc at each point.
    Points,
}

/// Curves over two axes, with a legend.
pub(crate) struct Curves {
    pub(crate) title: String,
    /// The titles of the axes.
    pub(crate) axes: [&'static str; 2],
    pub(crate) series: Vec<Series>,
    /// Places that the vertical axis reaches, whether a point does or not.
    pub(crate) reaching: Vec<f32>,
}

/// Points in the order in which they are drawn, and their name in the legend.
pub(crate) struct Series {
    name: String,
    style: Style,
    points: Vec<(f32, f32)>,
}

impl Series {
    /// # Shapes
    /// `x`, `y`: `[points]`.
    pub(crate) fn new(
        name: impl Into<String>,
        style: Style,
        x: impl IntoIterator<Item = f32>,
        y: impl IntoIterator<Item = f32>,
    ) -> Self {
        Self {
            name: name.into(),
            style,
            points: x.into_iter().zip(y).collect(),
        }
    }
}

impl Curves {
    /// Writes the picture.
    pub(crate) fn save(&self, file: &Path) -> Result<(), Box<dyn Error>> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = range(points().map(|point| point.0));
        let y = range(
            points()
                .map(|point| point.1)
                .chain(self.reaching.iter().copied()),
        );
        let picture = SVGBackend::new(file, (750, 400)).into_drawing_area();
        picture.fill(&WHITE)?;
        let (area, legend) = picture.split_horizontally(540);
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, (FONT, 18))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(56)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.axes[0])
            .y_desc(self.axes[1])
            .label_style((FONT, 15))
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let (disc, line) = (color.filled(), color.stroke_width(2));
            let row = 46 + 20 * index as i32;
            legend.draw(&Text::new(series.name.as_str(), (32, row - 6), (FONT, 15)))?;
            let points = series.points.iter().copied();
            match series.style {
                Style::Line => {
                    chart.draw_series(LineSeries::new(points, line))?;
                    legend.draw(&PathElement::new([(0, row), (26, row)], line))?;
                }
                Style::Points => {
                    chart.draw_series(points.map(|point| Circle::new(point, 3, disc)))?;
                    legend.draw(&Circle::new((13, row), 3, disc))?;
                }
            }
        }
        picture.present()?;
        Ok(())
    }
}

/// A little more than all values.
fn range(values: impl Iterator<Item = f32>) -> Range<f32> {
    let ends = (f32::INFINITY, f32::NEG_INFINITY);
    let (low, high) = values.fold(ends, |(low, high), value| (low.min(value), high.max(value)));
    let margin = 0.03 * (high - low);
    low - margin..high + margin
}
