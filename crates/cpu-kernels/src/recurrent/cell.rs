//! A step, for a vector of hidden units: the only part in which recurrent layers differ.

use crate::Real;
use crate::simd::{Sigmoid, Simd};

/// The number of values per unit and step that the backward pass needs: r, z, n and the hidden projection of n in a
/// GRU, i, f, g and o in an LSTM.
pub(super) const VALUES: usize = 4;

/// A recurrent cell with `G` gates, whose state has `N` vectors, the first of which is its output.
///
/// The gates have two addends, which the cell gets separately: the input projection and the hidden projection.
pub(crate) trait Cell<const G: usize, const N: usize>: Send + Sync {
    /// The next state, and the values for [`backward`](Self::backward).
    fn forward<E: Real, S: Simd<E>>(
        simd: S,
        inputs: [S::V; G],
        hidden: [S::V; G],
        state: [S::V; N],
    ) -> ([S::V; N], [S::V; VALUES]);

    /// The gradients of a step, from the gradient of the state after it; `states` are the states before and after it.
    fn backward<E: Real, S: Simd<E>>(
        simd: S,
        saved: [S::V; VALUES],
        states: [[S::V; N]; 2],
        gradient: [S::V; N],
    ) -> StepGradients<S::V, G, N>;
}

/// The gradients of a step.
pub(crate) struct StepGradients<V, const G: usize, const N: usize> {
    /// The gradients of the input projection of the gates.
    pub inputs: [V; G],
    /// The gradients of the hidden projection of the gates.
    pub hidden: [V; G],
    /// The gradients of the previous state, except the part through the gates.
    pub state: [V; N],
}

/// Gates r, z, n; see [`GruInputs`](super::GruInputs).
pub(crate) struct Gru;

impl Cell<3, 1> for Gru {
    #[inline(always)]
    fn forward<E: Real, S: Simd<E>>(
        simd: S,
        inputs: [S::V; 3],
        hidden: [S::V; 3],
        [state]: [S::V; 1],
    ) -> ([S::V; 1], [S::V; VALUES]) {
        let reset = simd.sigmoid(simd.add(inputs[0], hidden[0]));
        let update = Sigmoid::of(simd, simd.add(inputs[1], hidden[1]));
        let new = simd.tanh(simd.mul_add(reset, hidden[2], inputs[2]));
        let next = update.between(simd, new, state);
        ([next], [reset, update.value(simd), new, hidden[2]])
    }

    #[inline(always)]
    fn backward<E: Real, S: Simd<E>>(
        simd: S,
        [reset, update, new, hidden]: [S::V; VALUES],
        [[before], _]: [[S::V; 1]; 2],
        [gradient]: [S::V; 1],
    ) -> StepGradients<S::V, 3, 1> {
        let from_new = simd.mul(gradient, simd.sub(simd.splat(E::ONE), update));
        let d_new = simd.mul(from_new, tanh_slope(simd, new));
        let d_update = simd.mul(gradient, simd.sub(before, new));
        let d_update = simd.mul(d_update, sigmoid_slope(simd, update));
        let d_reset = simd.mul(simd.mul(d_new, hidden), sigmoid_slope(simd, reset));
        StepGradients {
            inputs: [d_reset, d_update, d_new],
            hidden: [d_reset, d_update, simd.mul(d_new, reset)],
            state: [simd.mul(gradient, update)],
        }
    }
}

/// Gates i, f, g, o and the states h, c; see [`LstmInputs`](super::LstmInputs).
pub(crate) struct Lstm;

impl Cell<4, 2> for Lstm {
    #[inline(always)]
    fn forward<E: Real, S: Simd<E>>(
        simd: S,
        inputs: [S::V; 4],
        hidden: [S::V; 4],
        [_, cell]: [S::V; 2],
    ) -> ([S::V; 2], [S::V; VALUES]) {
        let input = simd.sigmoid(simd.add(inputs[0], hidden[0]));
        let forget = simd.sigmoid(simd.add(inputs[1], hidden[1]));
        let new = simd.tanh(simd.add(inputs[2], hidden[2]));
        let output = simd.sigmoid(simd.add(inputs[3], hidden[3]));
        let cell = simd.mul_add(forget, cell, simd.mul(input, new));
        let next = simd.mul(output, simd.tanh(cell));
        ([next, cell], [input, forget, new, output])
    }

    #[inline(always)]
    fn backward<E: Real, S: Simd<E>>(
        simd: S,
        [input, forget, new, output]: [S::V; VALUES],
        [[_, before], [_, cell]]: [[S::V; 2]; 2],
        [gradient, cell_gradient]: [S::V; 2],
    ) -> StepGradients<S::V, 4, 2> {
        let tanh_of_cell = simd.tanh(cell);
        let d_output = simd.mul(gradient, tanh_of_cell);
        let through = simd.mul(simd.mul(gradient, output), tanh_slope(simd, tanh_of_cell));
        let d_cell = simd.add(cell_gradient, through);
        let gates = [
            simd.mul(simd.mul(d_cell, new), sigmoid_slope(simd, input)),
            simd.mul(simd.mul(d_cell, before), sigmoid_slope(simd, forget)),
            simd.mul(simd.mul(d_cell, input), tanh_slope(simd, new)),
            simd.mul(d_output, sigmoid_slope(simd, output)),
        ];
        StepGradients {
            inputs: gates,
            hidden: gates,
            state: [simd.zero(), simd.mul(d_cell, forget)],
        }
    }
}

/// `1 - y^2`, the slope of tanh where its value is `y`.
#[inline(always)]
fn tanh_slope<E: Real, S: Simd<E>>(simd: S, y: S::V) -> S::V {
    simd.neg_mul_add(y, y, simd.splat(E::ONE))
}

/// `y (1 - y)`, the slope of the sigmoid where its value is `y`. Near 1 the difference is exact, while `y - y^2` is
/// only so if an instruction set fuses it.
#[inline(always)]
fn sigmoid_slope<E: Real, S: Simd<E>>(simd: S, y: S::V) -> S::V {
    simd.mul(y, simd.sub(simd.splat(E::ONE), y))
}
