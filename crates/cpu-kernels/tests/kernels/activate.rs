//! Activations against plain loops in f64.

use cpu_kernels::{Activation, ActivationGradients, ActivationInputs, LayerReal, Level};

use crate::calls::{on_threads, refuses};
use crate::random::Random;

const ALL: [Activation; 4] = [
    Activation::Relu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::Silu,
];

/// More than a task has.
const MANY: usize = (1 << 15) + 3;

/// The same function of the oracle.
fn formula(function: Activation) -> attention_oracle::Activation {
    match function {
        Activation::Relu => attention_oracle::Activation::Relu,
        Activation::Gelu => attention_oracle::Activation::Gelu,
        Activation::GeluTanh => attention_oracle::Activation::GeluTanh,
        Activation::Silu => attention_oracle::Activation::Silu,
    }
}

/// The results, and the gradients of inputs and factors that are wanted.
fn run<E: LayerReal>(
    level: Level,
    inputs: &ActivationInputs<E>,
    gradient: &[E],
    wanted: [bool; 2],
) -> [Vec<E>; 3] {
    let nan = || vec![E::from_f64(f64::NAN); inputs.input.len()];
    let mut output = nan();
    inputs.forward(level, &mut output);
    let mut gradients = wanted.map(|is_wanted| is_wanted.then(nan));
    let [input, factor] = gradients.each_mut().map(Option::as_deref_mut);
    inputs.backward(level, gradient, ActivationGradients { input, factor });
    let [input, factor] = gradients.map(Option::unwrap_or_default);
    [output, input, factor]
}

fn inputs<'a, E>(
    function: Activation,
    input: &'a [E],
    factor: Option<&'a [E]>,
) -> ActivationInputs<'a, E> {
    ActivationInputs {
        function,
        input,
        factor,
    }
}

/// The function and its derivative at each element.
fn values<E: LayerReal>(level: Level, function: Activation, input: &[E]) -> [Vec<E>; 2] {
    let inputs = inputs(function, input, None);
    let [output, slope, _] = run(level, &inputs, &vec![E::ONE; input.len()], [true, false]);
    [output, slope]
}

fn draw<E: LayerReal>(seed: u64, count: usize, deviation: f64) -> Vec<E> {
    let mut random = Random::new(seed);
    let element = |_| E::from_f64(deviation * random.normal::<E>().to_f64());
    (0..count).map(element).collect()
}

fn check_values<E: LayerReal>(epsilon: f64) {
    let element = |n: i32| E::from_f64(f64::from(n as f32 * 0.01));
    let input: Vec<E> = (-1300..=1300).map(element).collect();
    for level in Level::available() {
        for function in ALL {
            let [outputs, slopes] = values(level, function, &input);
            for (n, x) in input.iter().map(|x| x.to_f64()).enumerate() {
                let [output, slope] = formula(function).value(x);
                // An exponent is rounded, too: a cubic one more than once.
                let [value, density] = formula(function).factor(x);
                let rounding = epsilon * (4.0 - 2.0 * value.max(1e-300).ln());
                let what = format!("{level:?} {function:?} {x}");
                let got = outputs[n].to_f64();
                // Powers that are no normal elements are 0.
                let flushed = f64::from(f32::MIN_POSITIVE) * (1.0 + x.abs());
                let bound = rounding * output.abs() + flushed;
                assert!((got - output).abs() <= bound, "{what}: {got} {output}");
                let got = slopes[n].to_f64();
                let bound =
                    2.0 * rounding * (value + x.abs() * density) + flushed * x.abs().powi(3);
                assert!((got - slope).abs() <= bound, "{what}: {got} {slope}");
            }
        }
    }
}

#[test]
fn functions_and_derivatives_are_the_formulas_on_every_level() {
    check_values::<f32>(f64::from(f32::EPSILON));
    check_values::<f64>(f64::EPSILON);
}

/// Where products are fused with sums, the tail of the normal distribution has all its bits.
#[test]
fn gelu_is_within_five_units_in_the_last_place() {
    let input: Vec<f32> = (-130_000..=130_000).map(|n| n as f32 * 1e-4).collect();
    for level in Level::available() {
        let [outputs, _] = values(level, Activation::Gelu, &input);
        for (x, got) in input.iter().zip(outputs) {
            let [exact, _] = formula(Activation::Gelu).value(f64::from(*x));
            let unfused = f64::from(u8::from(level == Level::PORTABLE)) * f64::from(x * x) / 4.0;
            let bound = (5.0 + unfused) * f64::from(f32::EPSILON) * exact.abs();
            let error = (f64::from(got) - exact).abs();
            assert!(error <= bound, "{level:?} {x}: {got} is not {exact}");
        }
    }
}

#[test]
fn derivatives_are_central_differences() {
    const STEP: f64 = 1e-5;
    let input: Vec<f64> = draw(1, 50, 2.0);
    for function in ALL {
        let [_, slopes] = values(Level::current(), function, &input);
        let at = |step: f64| {
            let moved: Vec<f64> = input.iter().map(|x| x + step).collect();
            values(Level::current(), function, &moved)[0].clone()
        };
        for ((above, below), slope) in at(STEP).iter().zip(at(-STEP)).zip(slopes) {
            let difference = (above - below) / (2.0 * STEP);
            let is_near = (slope - difference).abs() < 1e-8;
            assert!(is_near, "{function:?}: {slope} {difference}");
        }
    }
}

