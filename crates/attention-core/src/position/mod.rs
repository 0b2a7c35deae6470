//! Positions: biases that depend on the distance of a key from a query, and rotations. They wrap any scoring function.
//!
//! [`Attention`](crate::Attention) counts positions as [`Mask::causal`](crate::Mask::causal) does: key `j` stands at
//! `j`, query `i` at `i + keys - queries`, so that the last query stands at the last key. [`Positions`] gives the
//! positions of the rows that a score projects.

mod alibi;
mod bias;
mod positions;
mod relative;
mod rotary;

pub use crate::ops::RotaryLayout;
pub use alibi::{Alibi, AlibiConfig};
pub use bias::PositionBias;
pub use positions::Positions;
pub use relative::{RelativePositionBias, RelativePositionBiasConfig};
pub use rotary::{Llama3ScalingConfig, Rotary, RotaryConfig, RotaryScaling, YarnScalingConfig};
