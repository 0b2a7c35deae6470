//! Normalizations against plain loops in f64.

use attention_oracle::Normalization;
use cpu_kernels::{LayerReal, Level, NormalizationGradients, NormalizationInputs};

use crate::calls::{on_threads, refuses};
use crate::random::Random;

/// The elements of a case, in f64.
#[derive(Clone)]
struct Case {
    size: usize,
    rows: Vec<f64>,
    gain: Vec<f64>,
    bias: Option<Vec<f64>>,
    epsilon: f64,
    is_centered: bool,
    gradient: Vec<f64>,
}

/// Rows, gain and bias: the gradients that are wanted.
const ALL: [bool; 3] = [true; 3];

/// Rows and features: odd ones, of several tasks, and of rows longer than a task.
#[rustfmt::skip]
const SIZES: [[usize; 2]; 7] = [[1, 1], [3, 7], [67, 16], [130, 37], [5, 131], [700, 65], [19, 4099]];

impl Case {
    /// Rows of a mean and a standard deviation.
    fn new(seed: u64, [count, size]: [usize; 2], mean: f64, deviation: f64) -> Self {
        let mut random = Random::new(seed);
        let mut draw = |len: usize, mean: f64, deviation: f64| -> Vec<f64> {
            let element = |_| f64::from((mean + deviation * random.normal::<f64>()) as f32);
            (0..len).map(element).collect()
        };
        Self {
            size,
            rows: draw(count * size, mean, deviation),
            gain: draw(size, 1.0, 0.5),
            bias: Some(draw(size, 0.0, 1.0)),
            epsilon: 1e-5,
            is_centered: true,
            gradient: draw(count * size, 0.0, 1.0),
        }
    }

    /// The same by mean and variance, with a bias and without, and by the mean square.
    fn variants(&self) -> [Self; 3] {
        let mut without_bias = self.clone();
        without_bias.bias = None;
        let mut by_square = without_bias.clone();
        by_square.is_centered = false;
        [self.clone(), without_bias, by_square]
    }

    fn name(&self) -> String {
        let count = self.rows.len() / self.size;
        let (size, has_bias, is_centered) = (self.size, self.bias.is_some(), self.is_centered);
        format!("{count} of {size}, bias {has_bias}, centered {is_centered}")
    }

    /// The result, and the gradients of rows, gain and bias, by the kernel.
    fn run<E: LayerReal>(&self, level: Level, wanted: [bool; 3]) -> [Vec<f64>; 4] {
        let convert = |all: &[f64]| -> Vec<E> { all.iter().map(|x| E::from_f64(*x)).collect() };
        let [rows, gain, gradient] = [&self.rows, &self.gain, &self.gradient].map(|x| convert(x));
        let bias = self.bias.as_deref().map(convert);
        let inputs = NormalizationInputs {
            rows: &rows,
            gain: &gain,
            bias: bias.as_deref(),
            epsilon: self.epsilon,
            is_centered: self.is_centered,
        };
        let nan = |len: usize| vec![E::from_f64(f64::NAN); len];
        let mut output = nan(rows.len());
        let mut statistics = nan(rows.len().checked_div(self.size).unwrap_or(0) * 2);
        inputs.forward(level, &mut output, &mut statistics);
        let lens = [rows.len(), self.size, self.size];
        let mut gradients = [0, 1, 2].map(|n| nan(if wanted[n] { lens[n] } else { 0 }));
        let [of_rows, of_gain, of_bias] = &mut gradients;
        let slices = NormalizationGradients {
            rows: wanted[0].then_some(&mut of_rows[..]),
            gain: wanted[1].then_some(&mut of_gain[..]),
            bias: wanted[2].then_some(&mut of_bias[..]),
        };
        inputs.backward(level, &statistics, &gradient, slices);
        let [of_rows, of_gain, of_bias] = gradients;
        [output, of_rows, of_gain, of_bias].map(|all| all.iter().map(|x| x.to_f64()).collect())
    }

    /// The same by plain loops.
    fn exact(&self) -> [Vec<f64>; 4] {
        let formula = Normalization {
            rows: &self.rows,
            gain: &self.gain,
            bias: self.bias.as_deref(),
            epsilon: self.epsilon,
            is_centered: self.is_centered,
        };
        let [of_rows, of_gain, of_bias] = formula.backward(&self.gradient);
        [formula.forward(), of_rows, of_gain, of_bias]
    }

    /// Compares with the plain loops: within `tolerance` times the largest element of each.
    fn check<E: LayerReal>(&self, tolerance: f64) {
        let exact = self.exact();
        for level in Level::available() {
            for (n, got) in self.run::<E>(level, ALL).iter().enumerate() {
                let largest = exact[n].iter().fold(0.0, |most, x| f64::max(most, x.abs()));
                assert_eq!(got.len(), exact[n].len());
                for (at, (got, exact)) in got.iter().zip(&exact[n]).enumerate() {
                    let what = format!("{}: {level:?}: {n}, {at}", self.name());
                    let is_close = (got - exact).abs() <= tolerance * (0.1 + largest);
                    assert!(is_close, "{what}: {got} is not {exact}");
                }
            }
        }
    }
}

#[test]
fn rows_and_gradients_are_the_formulas_on_every_level() {
    for (seed, sizes) in (1..).zip(SIZES) {
        for case in Case::new(seed, sizes, 0.3, 2.0).variants() {
            case.check::<f32>(4e-6);
            case.check::<f64>(1e-14);
        }
    }
}

