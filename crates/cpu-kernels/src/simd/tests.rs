//! Every operation of every level against plain Rust.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;

/// Applies an operation to whole vectors and returns the lanes.
struct Map<'a, E, F> {
    inputs: &'a [E],
    f: F,
}

trait Unary<E: Float> {
    fn apply<S: Simd<E>>(&self, simd: S, v: S::V) -> S::V;
}

impl<E: Float, F: Unary<E>> Job<E> for Map<'_, E, F> {
    type Output = Vec<E>;

    fn run<S: Simd<E>>(self, simd: S) -> Vec<E> {
        let mut out = vec![E::ZERO; self.inputs.len()];
        for (from, to) in self.inputs.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
            let v = self.f.apply(simd, simd.load_partial(from));
            simd.store_partial(v, to);
        }
        out
    }
}

struct Exp;

impl<E: Float> Unary<E> for Exp {
    fn apply<S: Simd<E>>(&self, simd: S, v: S::V) -> S::V {
        simd.exp(v)
    }
}

struct Reciprocal;

impl<E: Float> Unary<E> for Reciprocal {
    fn apply<S: Simd<E>>(&self, simd: S, v: S::V) -> S::V {
        simd.reciprocal(v)
    }
}

fn map<E: Float, F: Unary<E>>(level: Level, inputs: &[E], f: F) -> Vec<E> {
    E::dispatch(level, Map { inputs, f })
}

#[test]
fn exp_is_within_two_units_in_the_last_place() {
    let inputs: Vec<f32> = (-8733..=8872).map(|i| i as f32 * 0.01).collect();
    for level in Level::available() {
        for (x, y) in inputs.iter().zip(map(level, &inputs, Exp)) {
            let exact = f64::from(*x).exp();
            let error = (f64::from(y) - exact).abs() / exact;
            assert!(
                error < 2.0 * f64::from(f32::EPSILON),
                "{level:?}: e^{x} = {y}, not {exact}"
            );
        }
    }
}

#[test]
fn exp_at_its_ends() {
    let inputs = [
        f32::NEG_INFINITY,
        -1e30,
        -100.0,
        -88.0,
        0.0,
        89.0,
        1e30,
        f32::INFINITY,
    ];
    let expected = [
        0.0,
        0.0,
        0.0,
        0.0,
        1.0,
        f32::INFINITY,
        f32::INFINITY,
        f32::INFINITY,
    ];
    for level in Level::available() {
        assert_eq!(map(level, &inputs, Exp), expected, "{level:?}");
        assert!(map(level, &[f32::NAN], Exp)[0].is_nan(), "{level:?}");
        assert!(map(level, &[f64::NAN], Exp)[0].is_nan(), "{level:?}");
    }
}

#[test]
fn reciprocals_are_within_two_units_in_the_last_place() {
    let inputs: Vec<f32> = (-300..=300)
        .flat_map(|i| [1.0, -1.7, 1.3].map(|m| m * (i as f32 * 0.25).exp2()))
        .collect();
    for level in Level::available() {
        for (x, y) in inputs.iter().zip(map(level, &inputs, Reciprocal)) {
            let exact = 1.0 / f64::from(*x);
            let error = ((f64::from(y) - exact) / exact).abs();
            assert!(
                error < 2.0 * f64::from(f32::EPSILON),
                "{level:?}: 1 / {x} = {y}, not {exact}"
            );
        }
    }
}

/// Two-operand operations and reductions, packed into one output.
struct Rest<E> {
    a: Vec<E>,
    b: Vec<E>,
}

impl<E: Float> Job<E> for Rest<E> {
    type Output = ();

