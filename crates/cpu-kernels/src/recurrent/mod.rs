//! Recurrent layers over whole sequences.
//!
//! The examples of a batch share only the weights, so a task takes some of them through all steps without waiting for
//! others. The weights are packed once for all steps; a step is their product with the previous outputs, and the cell
//! applied to it. The gradients of the weights are one product at the end, over all steps.
//!
//! In names, `gates` are the input projection of the gates, `W_i x + b_i`, and `hidden` is the hidden projection,
//! `W_h h + b_h`.

mod backward;
mod cell;
mod forward;
mod gates;
mod inputs;
mod layer;
mod parts;
mod passes;
mod vectors;

pub(crate) use cell::{Gru, Lstm};
pub(crate) use gates::Gates;
pub use inputs::{GruInputs, LstmInputs, RecurrentGradients, RecurrentInputs, RecurrentOutputs};
pub(crate) use passes::{backward, forward};

use crate::{LayerReal, Level};
use cell::VALUES;

macro_rules! layer {
    ($gates:literal, $states:literal, $forward:ident, $backward:ident) => {
        impl<E: LayerReal> RecurrentInputs<'_, E, $gates, $states> {
            /// The number of values per step and unit that the backward pass needs besides the gates: a GRU's hidden
            /// projection of n.
            pub const SAVED: usize = VALUES - $gates;

            /// Writes the states after each step, from the input projection of the gates; after the last step of an
            /// example, its state does not change.
            ///
            /// Steps past an example's length are not read. The number of threads changes no bit of the result.
            ///
            /// # Shapes
            /// - gates `[batch, steps, G * hidden_size]`
            /// - states `[N, batch, steps, hidden_size]`
            ///
            /// # Panics
            /// If the shapes do not fit together.
            pub fn forward(&self, level: Level, gates: &[E], states: &mut [E]) {
                E::$forward(self, level, Gates::Read(gates), states);
            }

            /// As [`forward`](Self::forward), and saves for the backward pass: the gates' values, in the place of their
            /// input projection, and `saved`. In both, steps past an example's length are neither written nor read.
            ///
            /// # Shapes
            /// - gates `[batch, steps, G * hidden_size]`
            /// - saved `[batch, steps, SAVED * hidden_size]`
            /// - states `[N, batch, steps, hidden_size]`
            ///
            /// # Panics
            /// If the shapes do not fit together.
            pub fn forward_saving(
                &self,
                level: Level,
                gates: &mut [E],
                saved: &mut [E],
                states: &mut [E],
            ) {
                E::$forward(self, level, Gates::Replaced { gates, saved }, states);
            }

            /// Writes the requested gradients, from the gradients of the states; `outputs` and the gates have what
            /// [`forward_saving`](Self::forward_saving) wrote for the same inputs. If the weights are finite, the
            /// number of threads and the choice of gradients change no bit.
            ///
            /// # Panics
            /// If the shapes do not fit together.
            pub fn backward(
                &self,
                level: Level,
                outputs: &RecurrentOutputs<E, $states>,
                gradients: RecurrentGradients<E>,
            ) {
                E::$backward(self, level, outputs, gradients);
            }
        }
    };
}

layer!(3, 1, gru_forward, gru_backward);
layer!(4, 2, lstm_forward, lstm_backward);
