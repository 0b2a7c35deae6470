//! A heatmap of one matrix: a grid of one panel.

use std::path::Path;

use super::{ColorMap, HeatmapGrid, TerminalColor, grid::check_shape};
use crate::{PlotError, text::visible};

/// One matrix of attention weights, for instance one head over one sentence pair.
///
/// # Shapes
///
/// `weights`: `[queries, keys]`, row-major.
///
/// ```
/// use attention_plot::{Heatmap, TerminalColor};
///
/// let heatmap = Heatmap::new(vec![1.0, 0.0, 0.25, 0.75], [2, 2])?
///     .with_query_labels(["go", "."])?
///     .with_key_labels(["va", "!"])?;
/// let text = heatmap.to_terminal(TerminalColor::None);
/// assert!(text.contains("go ██  "));
/// # Ok::<(), attention_plot::PlotError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Heatmap(HeatmapGrid);

impl Heatmap {
    /// A matrix of `queries` by `keys`, in row-major order.
    ///
    /// # Errors
    ///
    /// If a size is zero, or the product of the sizes is not the number of weights.
    pub fn new(weights: Vec<f32>, [queries, keys]: [usize; 2]) -> Result<Self, PlotError> {
        check_shape(&weights, &[queries, keys])?;
        HeatmapGrid::new(weights, [1, 1, queries, keys]).map(Self)
    }

    /// Sets the title above the matrix.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.0.titles = vec![visible(title)];
        self
    }

    /// See [`HeatmapGrid::with_axis_titles`].
    #[must_use]
    pub fn with_axis_titles(self, x: impl Into<String>, y: impl Into<String>) -> Self {
        Self(self.0.with_axis_titles(x, y))
    }

    /// See [`HeatmapGrid::with_query_labels`].
    ///
    /// # Errors
    ///
    /// If there are more or fewer labels than queries.
    pub fn with_query_labels<T: Into<String>>(
        self,
        tokens: impl IntoIterator<Item = T>,
    ) -> Result<Self, PlotError> {
        self.0.with_query_labels(tokens).map(Self)
    }

    /// See [`HeatmapGrid::with_key_labels`].
    ///
    /// # Errors
    ///
    /// If there are more or fewer labels than keys.
    pub fn with_key_labels<T: Into<String>>(
        self,
        tokens: impl IntoIterator<Item = T>,
    ) -> Result<Self, PlotError> {
        self.0.with_key_labels(tokens).map(Self)
    }

    /// See [`HeatmapGrid::with_color_map`].
    #[must_use]
    pub fn with_color_map(self, color_map: ColorMap) -> Self {
        Self(self.0.with_color_map(color_map))
    }

    /// See [`HeatmapGrid::with_range`].
    ///
    /// # Errors
    ///
    /// If an end is not finite, or `low` is not below `high`.
    pub fn with_range(self, low: f32, high: f32) -> Result<Self, PlotError> {
        self.0.with_range(low, high).map(Self)
    }

    /// `[queries, keys]`.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        let [_, _, queries, keys] = self.0.shape();
        [queries, keys]
    }

    /// See [`HeatmapGrid::cropped`].
    #[must_use]
    pub fn cropped(&self, most: [usize; 2]) -> Self {
        Self(self.0.cropped(most))
    }

    /// See [`HeatmapGrid::to_svg`].
    ///
    /// # Errors
    ///
    /// If the picture would be too large.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        self.0.to_svg()
    }

    /// See [`HeatmapGrid::to_png`].
    ///
    /// # Errors
    ///
    /// If the picture would be too large.
    pub fn to_png(&self) -> Result<Vec<u8>, PlotError> {
        self.0.to_png()
    }

    /// See [`HeatmapGrid::to_html`].
    ///
    /// # Errors
    ///
    /// If the picture would be too large.
    pub fn to_html(&self) -> Result<String, PlotError> {
        self.0.to_html()
    }

    /// See [`HeatmapGrid::to_terminal`].
    #[must_use]
    pub fn to_terminal(&self, color: TerminalColor) -> String {
        self.0.to_terminal(color)
    }

    /// See [`HeatmapGrid::save_svg`].
    ///
    /// # Errors
    ///
    /// If the picture would be too large or the file cannot be written.
    pub fn save_svg(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        self.0.save_svg(path)
    }

    /// See [`HeatmapGrid::save_png`].
    ///
    /// # Errors
    ///
    /// If the picture would be too large or the file cannot be written.
    pub fn save_png(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        self.0.save_png(path)
    }

    /// See [`HeatmapGrid::save_html`].
    ///
    /// # Errors
    ///
    /// If the picture would be too large or the file cannot be written.
    pub fn save_html(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        self.0.save_html(path)
    }

    /// See [`HeatmapGrid::save`].
    ///
    /// # Errors
    ///
    /// If the extension is not supported, the picture would be too large or the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), PlotError> {
        self.0.save(path)
    }
}

/// A heatmap is a grid of one panel.
impl From<Heatmap> for HeatmapGrid {
    fn from(heatmap: Heatmap) -> Self {
        heatmap.0
    }
}
