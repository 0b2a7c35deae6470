//! Gradients of states that are absent, and of the last states alone.

use attention_oracle::Cell;
use cpu_kernels::{GruInputs, LayerReal, Level, LstmInputs, RecurrentGradients, RecurrentOutputs};

use super::case::{Case, Inputs};

/// Which gradients are given.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// The gradients of the first state after each step.
    first: bool,
    /// The gradients of the other states.
    others: bool,
    /// The gradients of all states after the last step.
    last: bool,
}

impl Given {
    const ALL: [Self; 6] = [
        Self::new(true, false, false),
        Self::new(false, true, false),
        Self::new(true, false, true),
        Self::new(false, true, true),
        Self::new(false, false, true),
        Self::new(true, true, true),
    ];

    const fn new(first: bool, others: bool, last: bool) -> Self {
        Self {
            first,
            others,
            last,
        }
    }

    fn of_steps(self, state: usize) -> bool {
        if state == 0 { self.first } else { self.others }
    }
}

/// The bits of the gradients of the gates, of the hidden projection and of the initial state. `is_dense` with zeros for
/// what is absent, and with what the last states have added to the last step.
fn gradients<E: LayerReal>(
    level: Level,
    case: &Case,
    inputs: &Inputs<E>,
    given: Given,
    is_dense: bool,
) -> [Vec<u64>; 3] {
    let nan = |len: usize| vec![E::from_f64(f64::NAN); len];
    let (batch, steps, size) = (case.batch, case.steps, case.hidden_size);
    let units = batch * steps * size;
    // Any numbers of that shape.
    let of_last = |n: usize| &inputs.initial[n * batch * size..][..batch * size];
    let mut dense = inputs.gradient.clone();
    for (n, dense) in dense.chunks_mut(units.max(1)).enumerate() {
        if !given.of_steps(n) {
            dense.fill(E::ZERO);
        }
        let last_step = if case.is_reversed { 0 } else { steps - 1 };
        for example in 0..if given.last { batch } else { 0 } {
            let to = &mut dense[(example * steps + last_step) * size..][..size];
            for (to, last) in to.iter_mut().zip(&of_last(n)[example * size..]) {
                *to += *last;
            }
        }
    }
    macro_rules! of_kind {
        ($inputs:ident) => {{
            let lens = case.lens();
            let layer: $inputs<E> = inputs.layer(case, lens.as_deref());
            let mut gates = inputs.gates.clone();
            let mut states = nan(inputs.gradient.len());
            let mut saved = nan($inputs::<E>::SAVED * units);
            layer.forward_saving(level, &mut gates, &mut saved, &mut states);
            let outputs = RecurrentOutputs {
                states: &states,
                saved: &saved,
                gradient: std::array::from_fn(|n| match (is_dense, given.of_steps(n)) {
                    (true, _) => &dense[n * units..][..units],
                    (false, true) => &inputs.gradient[n * units..][..units],
                    (false, false) => &[],
                }),
                last_gradient: std::array::from_fn(|n| match given.last && !is_dense {
                    true => of_last(n),
                    false => &[],
                }),
            };
            let (mut hidden, mut initial) = (nan(gates.len()), nan(inputs.initial.len()));
            let gradients = RecurrentGradients {
                gates: &mut gates,
                hidden: Some(&mut hidden),
                initial: Some(&mut initial),
            };
            layer.backward(level, &outputs, gradients);
            [gates, hidden, initial].map(|of| of.iter().map(|x| x.to_f64().to_bits()).collect())
        }};
    }
    match case.kind {
        Cell::Gru => of_kind!(GruInputs),
        Cell::Lstm => of_kind!(LstmInputs),
    }
}

/// To the bit, also where they are -0.
#[test]
fn what_is_absent_is_zero_and_the_last_is_added_to_the_last_step() {
    // The last case has several tasks, whatever the number of threads.
    for [batch, steps, hidden_size] in [[3, 1, 5], [3, 4, 5], [65, 2, 21]] {
        for case in Case::SMALL.with_sizes(batch, steps, hidden_size).variants() {
            let mut inputs = case.inputs::<f32>(3);
            let last_step = if case.is_reversed { 0 } else { steps - 1 };
            inputs.initial[..4].fill(-0.0);
            inputs.gradient[last_step * hidden_size..][..4].fill(-0.0);
            for level in Level::available() {
                for given in Given::ALL {
                    let of = |is_dense| gradients(level, &case, &inputs, given, is_dense);
                    assert!(of(false) == of(true), "{case:?} {given:?}");
                }
            }
        }
    }
}

#[test]
fn without_a_step_the_last_state_is_the_initial_one() {
    for case in Case::SMALL.with_steps(0).variants() {
        let inputs = case.inputs::<f32>(3);
        for last in [false, true] {
            let given = Given::new(true, true, last);
            let [gates, _, initial] = gradients(Level::current(), &case, &inputs, given, false);
            assert!(gates.is_empty());
            let expected = inputs.initial.iter().map(|x| if last { *x } else { 0.0 });
            let expected: Vec<_> = expected.map(|x| f64::from(x).to_bits()).collect();
            assert!(initial == expected, "{case:?} {last}");
        }
    }
}
