//! Gradients of cross-entropy of which some are wanted: each has the bits that it has beside all others.

#[path = "support/random.rs"]
mod random;

use cpu_kernels::{CrossEntropyGradients, CrossEntropyInputs, LayerReal, Level, Matrix};
use random::Random;

const ROWS: usize = 21;
const SIZE: usize = 14;
const CLASSES: usize = 37;

struct Inputs<E> {
    /// In how many parts the features of a row come.
    parts: usize,
    input: Vec<E>,
    weight: Vec<E>,
    bias: Option<Vec<E>>,
    targets: Vec<usize>,
    factors: Vec<E>,
}

/// The loss and the predictions, and the bits of the gradients of input, weight and bias that are wanted.
type Results = (u64, Vec<usize>, [Option<Vec<u64>>; 3]);

impl<E: LayerReal> Inputs<E> {
    fn draw(parts: usize, has_bias: bool) -> Self {
        let mut random = Random::new(7);
        let mut draw = |len: usize| -> Vec<E> { (0..len).map(|_| random.normal()).collect() };
        Self {
            parts,
            input: draw(ROWS * SIZE),
            weight: draw(SIZE * CLASSES),
            bias: has_bias.then(|| draw(CLASSES)),
            targets: (0..ROWS).map(|row| row * 31 % CLASSES).collect(),
            // Every third row does not count.
            factors: (0..ROWS).map(|row| E::from_f64((row % 3) as f64)).collect(),
        }
    }

    fn run(&self, level: Level, wanted: [bool; 3]) -> Results {
        let nan = |len: usize| vec![E::from_f64(f64::NAN); len];
        let lens = [ROWS * SIZE, SIZE * CLASSES, CLASSES];
        let mut gradients: [_; 3] = std::array::from_fn(|n| wanted[n].then(|| nan(lens[n])));
        let [input, weight, bias] = gradients.each_mut().map(Option::as_deref_mut);
        let inputs = CrossEntropyInputs {
            input: Matrix::new(&self.input, [self.parts * ROWS, SIZE / self.parts]),
            weight: Matrix::new(&self.weight, [SIZE, CLASSES]),
            bias: self.bias.as_deref(),
            targets: &self.targets,
            factors: &self.factors,
            label_smoothing: 0.0,
        };
        let of = CrossEntropyGradients {
            input,
            weight,
            bias,
        };
        let mut predictions = vec![usize::MAX; ROWS];
        let loss = inputs.compute(level, &mut predictions, of);
        let bits = |of: Vec<E>| of.iter().map(|x| x.to_f64().to_bits()).collect();
        (
            loss.to_bits(),
            predictions,
            gradients.map(|of| of.map(bits)),
        )
    }
}

fn check<E: LayerReal>(parts: usize, has_bias: bool) {
    let inputs = Inputs::<E>::draw(parts, has_bias);
    for level in Level::available() {
        let (loss, predictions, all) = inputs.run(level, [true, true, has_bias]);
        for subset in 0..1 << if has_bias { 3 } else { 2 } {
            let wanted = [0, 1, 2].map(|n| subset >> n & 1 == 1);
            let some = std::array::from_fn(|n| all[n].clone().filter(|_| wanted[n]));
            let expected = (loss, predictions.clone(), some);
            let got = inputs.run(level, wanted);
            assert!(got == expected, "{parts} parts, {level:?}, {wanted:?}");
        }
    }
}

#[test]
fn some_gradients_are_those_of_all() {
    for parts in [1, 2] {
        for has_bias in [true, false] {
            check::<f32>(parts, has_bias);
            check::<f64>(parts, has_bias);
        }
    }
}