#[test]
fn rows_may_be_large_small_or_far_from_zero() {
    for deviation in [1e-4, 1e4] {
        for case in Case::new(1, [9, 61], 0.0, deviation).variants() {
            case.check::<f32>(4e-6);
        }
    }
    // The mean is rounded to the spacing of f32 at 1000, 6e-5.
    Case::new(2, [9, 61], 1000.0, 1.0).check::<f32>(1e-4);
    // Rows that are constant lose their mean alone.
    let mut constant = Case::new(3, [9, 61], 0.0, 1.0);
    constant.rows.fill(f64::from(0.1_f32));
    let [output, ..] = constant.run::<f32>(Level::current(), ALL);
    let bias = constant.bias.as_ref().expect("there is one");
    for (at, got) in output.iter().enumerate() {
        assert!((got - bias[at % 61]).abs() < 1e-5, "{at}: {got}");
    }
}

#[test]
fn gradients_are_central_differences() {
    const STEP: f64 = 1e-5;
    for case in Case::new(4, [3, 11], 0.3, 1.0).variants() {
        let loss = |case: &Case| -> f64 {
            let [output, ..] = case.run::<f64>(Level::current(), [false; 3]);
            output.iter().zip(&case.gradient).map(|(y, g)| y * g).sum()
        };
        let [_, of_rows, of_gain, _] = case.run::<f64>(Level::current(), ALL);
        let check = |gradient: f64, move_by: &dyn Fn(&mut Case, f64)| {
            let [above, below] = [STEP, -STEP].map(|step| {
                let mut moved = case.clone();
                move_by(&mut moved, step);
                loss(&moved)
            });
            let (difference, what) = ((above - below) / (2.0 * STEP), case.name());
            let is_near = (gradient - difference).abs() < 1e-7;
            assert!(is_near, "{what}: {gradient} {difference}");
        };
        for (at, gradient) in of_rows.into_iter().enumerate() {
            check(gradient, &|case, step| case.rows[at] += step);
        }
        for (at, gradient) in of_gain.into_iter().enumerate() {
            check(gradient, &|case, step| case.gain[at] += step);
        }
    }
}

#[test]
fn bits_depend_neither_on_what_is_wanted_nor_on_the_threads() {
    for sizes in [[700, 65], [131, 517], [3, 7]] {
        for case in Case::new(5, sizes, 0.3, 2.0).variants() {
            for level in Level::available() {
                let all = case.run::<f32>(level, ALL);
                for subset in 0..8 {
                    let wanted = [0, 1, 2].map(|n| subset >> n & 1 == 1);
                    let some = case.run::<f32>(level, wanted);
                    assert!(some[0] == all[0]);
                    for n in 0..3 {
                        let expected = if wanted[n] { &all[n + 1][..] } else { &[] };
                        assert!(some[n + 1] == expected, "{} {wanted:?}", case.name());
                    }
                }
            }
            let once = case.run::<f32>(Level::current(), ALL);
            for threads in [1, 2, 3] {
                let again = on_threads(threads, || case.run::<f32>(Level::current(), ALL));
                assert!(again == once, "{} {threads} threads", case.name());
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_row() {
    for (sizes, odd) in [([5, 37], f64::NAN), ([5, 16], f64::INFINITY)] {
        for clean in Case::new(6, sizes, 0.0, 1.0).variants() {
            let mut dirty = clean.clone();
            dirty.rows[2 * clean.size + 3] = odd;
            for level in Level::available() {
                let [before, after] = [&clean, &dirty].map(|case| case.run::<f32>(level, ALL));
                for n in [0, 1] {
                    let [before, after] = [&before, &after].map(|all| all[n].chunks(clean.size));
                    for (row, (before, after)) in before.zip(after).enumerate() {
                        let is_hit = after.iter().any(|x| x.is_nan());
                        assert_eq!(is_hit, row == 2, "{level:?} {}", clean.name());
                        assert!(is_hit || after == before, "{level:?} {}", clean.name());
                    }
                }
            }
        }
    }
}

#[test]
fn no_rows_and_no_features() {
    for sizes in [[0, 5], [4, 0], [0, 0]] {
        for case in Case::new(7, sizes, 0.0, 1.0).variants() {
            for (n, elements) in case.run::<f32>(Level::current(), ALL).iter().enumerate() {
                let expected = if n < 2 { 0 } else { sizes[1] };
                assert_eq!(elements[..], vec![0.0; expected]);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    const TWO_ROWS: NormalizationInputs<f32> = NormalizationInputs {
        rows: &[1.0; 6],
        gain: &[1.0; 3],
        bias: None,
        epsilon: 1e-5,
        is_centered: true,
    };
    let forward = |inputs: NormalizationInputs<f32>, statistics: usize| {
        inputs.forward(Level::current(), &mut [0.0; 6], &mut vec![0.0; statistics]);
    };
    let of_rows = "normalization: rows expected [1, 4], got 6 elements";
    refuses(of_rows, || {
        let gain = &[1.0; 4];
        forward(NormalizationInputs { gain, ..TWO_ROWS }, 4);
    });
    refuses("normalization: bias expected [3], got 2 elements", || {
        let bias = Some(&[1.0; 2][..]);
        forward(NormalizationInputs { bias, ..TWO_ROWS }, 4);
    });
    let of_statistics = "normalization: statistics expected [2, 2], got 2 elements";
    refuses(of_statistics, || forward(TWO_ROWS, 2));
    let of_gain = "normalization: gradient of the gain expected [3], got 6 elements";
    refuses(of_gain, || {
        let gradients = NormalizationGradients {
            rows: None,
            gain: Some(&mut [0.0; 6]),
            bias: None,
        };
        TWO_ROWS.backward(Level::current(), &[0.0; 4], &[0.0; 6], gradients);
    });
}
