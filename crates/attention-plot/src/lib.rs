//! Heatmaps of attention weights.
//!
//! A [`HeatmapGrid`] shows one matrix `[queries, keys]`, or several with one colour scale, `[rows, columns, queries,
//! keys]`, for instance layers by heads: the figure that *Dive into Deep Learning* (D2L) draws with `show_heatmaps`. It
//! takes plain `f32` values, from any framework, and can be output as
//!
//! | output | method |
//! | --- | --- |
//! | a vector picture for papers and the web | `to_svg` |
//! | a bitmap: the same picture, rasterised | `to_png` |
//! | one HTML file that describes each cell under the pointer | `to_html` |
//! | coloured text for a terminal or a log | `to_terminal` |
//! | the bytes of a file, in the format of its name | `to_file` |
//!
//! ```
//! use attention_plot::{HeatmapGrid, TerminalColor};
//!
//! let weights = vec![
//!     0.9, 0.1, 0.0, //
//!     0.1, 0.2, 0.7,
//! ];
//! let heatmap = HeatmapGrid::single(weights, [2, 3])?
//!     .with_titles(["Encoder-decoder attention"])?
//!     .with_query_labels(["il", "fait"])?
//!     .with_key_labels(["he", "is", "calm"])?;
//!
//! assert!(heatmap.to_svg()?.contains("Encoder-decoder attention"));
//! println!("{}", heatmap.to_terminal(TerminalColor::TrueColor));
//! let png = heatmap.to_file("attention.png")?; // for std::fs::write
//! assert!(png.starts_with(b"\x89PNG"));
//! # Ok::<(), attention_plot::PlotError>(())
//! ```
//!
//! # Values that are not finite
//!
//! Weights may be any `f32`. The colour scale ignores NaN and infinities; their cells are grey, and marked `??` in a
//! terminal, so that a broken softmax is visible.
//!
//! # Text
//!
//! Bitmaps need no system font: DejaVu Sans is built in, with all Latin accents, Greek, Cyrillic, Arabic and symbols. A
//! character that it lacks, such as a Chinese one, becomes a box in a bitmap ([`missing_in_bitmaps`] counts them); SVG,
//! HTML and the terminal use the viewer's fonts. A bitmap places letters one by one from left to right, so Arabic is
//! not joined. A program that contains this crate contains the typeface, whose licence requires its notice to be
//! distributed, too: `LICENSE-DEJAVU` in this crate's folder.
//!
//! An axis title is never longer than its axis: it is shrunk slightly, or cut with an ellipsis. Control characters,
//! including those that turn the direction of text, are shown as signs: `\n` as `⏎`, `\t` as `⇥`, others as `�`.
//!
//! # Many weights
//!
//! Beyond 40,000 weights the cells of a figure are images in 255 shades: an SVG or HTML file then has a few bytes per
//! weight instead of hundreds, and HTML describes a row under the pointer by its query and its largest weight.

mod canvas;
mod error;
mod font;
mod heatmap;
mod measures;
mod raster;
mod scale;
mod svg;
mod text;

pub use error::PlotError;
pub use font::missing_in_bitmaps;
pub use heatmap::{HeatmapGrid, TerminalColor};
pub use text::is_control;
