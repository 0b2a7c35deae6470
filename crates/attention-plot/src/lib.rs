//! Heatmaps of attention weights, which query looked at which key, and line plots of what is measured beside them.
//!
//! A [`Heatmap`] is one matrix `[queries, keys]`; a [`HeatmapGrid`] is the figure that *Dive into Deep Learning* draws
//! with `show_heatmaps`: `[rows, columns, queries, keys]`, for instance layers by heads, on one colour scale; a
//! [`LinePlot`] is its `plot`: series of points, as lines or discs, over two axes. All take plain `f32` values, so any
//! framework can feed them, and become
//!
//! | output | of | method |
//! | --- | --- | --- |
//! | a vector picture for papers and the web | all | `to_svg`, `save_svg` |
//! | a bitmap (text included; no system font is needed) | all | `to_png`, `save_png` |
//! | one HTML file that names each cell under the pointer | heatmaps | `to_html`, `save_html` |
//! | coloured text for a terminal or a log | heatmaps | `to_terminal` |
//!
//! `save` picks the format from the file's extension. A file is replaced whole or not at all.
//!
//! ```
//! use attention_plot::{Heatmap, TerminalColor};
//!
//! let weights = vec![
//!     0.9, 0.1, 0.0, //
//!     0.1, 0.2, 0.7,
//! ];
//! let heatmap = Heatmap::new(weights, [2, 3])?
//!     .with_title("Encoder-decoder attention")
//!     .with_query_labels(["il", "fait"])?
//!     .with_key_labels(["he", "is", "calm"])?;
//!
//! assert!(heatmap.to_svg()?.contains("Encoder-decoder attention"));
//! println!("{}", heatmap.to_terminal(TerminalColor::TrueColor));
//! heatmap.save(std::env::temp_dir().join("attention.png"))?;
//! # std::fs::remove_file(std::env::temp_dir().join("attention.png")).ok();
//! # Ok::<(), attention_plot::PlotError>(())
//! ```
//!
//! # Values that are not numbers
//!
//! Weights may be any `f32`. NaN and the infinities do not take part in the colour scale; their cells are drawn in grey
//! (and marked `??` in a terminal), so a broken softmax is seen instead of hidden. In a line plot they are gaps.
//!
//! # Text
//!
//! Bitmaps carry DejaVu Sans (Latin with all accents, Greek, Cyrillic, Arabic, symbols); characters that it lacks, such
//! as Chinese, become boxes there but are right in SVG, HTML and the terminal, where the viewer brings the font.
//! The typeface's own licence (Bitstream Vera, permissive) asks
//! that its notice go with programs that carry it. Control characters in labels are shown as signs: `\n` as `⏎`, `\t` as `⇥`, others as `�`.

mod canvas;
mod error;
mod file;
mod font;
mod heatmap;
mod lines;
mod measures;
mod raster;
mod scale;
mod svg;
mod text;
mod title;

pub use error::PlotError;
pub use file::write_file;
pub use heatmap::{ColorMap, Heatmap, HeatmapGrid, TerminalColor};
pub use lines::{LinePlot, SeriesStyle};
