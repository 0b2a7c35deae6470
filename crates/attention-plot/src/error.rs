//! Errors, with messages that say what to change.

use std::{error::Error, path::PathBuf};

/// The reason why a figure could not be made or drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// The shape and the number of weights disagree.
    #[error("weights of shape {shape:?} need {expected} values, but {found} came")]
    Shape {
        /// The given shape.
        shape: Vec<usize>,
        /// The product of the shape.
        expected: usize,
        /// The number of weights given.
        found: usize,
    },

    /// An axis has no entries.
    #[error("weights of shape {shape:?} have no {axis}; every axis needs at least one entry")]
    EmptyAxis {
        /// The axis of size zero: `rows`, `columns`, `queries` or `keys`.
        axis: &'static str,
        /// The given shape.
        shape: Vec<usize>,
    },

    /// There are more or fewer labels than the axis has entries.
    #[error("{axis} labels: {expected} are needed, one for each of the {axis}, but {found} came")]
    Labels {
        /// The labelled axis: `columns`, `queries` or `keys`.
        axis: &'static str,
        /// The size of the axis.
        expected: usize,
        /// The number of labels given.
        found: usize,
    },

    /// The colour range is empty or not finite.
    #[error("a colour range needs finite ends, the lower one first, but {low} to {high} came")]
    Range {
        /// The given lower end.
        low: f32,
        /// The given upper end.
        high: f32,
    },

    /// The picture would be larger than viewers can show.
    #[error(
        "the picture would be {width} x {height} pixels, but {limit}; plot fewer panels, queries or keys"
    )]
    TooLarge {
        /// The width of the picture in pixels.
        width: u64,
        /// The height of the picture in pixels.
        height: u64,
        /// The limit, in words.
        limit: &'static str,
    },

    /// The file name does not tell a supported format.
    #[error("{} does not end in a supported format: use {supported}", path.display())]
    UnsupportedFormat {
        /// The given path.
        path: PathBuf,
        /// The extensions of the figure's formats, in words.
        supported: &'static str,
    },

    /// A drawing library failed: a bug here or in the library, not in the caller's data.
    #[error("drawing the {format} failed: {source}")]
    Drawing {
        /// The format that was being made.
        format: &'static str,
        /// The library's reason.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl PlotError {
    pub(crate) fn drawing(
        format: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        Self::Drawing { format, source }
    }
}
