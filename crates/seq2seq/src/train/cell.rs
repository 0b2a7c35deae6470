//! The name of a recurrent cell.

use burn_fused_layers::recurrent::CellKind;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The name of a recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cell {
    /// a gated recurrent unit
    Gru,
    /// a long short-term memory
    Lstm,
}

impl From<Cell> for CellKind {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Gru => Self::Gru,
            Cell::Lstm => Self::Lstm,
        }
    }
}

impl From<CellKind> for Cell {
    fn from(cell: CellKind) -> Self {
        match cell {
            CellKind::Gru => Self::Gru,
            CellKind::Lstm => Self::Lstm,
        }
    }
}
