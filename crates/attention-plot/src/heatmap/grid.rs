//! A grid of weight matrices with its labels, and its output formats.

use std::path::Path;

use super::{
    TerminalColor,
    color::{ColorScale, range_of},
    draw, html, terminal,
};
use crate::{PlotError, text::visible};

/// The largest number of cells drawn as separate shapes: 3 MB of an SVG, 7 MB of an HTML file.
const MOST_SHAPES: usize = 40_000;

/// A grid of weight matrices with one colour scale: the figure of D2L's `show_heatmaps`.
///
/// Titles are above the first row, the queries' labels and axis title to the left of the first column, those of keys
/// below the last row. An axis title that does not fit beside one matrix is placed once, along all of them.
///
/// # Shapes
///
/// `weights`: `[rows, columns, queries, keys]`, row-major.
///
/// ```
/// use attention_plot::HeatmapGrid;
///
/// let [rows, columns, queries, keys] = [2, 2, 3, 4]; // layers, heads, queries, keys
/// let weights = vec![0.25; rows * columns * queries * keys];
/// let svg = HeatmapGrid::new(weights, [rows, columns, queries, keys])?
///     .with_titles(["Head 1", "Head 2"])?
///     .to_svg()?;
/// assert!(svg.starts_with("<svg"));
/// # Ok::<(), attention_plot::PlotError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapGrid {
    weights: Vec<f32>,
    shape: [usize; 4],
    pub(crate) titles: Vec<String>,
    /// Empty, or one for each query.
    pub(crate) query_labels: Vec<String>,
    /// Empty, or one for each key.
    pub(crate) key_labels: Vec<String>,
    pub(crate) x_title: String,
    pub(crate) y_title: String,
    range: Option<(f32, f32)>,
}

impl HeatmapGrid {
    /// A grid of `rows` by `columns` matrices, each of `queries` by `keys`, in row-major order.
    ///
    /// # Errors
    ///
    /// If a size is zero, or the number of weights is not the product of the sizes.
    pub fn new(weights: Vec<f32>, shape: [usize; 4]) -> Result<Self, PlotError> {
        check_shape(&weights, &shape)?;
        Ok(Self {
            weights,
            shape,
            titles: Vec::new(),
            query_labels: Vec::new(),
            key_labels: Vec::new(),
            x_title: "Keys".into(),
            y_title: "Queries".into(),
            range: None,
        })
    }

