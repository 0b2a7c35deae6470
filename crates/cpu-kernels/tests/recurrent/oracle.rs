//! Recurrent layers in plain loops, by the formulas of their documentation and the chain rule.

use cpu_kernels::LayerReal;

use crate::case::{Case, Inputs, Kind, Results};

/// A unit's step: the gates' two projections, and the states before and after.
struct Step<E> {
    inputs: Vec<E>,
    hidden: Vec<E>,
    before: Vec<E>,
    after: Vec<E>,
}

/// In the arithmetic of `E`.
pub(crate) fn plain<E: LayerReal>(case: &Case, inputs: &Inputs<E>) -> Results<E> {
    let Case {
        kind,
        batch,
        steps,
        hidden_size: size,
        ..
    } = *case;
    let (gates, count) = (kind.gates(), kind.states());
    let mut r = Results {
        states: vec![E::ZERO; count * batch * steps * size],
        gates: vec![E::ZERO; inputs.gates.len()],
        hidden_weight: vec![E::ZERO; inputs.hidden_weight.len()],
        hidden_bias: vec![E::ZERO; inputs.hidden_bias.len()],
        initial: vec![E::ZERO; inputs.initial.len()],
    };
    for b in 0..batch {
        let order: Vec<usize> = match case.is_reversed {
            false => (0..steps).collect(),
            true => (0..steps).rev().collect(),
        };
        let at = |n: usize, t: usize, u: usize| ((n * batch + b) * steps + t) * size + u;
        let mut state: Vec<Vec<E>> = (0..count)
            .map(|n| inputs.initial[(n * batch + b) * size..][..size].to_vec())
            .collect();
        let mut tape: Vec<Option<Vec<Step<E>>>> = Vec::new();
        for &t in &order {
            let is_active = t < case.len(b);
            let units = is_active.then(|| {
                let units = (0..size).map(|u| {
                    let input = |g: usize| inputs.gates[((b * steps + t) * gates + g) * size + u];
                    let hidden = |g: usize| {
                        let column = g * size + u;
                        let products = (0..size)
                            .map(|k| state[0][k] * inputs.hidden_weight[k * gates * size + column]);
                        products.sum::<E>() + inputs.hidden_bias[column]
                    };
                    let (inputs, hidden): (Vec<E>, Vec<E>) =
                        (0..gates).map(|g| (input(g), hidden(g))).unzip();
                    let before: Vec<E> = state.iter().map(|state| state[u]).collect();
                    let after = next(kind, &inputs, &hidden, &before);
                    Step {
                        inputs,
                        hidden,
                        before,
                        after,
                    }
                });
                units.collect::<Vec<_>>()
            });
            for (n, state) in state.iter_mut().enumerate() {
                for (u, state) in state.iter_mut().enumerate() {
                    if let Some(units) = &units {
                        *state = units[u].after[n];
                    }
                    r.states[at(n, t, u)] = *state;
                }
            }
            tape.push(units);
        }
        let mut gradient = vec![vec![E::ZERO; size]; count];
        for (&t, units) in order.iter().zip(&tape).rev() {
            for (n, gradient) in gradient.iter_mut().enumerate() {
                for (u, gradient) in gradient.iter_mut().enumerate() {
                    *gradient += inputs.gradient[at(n, t, u)];
                }
            }
            let Some(units) = units else { continue };
            let mut before = vec![vec![E::ZERO; size]; count];
            for (u, step) in units.iter().enumerate() {
                let of_unit: Vec<E> = gradient.iter().map(|gradient| gradient[u]).collect();
                let (d_inputs, d_hidden, d_before) = gradients(kind, step, &of_unit);
                for (to, from) in before.iter_mut().zip(d_before) {
                    to[u] += from;
                }
                for g in 0..gates {
                    let column = g * size + u;
                    r.gates[((b * steps + t) * gates + g) * size + u] = d_inputs[g];
                    r.hidden_bias[column] += d_hidden[g];
                    for (k, other) in units.iter().enumerate() {
                        let weight = k * gates * size + column;
                        before[0][k] += d_hidden[g] * inputs.hidden_weight[weight];
                        r.hidden_weight[weight] += d_hidden[g] * other.before[0];
                    }
                }
            }
            gradient = before;
        }
        for (n, gradient) in gradient.into_iter().enumerate() {
            r.initial[(n * batch + b) * size..][..size].copy_from_slice(&gradient);
        }
    }
    r
}

