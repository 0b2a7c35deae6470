//! Figures, in files and in the terminal.

#![allow(clippy::unwrap_used)] // A test stops where its data is not as it should be.

mod axes;
mod files;
mod many_cells;
mod pictures;
mod support;
mod terminal;