    /// One matrix of `queries` by `keys`, in row-major order: for instance one head over one sentence pair.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn single(weights: Vec<f32>, [queries, keys]: [usize; 2]) -> Result<Self, PlotError> {
        check_shape(&weights, &[queries, keys])?;
        Self::new(weights, [1, 1, queries, keys])
    }

    /// Sets the titles of the horizontal and the vertical axis; by default `Keys` and `Queries`. An empty title takes
    /// no room.
    #[must_use]
    pub fn with_axis_titles(mut self, x: impl Into<String>, y: impl Into<String>) -> Self {
        self.x_title = visible(x);
        self.y_title = visible(y);
        self
    }

    /// Sets a title for each column.
    ///
    /// # Errors
    ///
    /// If there are not as many titles as columns.
    pub fn with_titles<T: Into<String>>(
        mut self,
        titles: impl IntoIterator<Item = T>,
    ) -> Result<Self, PlotError> {
        self.titles = labels("columns", self.shape[1], titles)?;
        Ok(self)
    }

    /// Sets a label for each query, from top to bottom: usually the output tokens.
    ///
    /// # Errors
    ///
    /// If there are not as many labels as queries.
    pub fn with_query_labels<T: Into<String>>(
        mut self,
        tokens: impl IntoIterator<Item = T>,
    ) -> Result<Self, PlotError> {
        self.query_labels = labels("queries", self.shape[2], tokens)?;
        Ok(self)
    }

    /// Sets a label for each key, from left to right: usually the source tokens.
    ///
    /// # Errors
    ///
    /// If there are not as many labels as keys.
    pub fn with_key_labels<T: Into<String>>(
        mut self,
        tokens: impl IntoIterator<Item = T>,
    ) -> Result<Self, PlotError> {
        self.key_labels = labels("keys", self.shape[3], tokens)?;
        Ok(self)
    }

    /// Sets the weights at the two ends of the colour scale, so that figures can be compared. A weight beyond an end
    /// has the colour of that end. By default the ends are the smallest and the largest weight.
    ///
    /// # Errors
    ///
    /// If an end is not finite, or `low` is not below `high`.
    pub fn with_range(mut self, low: f32, high: f32) -> Result<Self, PlotError> {
        if !(low.is_finite() && high.is_finite() && low < high) {
            return Err(PlotError::Range { low, high });
        }
        self.range = Some((low, high));
        Ok(self)
    }

    /// `[rows, columns, queries, keys]`.
    #[must_use]
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// The first queries and keys of each matrix, in the colours of the whole: at most the given numbers, at least one.
    #[must_use]
    pub fn cropped(&self, [most_queries, most_keys]: [usize; 2]) -> Self {
        let [rows, columns, queries, keys] = self.shape;
        let kept_queries = most_queries.clamp(1, queries);
        let kept_keys = most_keys.clamp(1, keys);
        let matrices = self.weights.chunks(queries * keys);
        let kept_rows = matrices.flat_map(|matrix| matrix.chunks(keys).take(kept_queries));
        let weights = kept_rows.flat_map(|row| &row[..kept_keys]);
        let first = |labels: &[String], count| labels.iter().take(count).cloned().collect();
        Self {
            weights: weights.copied().collect(),
            shape: [rows, columns, kept_queries, kept_keys],
            titles: self.titles.clone(),
            query_labels: first(&self.query_labels, kept_queries),
            key_labels: first(&self.key_labels, kept_keys),
            x_title: self.x_title.clone(),
            y_title: self.y_title.clone(),
            range: Some(self.range()),
        }
    }

    /// The figure as SVG text.
    ///
    /// # Errors
    ///
    /// If the picture would be too large.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        draw::svg(self)
    }

    /// The figure as the bytes of a PNG file: the SVG at twice its resolution (at its own if it is very large).
    ///
    /// # Errors
    ///
    /// If the picture would be too large.
    pub fn to_png(&self) -> Result<Vec<u8>, PlotError> {
        draw::png(self)
    }

    /// The figure as one HTML page that needs no other file. Pointing at a cell shows its query, key and weight; in a
    /// figure of more than 40,000 weights, pointing at a row shows its query, and key and weight of its largest cell.
    ///
    /// # Errors
    ///
    /// If the picture would be too large.
    pub fn to_html(&self) -> Result<String, PlotError> {
        html::page(self)
    }

    /// The figure as text: each cell two columns wide, the keys' labels running down above it.
    #[must_use]
    pub fn to_terminal(&self, color: TerminalColor) -> String {
        terminal::text(self, color)
    }

    /// The bytes of a file with this name, in the format of its extension: `.svg`, `.png`, `.html` or `.htm`, in any
    /// case.
    ///
    /// # Errors
    ///
    /// If the extension is unknown, or the picture would be too large.
    pub fn to_file(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, PlotError> {
        let path = path.as_ref();
        let extension = path.extension().unwrap_or_default();
        match extension.to_string_lossy().to_lowercase().as_str() {
            "svg" => self.to_svg().map(String::into_bytes),
            "png" => self.to_png(),
            "html" | "htm" => self.to_html().map(String::into_bytes),
            _ => Err(PlotError::UnsupportedFormat {
                path: path.into(),
                supported: ".svg, .png, .html or .htm",
            }),
        }
    }

    /// The weights `[queries, keys]` of one matrix.
    pub(crate) fn panel(&self, row: usize, column: usize) -> &[f32] {
        let [_, columns, queries, keys] = self.shape;
        let size = queries * keys;
        &self.weights[(row * columns + column) * size..][..size]
    }

    /// Whether the cells of a panel are drawn as one image.
    pub(crate) fn is_large(&self) -> bool {
        self.weights.len() > MOST_SHAPES
    }

    pub(crate) fn scale(&self) -> ColorScale {
        ColorScale::new(self.range())
    }

    /// The weights at the two ends of the colour scale.
    fn range(&self) -> (f32, f32) {
        self.range.unwrap_or_else(|| range_of(&self.weights))
    }
}

/// Checks the last axes of `[rows, columns, queries, keys]` against the number of weights.
pub(crate) fn check_shape(weights: &[f32], shape: &[usize]) -> Result<(), PlotError> {
    const AXES: [&str; 4] = ["rows", "columns", "queries", "keys"];
    let axes = &AXES[AXES.len() - shape.len()..];
    if let Some((_, axis)) = shape.iter().zip(axes).find(|(size, _)| **size == 0) {
        let shape = shape.to_vec();
        return Err(PlotError::EmptyAxis { axis, shape });
    }
    // A product that overflows certainly differs from the number of weights, which are in memory.
    let sizes = shape.iter();
    let expected = sizes.fold(1_usize, |product, size| product.saturating_mul(*size));
    if expected != weights.len() {
        return Err(PlotError::Shape {
            shape: shape.to_vec(),
            expected,
            found: weights.len(),
        });
    }
    Ok(())
}

/// The labels of an axis; the indices of the entries if there are none.
pub(crate) fn names(labels: &[String], count: usize) -> Vec<String> {
    if labels.is_empty() {
        (0..count).map(|index| index.to_string()).collect()
    } else {
        labels.to_vec()
    }
}

fn labels<T: Into<String>>(
    axis: &'static str,
    expected: usize,
    labels: impl IntoIterator<Item = T>,
) -> Result<Vec<String>, PlotError> {
    let labels: Vec<_> = labels.into_iter().map(|label| visible(label)).collect();
    if labels.len() != expected {
        return Err(PlotError::Labels {
            axis,
            expected,
            found: labels.len(),
        });
    }
    Ok(labels)
}
