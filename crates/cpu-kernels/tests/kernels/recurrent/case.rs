//! Inputs, and the results of the kernels.

use attention_oracle::Cell;
use cpu_kernels::{
    GruInputs, LayerReal, Level, LstmInputs, Matrix, Packing, ProductStart, RecurrentGradients,
    RecurrentInputs, RecurrentOutputs, column_sums, product,
};

use crate::random::Random;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub kind: Cell,
    pub batch: usize,
    pub steps: usize,
    pub hidden_size: usize,
    pub is_reversed: bool,
    /// Whether examples have lengths of their own.
    pub has_lens: bool,
    /// The standard deviation of the input projection of the gates, and its mean.
    pub gates: [f64; 2],
    /// The same of the states before the first step.
    pub initial: [f64; 2],
}

impl Case {
    pub(crate) const SMALL: Self = Self {
        kind: Cell::Gru,
        batch: 3,
        steps: 4,
        hidden_size: 5,
        is_reversed: false,
        has_lens: true,
        gates: [1.0, 0.0],
        initial: [0.7, 0.0],
    };

    pub(crate) const fn with_sizes(self, batch: usize, steps: usize, hidden_size: usize) -> Self {
        let case = self.with_batch(batch).with_steps(steps);
        case.with_hidden_size(hidden_size)
    }

    /// Both kinds in both directions, with lengths and without.
    pub(crate) fn variants(self) -> Vec<Self> {
        let variant = |n: usize| Self {
            kind: [Cell::Gru, Cell::Lstm][n >> 2],
            is_reversed: n >> 1 & 1 == 1,
            has_lens: n & 1 == 1,
            ..self
        };
        (0..8).map(variant).collect()
    }

    /// The first example has all steps, the last none.
    pub(crate) fn lens(&self) -> Option<Vec<usize>> {
        let others = self.batch.max(2) - 1;
        let len = |example: usize| self.steps - (example * self.steps).div_ceil(others);
        self.has_lens.then(|| (0..self.batch).map(len).collect())
    }

    /// The number of steps of an example.
    pub(crate) fn len(&self, example: usize) -> usize {
        self.lens().map_or(self.steps, |lens| lens[example])
    }

    pub(crate) fn inputs<E: LayerReal>(&self, seed: u64) -> Inputs<E> {
        let mut random = Random::new(seed);
        let (kind, batch, steps, size) = (self.kind, self.batch, self.steps, self.hidden_size);
        let mut normal = |len: usize, [deviation, mean]: [f64; 2]| -> Vec<E> {
            let element = |_| {
                let element = random.normal::<E>().to_f64() * deviation + mean;
                E::from_f64(f64::from(element as f32))
            };
            (0..len).map(element).collect()
        };
        let of_unit = 1.0 / (size.max(1) as f64).sqrt();
        Inputs {
            gates: normal(batch * steps * kind.gates() * size, self.gates),
            hidden_weight: normal(size * kind.gates() * size, [of_unit, 0.0]),
            hidden_bias: normal(kind.gates() * size, [0.5, 0.0]),
            initial: normal(kind.states() * batch * size, self.initial),
            gradient: normal(kind.states() * batch * steps * size, [1.0, 0.0]),
        }
    }
}