fn sigmoid<E: LayerReal>(x: E) -> E {
    E::ONE / (E::ONE + (-x).exp())
}

fn next<E: LayerReal>(kind: Kind, inputs: &[E], hidden: &[E], before: &[E]) -> Vec<E> {
    match kind {
        Kind::Gru => {
            let r = sigmoid(inputs[0] + hidden[0]);
            let z = sigmoid(inputs[1] + hidden[1]);
            let n = (inputs[2] + r * hidden[2]).tanh();
            vec![(E::ONE - z) * n + z * before[0]]
        }
        Kind::Lstm => {
            let [i, f, o] = [0, 1, 3].map(|g| sigmoid(inputs[g] + hidden[g]));
            let g = (inputs[2] + hidden[2]).tanh();
            let c = f * before[1] + i * g;
            vec![o * c.tanh(), c]
        }
    }
}

/// Gradients of the gates' two projections, and of the state before as far as it is not read by the gates.
fn gradients<E: LayerReal>(kind: Kind, step: &Step<E>, above: &[E]) -> (Vec<E>, Vec<E>, Vec<E>) {
    let Step {
        inputs,
        hidden,
        before,
        after,
    } = step;
    let one = E::ONE;
    match kind {
        Kind::Gru => {
            let r = sigmoid(inputs[0] + hidden[0]);
            let z = sigmoid(inputs[1] + hidden[1]);
            let n = (inputs[2] + r * hidden[2]).tanh();
            let dn = above[0] * (one - z) * (one - n * n);
            let dz = above[0] * (before[0] - n) * z * (one - z);
            let dr = dn * hidden[2] * r * (one - r);
            (vec![dr, dz, dn], vec![dr, dz, dn * r], vec![above[0] * z])
        }
        Kind::Lstm => {
            let [i, f, o] = [0, 1, 3].map(|g| sigmoid(inputs[g] + hidden[g]));
            let g = (inputs[2] + hidden[2]).tanh();
            let c = after[1].tanh();
            let dc = above[1] + above[0] * o * (one - c * c);
            let gates = vec![
                dc * g * i * (one - i),
                dc * before[1] * f * (one - f),
                dc * i * (one - g * g),
                above[0] * c * o * (one - o),
            ];
            (gates.clone(), gates, vec![E::ZERO, dc * f])
        }
    }
}

/// The precision policy: the error is at most twice (gradients: three times) that of the plain loops in the same
/// arithmetic, with a floor relative to the magnitude.
pub(crate) fn assert_precise<E: LayerReal>(case: &Case, got: &Results<E>, inputs: &Inputs<E>) {
    let widen = |elements: &[E]| elements.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let wide = Inputs {
        gates: widen(&inputs.gates),
        hidden_weight: widen(&inputs.hidden_weight),
        hidden_bias: widen(&inputs.hidden_bias),
        initial: widen(&inputs.initial),
        gradient: widen(&inputs.gradient),
    };
    let (oracle, composition) = (plain(case, &wide), plain(case, inputs));
    // A slope errs by the rounding of a gate near 1, however little of it is left: by that of terms of size 1.
    let unit = if size_of::<E>() == 4 { 6e-7 } else { 1e-14 };
    let fields = got.fields().into_iter().zip(oracle.fields());
    for ((name, got), ((_, oracle), (_, plain))) in fields
        .zip(composition.fields())
        .map(|((got, oracle), plain)| (got, (oracle, plain)))
    {
        assert_eq!(got.len(), oracle.len());
        let error = |elements: &[E]| {
            let pairs = elements.iter().zip(oracle);
            pairs.fold(0.0_f64, |most, (got, oracle)| {
                let difference = (got.to_f64() - oracle).abs();
                assert!(!difference.is_nan(), "{case:?}: {name}: {got} for {oracle}");
                most.max(difference)
            })
        };
        let magnitude = oracle.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let allowed = error(plain) * if name == "states" { 2.0 } else { 3.0 };
        let error = error(got);
        assert!(
            error <= allowed.max(magnitude.max(1.0) * unit),
            "{case:?}: {name}: error {error:e}, allowed {allowed:e}, magnitude {magnitude:e}"
        );
    }
}