    fn run<S: Simd<E>>(self, simd: S) {
        let (a, b) = (&self.a[..S::LANES], &self.b[..S::LANES]);
        let (va, vb) = (simd.load(a), simd.load(b));
        let check = |v: S::V, f: &dyn Fn(E, E) -> E| {
            let mut out = vec![E::ZERO; S::LANES];
            simd.store(v, &mut out);
            for lane in 0..S::LANES {
                let expected = f(a[lane], b[lane]);
                assert!(
                    out[lane] == expected
                        || (out[lane].to_f64().is_nan() && expected.to_f64().is_nan()),
                    "lane {lane}: {} is not {expected}",
                    out[lane]
                );
            }
        };
        check(simd.add(va, vb), &|a, b| a + b);
        check(simd.sub(va, vb), &|a, b| a - b);
        check(simd.mul(va, vb), &|a, b| a * b);
        // Exact in both roundings, for these inputs.
        check(simd.mul_add(va, va, vb), &|a, b| a * a + b);
        check(simd.neg_mul_add(va, va, vb), &|a, b| b - a * a);
        check(simd.min(va, vb), &|a, b| if a < b { a } else { b });
        check(simd.max(va, vb), &|a, b| if a > b { a } else { b });
        check(simd.select(simd.less(va, vb), va, vb), &|a, b| {
            if a < b { a } else { b }
        });
        check(simd.neg(va), &|a, _| E::ZERO - a);
        check(simd.abs(va), &|a, _| a.abs());
        check(simd.sqrt(va), &|a, _| E::from_f64(a.to_f64().sqrt()));
        check(simd.splat(a[1]), &|_, _| self.a[1]);
        let mut count = vec![E::ZERO; S::LANES];
        simd.store(simd.count_from(E::from_f64(3.0)), &mut count);
        let expected = (0..S::LANES).map(|lane| E::from_f64(lane as f64 + 3.0));
        assert!(count == expected.collect::<Vec<_>>());
        let finite: Vec<E> = a
            .iter()
            .map(|&x| if x.is_finite() { x } else { E::ONE })
            .collect();
        let v = simd.load(&finite);
        assert!(simd.sum(v) == finite.iter().copied().sum());
        let largest = a
            .iter()
            .fold(-E::INFINITY, |m, &x| if x > m { x } else { m });
        assert!(simd.largest(va) == largest);
        for count in 0..=S::LANES {
            let mut out = vec![E::ZERO; S::LANES];
            simd.store(simd.load_partial(&finite[..count]), &mut out);
            assert!(out[..count] == finite[..count]);
            assert!(out[count..].iter().all(|&x| x == E::ZERO));
            let mut part = vec![-E::ONE; count];
            simd.store_partial(v, &mut part);
            assert!(part == finite[..count]);
        }
    }
}

fn rest<E: Float>() {
    let nan = E::from_f64(f64::NAN);
    let mut a: Vec<E> = (0..16)
        .map(|i| E::from_f64(f64::from(i * 7 % 16) - 5.0))
        .collect();
    let mut b: Vec<E> = (0..16)
        .map(|i| E::from_f64(f64::from(i * 5 % 16) - 7.5))
        .collect();
    a[2] = nan;
    b[3] = nan;
    for level in Level::available() {
        let (a, b) = (a.clone(), b.clone());
        E::dispatch(level, Rest { a, b });
    }
}

#[test]
fn arithmetic_and_reductions() {
    rest::<f32>();
    rest::<f64>();
}

struct Exp2;

impl<E: Float> Unary<E> for Exp2 {
    fn apply<S: Simd<E>>(&self, simd: S, v: S::V) -> S::V {
        simd.exp2(v)
    }
}

#[test]
fn powers_of_two_are_within_two_units_in_the_last_place() {
    let inputs: Vec<f32> = (-12600..=200).map(|i| i as f32 * 0.01).collect();
    for level in Level::available() {
        for (x, y) in inputs.iter().zip(map(level, &inputs, Exp2)) {
            let exact = f64::from(*x).exp2();
            let error = (f64::from(y) - exact).abs() / exact;
            assert!(
                error < 2.0 * f64::from(f32::EPSILON),
                "{level:?}: 2^{x} = {y}, not {exact}"
            );
        }
        let ends = [f32::NEG_INFINITY, f32::MIN, -126.1, 0.0, 1.0, 127.0];
        let expected = [0.0, 0.0, 0.0, 1.0, 2.0, 2.0_f32.powi(127)];
        assert_eq!(map(level, &ends, Exp2), expected, "{level:?}");
        assert!(map(level, &[f32::NAN], Exp2)[0].is_nan(), "{level:?}");
        assert_eq!(
            map(level, &[f64::NEG_INFINITY, 0.0, -2.0], Exp2),
            [0.0, 1.0, 0.25]
        );
        assert!(map(level, &[f64::NAN], Exp2)[0].is_nan(), "{level:?}");
    }
}

/// A function of one or two vectors in f64, by the operations of lanes.
enum Function {
    Tanh,
    Sigmoid,
    /// 1.75 divided by an element.
    Quotient,
}

impl<E: Float> Unary<E> for Function {
    fn apply<S: Simd<E>>(&self, simd: S, v: S::V) -> S::V {
        match self {
            Self::Tanh => simd.tanh(v),
            Self::Sigmoid => simd.sigmoid(v),
            Self::Quotient => simd.div(simd.splat(E::from_f64(1.75)), v),
        }
    }
}

