//! A line plot with its series, and the formats it can take.

use std::path::Path;

use super::{draw::LineFigure, layout::Layout};
use crate::{
    PlotError,
    font::Face,
    raster,
    save::{self, Format},
    svg,
    text::visible,
};

/// How the points of a series of a [`LinePlot`] are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeriesStyle {
    /// A line from each point to the next, in the order in which they came; a disc where a point has no neighbour.
    Line,
    /// A disc at each point.
    Points,
    /// A line, and a disc at each point.
    LineAndPoints,
    /// A dashed line, which lets a line below it show through.
    Dashes,
}

/// Lines and points over two axes: losses during training, accuracies by length, a regression with its data.
///
/// Each axis reaches a little beyond the smallest and the largest value of all points. A point with a NaN or an
/// infinity is not drawn, and the line has a gap there. Each series has a colour of its own. The legend, right of the
/// plot, names the series that have a name.
///
/// ```
/// use attention_plot::{LinePlot, SeriesStyle};
///
/// let lengths = [8.0, 16.0, 32.0, 64.0];
/// let svg = LinePlot::new()
///     .with_title("Letters copied right")
///     .with_axis_titles("length", "%")
///     .with_series("additive", SeriesStyle::LineAndPoints, lengths, [99.6, 91.1, 60.5, 35.6])?
///     .with_series("monotonic", SeriesStyle::LineAndPoints, lengths, [100.0; 4])?
///     .with_vertical_line("longest in training", 16.0)?
///     .with_y_reaching(0.0)?
///     .to_svg()?;
/// assert!(svg.contains("monotonic"));
/// # Ok::<(), attention_plot::PlotError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinePlot {
    pub(super) title: String,
    pub(super) x_title: String,
    pub(super) y_title: String,
    pub(super) series: Vec<Series>,
    pub(super) verticals: Vec<Vertical>,
    /// Places that the vertical axis must reach.
    pub(super) reaching: Vec<f32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) style: SeriesStyle,
    pub(super) points: Vec<(f32, f32)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Vertical {
    pub(super) name: String,
    pub(super) x: f32,
}

impl LinePlot {
    /// A plot without series, titles and lines.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the title above the plot.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = visible(title);
        self
    }

    /// Sets the titles of the horizontal and the vertical axis; none by default. An empty title takes no room.
    #[must_use]
    pub fn with_axis_titles(mut self, x: impl Into<String>, y: impl Into<String>) -> Self {
        self.x_title = visible(x);
        self.y_title = visible(y);
        self
    }

    /// Adds a series, drawn over those before it. Without a name it is not in the legend.
    ///
    /// # Shapes
    ///
    /// `x`, `y`: `[points]`.
    ///
    /// # Errors
    ///
    /// If there are more or fewer `x` than `y`, or none.
    pub fn with_series(
        mut self,
        name: impl Into<String>,
        style: SeriesStyle,
        x: impl IntoIterator<Item = f32>,
        y: impl IntoIterator<Item = f32>,
    ) -> Result<Self, PlotError> {
        let name = visible(name);
        let (x, y): (Vec<_>, Vec<_>) = (x.into_iter().collect(), y.into_iter().collect());
        if x.is_empty() || x.len() != y.len() {
            return Err(PlotError::Series {
                series: format!("series {} ({name:?})", self.series.len() + 1),
                x: x.len(),
                y: y.len(),
            });
        }
        self.series.push(Series {
            name,
            style,
            points: x.into_iter().zip(y).collect(),
        });
        Ok(self)
    }

    /// Adds a dashed line from the bottom to the top, and makes the horizontal axis reach it. Without a name it is not
    /// in the legend.
    ///
    /// # Errors
    ///
    /// If `x` is not finite.
    pub fn with_vertical_line(
        mut self,
        name: impl Into<String>,
        x: f32,
    ) -> Result<Self, PlotError> {
        let name = visible(name);
        finite(x, || format!("the vertical line {name:?}"))?;
        self.verticals.push(Vertical { name, x });
        Ok(self)
    }

    /// Makes the vertical axis reach `y`, whether a point does or not: 0, for instance, or the loss of a guess. Called
    /// for both ends, it gives several plots the same axis, so that they can be compared.
    ///
    /// # Errors
    ///
    /// If `y` is not finite.
    pub fn with_y_reaching(mut self, y: f32) -> Result<Self, PlotError> {
        finite(y, || "an end of the vertical axis".into())?;
        self.reaching.push(y);
        Ok(self)
    }

    /// The plot as SVG text.
    ///
    /// # Errors
    ///
    /// If there is no series, or the picture would be too large for so many.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        let layout = &Layout::new(self, &Face::load("SVG")?)?;
        Ok(svg::svg(&LineFigure { plot: self, layout }))
    }

    /// The plot as the bytes of a PNG file: the SVG at two pixels for each of its own (one if it is very large).
    ///
    /// # Errors
    ///
    /// If there is no series, or the picture would be too large for so many.
    pub fn to_png(&self) -> Result<Vec<u8>, PlotError> {
        let face = Face::load("PNG")?;
        let layout = &Layout::new(self, &face)?;
        raster::png(&LineFigure { plot: self, layout }, &face)
    }

    /// Saves [`to_svg`](Self::to_svg).
    ///
    /// # Errors
    ///
    /// If there is no series, the picture would be too large or the file cannot be written.
    pub fn save_svg(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        save::save(path.as_ref(), self.to_svg()?.as_bytes())
    }

    /// Saves [`to_png`](Self::to_png).
    ///
    /// # Errors
    ///
    /// If there is no series, the picture would be too large or the file cannot be written.
    pub fn save_png(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        save::save(path.as_ref(), &self.to_png()?)
    }

    /// Saves the plot in the format of the path's extension: `.svg` or `.png`, in any case.
    ///
    /// # Errors
    ///
    /// If the extension is another one, there is no series, the picture would be too large or the file cannot be
    /// written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        let path = path.as_ref();
        match Format::of(path) {
            Some(Format::Svg) => self.save_svg(path),
            Some(Format::Png) => self.save_png(path),
            Some(Format::Html) | None => Err(PlotError::UnsupportedFormat {
                path: path.into(),
                supported: ".svg or .png",
            }),
        }
    }
}

fn finite(place: f32, what: impl Fn() -> String) -> Result<(), PlotError> {
    if place.is_finite() {
        Ok(())
    } else {
        Err(PlotError::Place {
            what: what(),
            found: place,
        })
    }
}