fn check_factors<E: LayerReal>() {
    for count in [0, 1, 7, 16, 33, MANY] {
        let [input, other, gradient] = [1, 2, 3].map(|seed| draw::<E>(seed, count, 1.0));
        for level in Level::available() {
            for function in ALL {
                let what = format!("{count} {level:?} {function:?}");
                let [alone, slopes] = values(level, function, &input);
                let inputs = inputs(function, &input, Some(&other));
                let all = run(level, &inputs, &gradient, [true, true]);
                for n in 0..count {
                    let [output, of_input, of_factor] = all.each_ref().map(|of| of[n]);
                    assert!(output == alone[n] * other[n], "{what}: {n}");
                    let expected = gradient[n] * other[n] * slopes[n];
                    assert!(of_input == expected, "{what}: {n}");
                    assert!(of_factor == gradient[n] * alone[n], "{what}: {n}");
                }
                for wanted in [[true, false], [false, true], [false, false]] {
                    let some = run(level, &inputs, &gradient, wanted);
                    let expected = |n: usize| if wanted[n] { &all[n + 1][..] } else { &[] };
                    assert!(some[1] == expected(0) && some[2] == expected(1), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_factor_multiplies_each_result_and_has_its_own_gradient() {
    check_factors::<f32>();
    check_factors::<f64>();
}

fn check_extremes<E: LayerReal>() {
    let infinity = f64::INFINITY;
    let [zero, one] = [0.0, 1.0];
    // Element, result, derivative; at 0 it is another for each function.
    let rows = [
        [0.0, zero, f64::NAN],
        [-0.0, zero, f64::NAN],
        [1e4, 1e4, one],
        [-1e4, zero, zero],
        [1e37, f64::from(1e37_f32), one],
        [-1e37, zero, zero],
        [infinity, infinity, one],
        [-infinity, zero, zero],
    ];
    let element = |[x, ..]: &[f64; 3]| E::from_f64(f64::from(*x as f32));
    let input: Vec<E> = rows.iter().map(element).collect();
    for level in Level::available() {
        for function in ALL {
            let at_zero = f64::from(u8::from(function != Activation::Relu)) / 2.0;
            let [outputs, slopes] = values(level, function, &input);
            for (n, [x, output, slope]) in rows.into_iter().enumerate() {
                let what = format!("{level:?} {function:?} {x}");
                assert_eq!(outputs[n].to_f64(), output, "{what}");
                if x == 0.0 {
                    // A reciprocal is not rounded to the nearest.
                    assert!((slopes[n].to_f64() - at_zero).abs() < 1e-7, "{what}");
                } else {
                    assert_eq!(slopes[n].to_f64(), slope, "{what}");
                }
            }
        }
    }
}

#[test]
fn extremes_have_their_limits() {
    check_extremes::<f32>();
    check_extremes::<f64>();
}

fn check_nan<E: LayerReal>() {
    let clean = draw::<E>(4, 37, 1.0);
    for at in [0, 5, 36] {
        let mut input = clean.clone();
        input[at] = E::from_f64(f64::NAN);
        for level in Level::available() {
            for function in ALL {
                let dirty = values(level, function, &input);
                for (got, expected) in dirty.iter().zip(values(level, function, &clean)) {
                    for n in 0..clean.len() {
                        let is_nan = got[n].to_f64().is_nan();
                        let is_right = is_nan == (n == at) && (is_nan || got[n] == expected[n]);
                        assert!(is_right, "{level:?} {function:?}: {n}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_nan_stays_where_it_is() {
    check_nan::<f32>();
    check_nan::<f64>();
}

#[test]
fn bits_do_not_depend_on_the_threads() {
    let [input, other, gradient] = [5, 6, 7].map(|seed| draw::<f32>(seed, 3 * MANY, 1.0));
    let inputs = inputs(Activation::Gelu, &input, Some(&other));
    let all = || run(Level::current(), &inputs, &gradient, [true, true]);
    let once = all();
    for threads in [1, 3] {
        assert!(on_threads(threads, all) == once, "{threads} threads");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    const OF_TWO: ActivationInputs<f32> = ActivationInputs {
        function: Activation::Silu,
        input: &[1.0, 2.0],
        factor: None,
    };
    let level = Level::current();
    refuses("activation: factor expected [2], got 1 elements", || {
        let factor = Some(&[1.0][..]);
        ActivationInputs { factor, ..OF_TWO }.forward(level, &mut [0.0; 2]);
    });
    refuses("activation: result expected [2], got 3 elements", || {
        OF_TWO.forward(level, &mut [0.0; 3]);
    });
    let of_none = "activation: gradient of the factor expected [0], got 2 elements";
    refuses(of_none, || {
        let gradients = ActivationGradients {
            input: None,
            factor: Some(&mut [0.0; 2]),
        };
        OF_TWO.backward(level, &[1.0; 2], gradients);
    });
}
