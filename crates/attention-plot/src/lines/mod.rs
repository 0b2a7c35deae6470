//! Line plots: series of points over two axes.

mod draw;
mod layout;
mod plot;

pub use plot::{LinePlot, SeriesStyle};
