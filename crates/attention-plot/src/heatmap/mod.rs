//! Heatmaps: one matrix or a grid of them, and their output formats.

mod axis;
mod color;
mod draw;
mod grid;
mod html;
mod layout;
mod panels;
mod terminal;

pub use grid::HeatmapGrid;
pub use terminal::TerminalColor;
