//! Single gates against `f64`, with hidden weights of 0: what a gate is off by, a state that it keeps is off by in
//! every step.

use cpu_kernels::{GruInputs, LayerReal, Level, LstmInputs};

const SIZE: usize = 19;
const STEPS: usize = 211;

/// From -100 to 100, closest around 0.
fn grid() -> Vec<f64> {
    let count = STEPS * SIZE;
    let element = |at: usize| {
        let x = 2.0 * at as f64 / (count - 1) as f64 - 1.0;
        f64::from((100.0 * x * x.abs()) as f32)
    };
    (0..count).map(element).collect()
}

/// Gates of one example, `[STEPS, G, SIZE]`: the grid in one of the gates, and the same elements in each of the others.
fn gates<E: LayerReal, const G: usize>(varied: usize, others: [f64; G]) -> Vec<E> {
    let mut gates = Vec::with_capacity(STEPS * G * SIZE);
    for row in grid().chunks_exact(SIZE) {
        for (gate, &other) in others.iter().enumerate() {
            let element = |&x: &f64| E::from_f64(if gate == varied { x } else { other });
            gates.extend(row.iter().map(element));
        }
    }
    gates
}

fn sigmoid(x: f64) -> f64 {
    match x < 0.0 {
        true => x.exp() / (1.0 + x.exp()),
        false => 1.0 / (1.0 + (-x).exp()),
    }
}

fn epsilon<E: LayerReal>() -> f64 {
    match size_of::<E>() {
        4 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// The input gate and the new cell of an LSTM.
fn sigmoid_and_tanh_are_exact_at_their_ends<E: LayerReal>(level: Level) {
    const GATES: usize = 4;
    let layer = LstmInputs::<E> {
        hidden_weight: &[E::ZERO; SIZE * GATES * SIZE],
        hidden_bias: &[E::ZERO; GATES * SIZE],
        initial: &[E::ZERO; 2 * SIZE],
        lens: None,
        is_reversed: false,
        packings: None,
        sizes: [1, STEPS, SIZE],
    };
    let of_gate = |gate: usize| {
        let mut gates = gates::<E, GATES>(gate, [0.0; GATES]);
        let mut states = vec![E::ZERO; 2 * STEPS * SIZE];
        layer.forward_saving(level, &mut gates, &mut [], &mut states);
        let rows = gates.chunks_exact(GATES * SIZE);
        let values = rows.flat_map(|row| row[gate * SIZE..][..SIZE].to_vec());
        values.map(|value| value.to_f64()).collect::<Vec<f64>>()
    };
    let epsilon = epsilon::<E>();
    for (x, got) in grid().into_iter().zip(of_gate(0)) {
        let [exact, rest] = [x, -x].map(sigmoid);
        // A unit in the last place, for the rounding near 1.
        let rounding = if exact < 0.5 { 0.0 } else { epsilon / 2.0 };
        let allowed = 2.5 * epsilon * exact.min(rest) + rounding;
        let is_near = (got - exact).abs() <= allowed.max(E::SMALLEST.to_f64());
        assert!(is_near, "{level:?}: sigmoid({x}) = {got}, not {exact}");
    }
    for (x, got) in grid().into_iter().zip(of_gate(2)) {
        let exact = x.tanh();
        let is_near = (got - exact).abs() <= 1.6 * epsilon * exact.abs();
        assert!(is_near, "{level:?}: tanh({x}) = {got}, not {exact}");
    }
}

/// A state of 0 is 1 - z after a step to 1, and a state of 1 is z after a step to 0: however close to 0 these are.
fn an_update_is_exact_at_both_ends<E: LayerReal>(level: Level) {
    const GATES: usize = 3;
    // `tanh(50)` is 1.
    for (initial, new, side) in [(0.0, 50.0, -1.0), (1.0, 0.0, 1.0)] {
        let gates = gates::<E, GATES>(1, [0.0, 0.0, new]);
        // Each step is an example.
        let layer = GruInputs::<E> {
            hidden_weight: &[E::ZERO; SIZE * GATES * SIZE],
            hidden_bias: &[E::ZERO; GATES * SIZE],
            initial: &[E::from_f64(initial); STEPS * SIZE],
            lens: None,
            is_reversed: false,
            packings: None,
            sizes: [STEPS, 1, SIZE],
        };
        let mut states = vec![E::ZERO; STEPS * SIZE];
        layer.forward(level, &gates, &mut states);
        for (x, got) in grid().into_iter().zip(states) {
            let (got, exact) = (got.to_f64(), sigmoid(side * x));
            // Below its smallest normal elements `E` has no precision.
            let is_normal = exact.abs() > E::SMALLEST.to_f64();
            let is_near = (got - exact).abs() <= 2.5 * epsilon::<E>() * exact;
            let what = format!("{level:?}: from {initial} by sigmoid({x})");
            assert!(is_near || !is_normal, "{what}: {got}, not {exact}");
        }
    }
}

#[test]
fn sigmoid_and_tanh() {
    for level in Level::available() {
        sigmoid_and_tanh_are_exact_at_their_ends::<f32>(level);
        sigmoid_and_tanh_are_exact_at_their_ends::<f64>(level);
    }
}

#[test]
fn updates() {
    for level in Level::available() {
        an_update_is_exact_at_both_ends::<f32>(level);
        an_update_is_exact_at_both_ends::<f64>(level);
    }
}