fn functions_are_close<E: Float>(level: Level, unit: f64) {
    // Not 0, by which nothing is divided.
    let near = (-8700..8700).map(|i| (f64::from(i) + 0.5) * 0.01);
    let small = (-300..=-1).map(|i| (f64::from(i) * 0.1).exp2());
    let inputs: Vec<E> = near.chain(small).map(E::from_f64).collect();
    let functions = [
        (Function::Tanh, f64::tanh as fn(f64) -> f64),
        (Function::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (Function::Quotient, |x| 1.75 / x),
    ];
    for (function, exact) in functions {
        for (x, y) in inputs.iter().zip(map(level, &inputs, function)) {
            let (x, y) = (x.to_f64(), y.to_f64());
            let exact = exact(x);
            let error = ((y - exact) / exact).abs() / unit;
            assert!(
                error < 4.0,
                "{level:?}: {x} to {y}, not {exact}: {error} units"
            );
        }
    }
}

#[test]
fn functions_are_within_four_units_in_the_last_place() {
    for level in Level::available() {
        functions_are_close::<f32>(level, f64::from(f32::EPSILON));
        functions_are_close::<f64>(level, f64::EPSILON);
    }
}

#[test]
fn functions_at_their_ends() {
    let inputs = [f32::NEG_INFINITY, -1e30, 1e30, f32::INFINITY];
    for level in Level::available() {
        let tanh = map(level, &inputs, Function::Tanh);
        assert_eq!(tanh, [-1.0, -1.0, 1.0, 1.0], "{level:?}");
        let sigmoid = map(level, &inputs, Function::Sigmoid);
        assert_eq!(sigmoid, [0.0, 0.0, 1.0, 1.0], "{level:?}");
        for function in [Function::Tanh, Function::Sigmoid] {
            assert!(map(level, &[f32::NAN], function)[0].is_nan(), "{level:?}");
        }
    }
}

struct Transpose<E>(std::marker::PhantomData<E>);

impl<E: Float> Job<E> for Transpose<E> {
    type Output = ();

    fn run<S: Simd<E>>(self, simd: S) {
        let (from_stride, to_stride) = (S::LANES + 3, S::LANES + 1);
        let from: Vec<E> = (0..from_stride * S::LANES)
            .map(|i| E::from_f64(i as f64))
            .collect();
        let mut to = vec![-E::ONE; to_stride * S::LANES];
        simd.transpose(&from, from_stride, &mut to, to_stride);
        for x in 0..S::LANES {
            for r in 0..S::LANES {
                assert!(
                    to[x * to_stride + r] == from[r * from_stride + x],
                    "{x} {r}"
                );
            }
            assert!(to[x * to_stride + S::LANES] == -E::ONE);
        }
    }
}

#[test]
fn squares_are_transposed() {
    for level in Level::available() {
        f32::dispatch(level, Transpose(std::marker::PhantomData));
        f64::dispatch(level, Transpose(std::marker::PhantomData));
    }
}

/// Products of every shape of register block, against plain loops, in elements that are exact.
struct Products<E>(std::marker::PhantomData<E>);

impl<E: Float> Job<E> for Products<E> {
    type Output = ();

    fn run<S: Simd<E>>(self, simd: S) {
        use super::gemm::{Product, Start};
        let element = |i: usize| E::from_f64((i * 37 % 11) as f64 - 5.0);
        let (rows_most, steps_most, vectors) = if cfg!(miri) { (7, 2, 3) } else { (13, 5, 9) };
        for rows in 0..=rows_most {
            for steps in 0..=steps_most {
                for columns in (0..=vectors).map(|v| v * S::LANES) {
                    let right_stride = columns + 1;
                    let out_stride = columns + 2;
                    let left: Vec<E> = (0..rows * steps).map(element).collect();
                    let right: Vec<E> = (0..steps * right_stride).map(element).collect();
                    let before: Vec<E> = (0..rows * out_stride).map(element).collect();
                    let row: Vec<E> = (0..columns).map(|i| element(i + 5)).collect();
                    let factors: Vec<E> = (0..rows).map(|i| element(i + 3)).collect();
                    // Row-major and transposed.
                    for left_strides in [[steps, 1], [1, rows]] {
                        for start in [
                            Start::Zero,
                            Start::Sum,
                            Start::Row(&row[..]),
                            Start::Scaled(&factors[..]),
                        ] {
                            let mut out = before.clone();
                            Product {
                                sizes: [rows, steps, columns],
                                left: &left,
                                left_strides,
                                right: &right,
                                right_stride,
                                out: Block::new(&mut out, [rows, columns], out_stride),
                                start,
                            }
                            .compute(simd);
                            for r in 0..rows {
                                for c in 0..columns {
                                    let sum: E = (0..steps)
                                        .map(|t| {
                                            left[r * left_strides[0] + t * left_strides[1]]
                                                * right[t * right_stride + c]
                                        })
                                        .sum();
                                    let old = before[r * out_stride + c];
                                    let expected = match start {
                                        Start::Zero => sum,
                                        Start::Sum => old + sum,
                                        Start::Row(row) => row[c] + sum,
                                        Start::Scaled(factors) => factors[r] * old + sum,
                                    };
                                    assert!(out[r * out_stride + c] == expected);
                                }
                                let gap = r * out_stride + columns..(r + 1) * out_stride;
                                assert!(out[gap.clone()] == before[gap]);
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn products_of_every_size() {
    for level in Level::available() {
        f32::dispatch(level, Products(std::marker::PhantomData));
        f64::dispatch(level, Products(std::marker::PhantomData));
    }
}
