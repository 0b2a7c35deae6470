//! Heatmaps: one matrix or a grid of them, and the formats they can take.

mod axis;
mod color;
mod draw;
mod grid;
mod html;
mod layout;
mod panels;
mod single;
mod terminal;

pub use color::ColorMap;
pub use grid::HeatmapGrid;
pub use single::Heatmap;
pub use terminal::TerminalColor;