macro_rules! with {
    ($($method:ident: $field:ident, $type:ty;)*) => {
        impl Case {
            $(pub(crate) const fn $method(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

with! {
    with_batch: batch, usize;
    with_steps: steps, usize;
    with_hidden_size: hidden_size, usize;
    with_has_lens: has_lens, bool;
    with_gates: gates, [f64; 2];
    with_initial: initial, [f64; 2];
}

#[derive(Clone, Debug)]
pub(crate) struct Inputs<E> {
    pub gates: Vec<E>,
    pub hidden_weight: Vec<E>,
    pub hidden_bias: Vec<E>,
    pub initial: Vec<E>,
    /// The gradient of the states.
    pub gradient: Vec<E>,
}

impl<E> Inputs<E> {
    /// The layer of a case of these sizes, whose weights nobody has packed.
    pub(crate) fn layer<'a, const G: usize, const N: usize>(
        &'a self,
        case: &Case,
        lens: Option<&'a [usize]>,
    ) -> RecurrentInputs<'a, E, G, N> {
        RecurrentInputs {
            hidden_weight: &self.hidden_weight,
            hidden_bias: &self.hidden_bias,
            initial: &self.initial,
            lens,
            is_reversed: case.is_reversed,
            packings: None,
            sizes: [case.batch, case.steps, case.hidden_size],
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results<E> {
    pub states: Vec<E>,
    pub gates: Vec<E>,
    pub hidden_weight: Vec<E>,
    pub hidden_bias: Vec<E>,
    pub initial: Vec<E>,
}

impl<E: LayerReal> Results<E> {
    pub(crate) fn fields(&self) -> [(&'static str, &[E]); 5] {
        [
            ("states", &self.states),
            ("gates", &self.gates),
            ("hidden weight", &self.hidden_weight),
            ("hidden bias", &self.hidden_bias),
            ("initial state", &self.initial),
        ]
    }

    /// For comparisons in which NaN is itself.
    pub(crate) fn bits(&self) -> Vec<u64> {
        let fields = self.fields();
        let elements = fields.iter().flat_map(|(_, elements)| elements.iter());
        elements.map(|element| element.to_f64().to_bits()).collect()
    }
}

/// Runs both passes; what they write is full of NaN before.
pub(crate) fn kernels<E: LayerReal>(level: Level, case: &Case, inputs: &Inputs<E>) -> Results<E> {
    macro_rules! of_kind {
        ($inputs:ident) => {{
            let lens = case.lens();
            let layer: $inputs<E> = inputs.layer(case, lens.as_deref());
            let nan = |len: usize| vec![E::from_f64(f64::NAN); len];
            let units = case.batch * case.steps * case.hidden_size;
            let mut saved = nan($inputs::<E>::SAVED * units);
            let mut results = Results {
                states: nan(inputs.gradient.len()),
                gates: inputs.gates.clone(),
                hidden_weight: nan(inputs.hidden_weight.len()),
                hidden_bias: nan(inputs.hidden_bias.len()),
                initial: nan(inputs.initial.len()),
            };
            let mut unsaved = nan(results.states.len());
            // Packed by one call, found by the next.
            let packings = [Packing::default(), Packing::default()];
            let packed = RecurrentInputs {
                packings: Some(&packings),
                ..layer
            };
            layer.forward(level, &inputs.gates, &mut unsaved);
            layer.forward_saving(level, &mut results.gates, &mut saved, &mut results.states);
            let gates = results.gates.clone();
            let bits = |of: &[E]| -> Vec<u64> { of.iter().map(|x| x.to_f64().to_bits()).collect() };
            assert!(bits(&unsaved) == bits(&results.states), "{case:?}");
            for _ in 0..2 {
                packed.forward(level, &inputs.gates, &mut unsaved);
                assert!(bits(&unsaved) == bits(&results.states), "{case:?}, packed");
            }
            let outputs = RecurrentOutputs {
                states: &results.states,
                saved: &saved,
                gradient: std::array::from_fn(|n| &inputs.gradient[n * units..][..units]),
                last_gradient: Default::default(),
            };
            let mut hidden = nan(inputs.gates.len());
            let mut passes = Vec::new();
            for layer in [packed, packed, layer] {
                results.gates.clone_from(&gates);
                let gradients = RecurrentGradients {
                    gates: &mut results.gates,
                    hidden: Some(&mut hidden),
                    initial: Some(&mut results.initial),
                };
                layer.backward(level, &outputs, gradients);
                passes.push([&results.gates, &hidden, &results.initial].map(|of| bits(of)));
            }
            let holds = passes[0] == passes[2] && passes[1] == passes[2];
            assert!(holds, "{case:?}, packed");
            for wanted in [[true, false], [false, true], [false, false]] {
                let (mut gates, mut initial) = (gates.clone(), nan(inputs.initial.len()));
                let mut some = nan(gates.len());
                let [of_hidden, of_initial] = wanted;
                let gradients = RecurrentGradients {
                    gates: &mut gates,
                    hidden: of_hidden.then_some(&mut some),
                    initial: of_initial.then_some(&mut initial),
                };
                layer.backward(level, &outputs, gradients);
                let expected = [true, of_hidden, of_initial].into_iter().zip(&passes[2]);
                for ((is_wanted, expected), got) in expected.zip([&gates, &some, &initial]) {
                    let is_same = !is_wanted || bits(got) == *expected;
                    assert!(is_same, "{case:?}, wanted {wanted:?}");
                }
            }
            if case.kind == Cell::Lstm {
                assert!(passes[2][0] == passes[2][1], "{case:?}, both projections");
            }
            let mut before = nan(units);
            layer.outputs_before(&results.states, &mut before);
            let (rows, size) = (case.batch * case.steps, case.hidden_size);
            let before = Matrix::new(&before, [rows, size]).transposed();
            let of_hidden = Matrix::new(&hidden, [rows, case.kind.gates() * size]);
            let start = ProductStart::Zero;
            product(level, before, of_hidden, start, &mut results.hidden_weight);
            column_sums(&hidden, &mut results.hidden_bias);
            results
        }};
    }
    match case.kind {
        Cell::Gru => of_kind!(GruInputs),
        Cell::Lstm => of_kind!(LstmInputs),
    }
}
