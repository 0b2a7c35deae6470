//! Every operation of every level against plain Rust.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;

/// A function of a vector.
#[derive(Clone, Copy, Debug)]
enum Function {
    Exp,
    Exp2,
    Reciprocal,
    Tanh,
    Sigmoid,
    /// 1.75 divided by an element.
    Quotient,
}

use Function::{Exp, Exp2, Quotient, Reciprocal, Sigmoid, Tanh};

impl Function {
    fn exact(self, x: f64) -> f64 {
        match self {
            Exp => x.exp(),
            Exp2 => x.exp2(),
            Reciprocal => 1.0 / x,
            Tanh => x.tanh(),
            Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Quotient => 1.75 / x,
        }
    }
}

/// Applies a function to whole vectors and returns the lanes.
struct Map<'a, E>(Function, &'a [E]);

impl<E: Float> Job<E> for Map<'_, E> {
    type Output = Vec<E>;

    fn run<S: Simd<E>>(self, simd: S) -> Vec<E> {
        let Self(function, inputs) = self;
        let mut out = vec![E::ZERO; inputs.len()];
        for (from, to) in inputs.chunks(S::LANES).zip(out.chunks_mut(S::LANES)) {
            let v = simd.load_partial(from);
            let v = match function {
                Exp => simd.exp(v),
                Exp2 => simd.exp2(v),
                Reciprocal => simd.reciprocal(v),
                Tanh => simd.tanh(v),
                Sigmoid => simd.sigmoid(v),
                Quotient => simd.div(simd.splat(E::from_f64(1.75)), v),
            };
            simd.store_partial(v, to);
        }
        out
    }
}

/// The results are within `units` in the last place, which is `unit` of 1.
fn assert_close<E: Float>(function: Function, inputs: &[E], units: f64, unit: f64) {
    for level in Level::available() {
        let results = E::dispatch(level, Map(function, inputs));
        for (x, y) in inputs.iter().zip(results) {
            let (x, y) = (x.to_f64(), y.to_f64());
            let exact = function.exact(x);
            let error = ((y - exact) / exact).abs() / unit;
            assert!(
                error < units,
                "{level:?}: {function:?} of {x} is {y}, not {exact}: {error} units"
            );
        }
    }
}

#[test]
fn powers_and_reciprocals_are_within_two_units_in_the_last_place() {
    let hundredths = |range: std::ops::RangeInclusive<i32>| range.map(|i| i as f32 * 0.01);
    let powers = (-300..=300).map(|i| (i as f32 * 0.25).exp2());
    let both_signs = powers.flat_map(|x| [1.0, -1.7, 1.3].map(|m| m * x));
    for (function, inputs) in [
        (Exp, hundredths(-8733..=8872).collect::<Vec<f32>>()),
        (Exp2, hundredths(-12600..=200).collect()),
        (Reciprocal, both_signs.collect()),
    ] {
        assert_close(function, &inputs, 2.0, f64::from(f32::EPSILON));
    }
}

fn functions_are_close<E: Float>(unit: f64) {
    // Not 0, by which nothing is divided.
    let near = (-8700..8700).map(|i| (f64::from(i) + 0.5) * 0.01);
    let small = (-300..=-1).map(|i| (f64::from(i) * 0.1).exp2());
    let inputs: Vec<E> = near.chain(small).map(E::from_f64).collect();
    for function in [Tanh, Sigmoid, Quotient] {
        assert_close(function, &inputs, 4.0, unit);
    }
}

#[test]
fn functions_are_within_four_units_in_the_last_place() {
    functions_are_close::<f32>(f64::from(f32::EPSILON));
    functions_are_close::<f64>(f64::EPSILON);
}

#[test]
fn functions_at_their_ends() {
    const INF: f32 = f32::INFINITY;
    let far = [-INF, -1e30, 1e30, INF];
    let cases: [(Function, &[f32], &[f32]); 4] = [
        (
            Exp,
            &[-INF, -1e30, -100.0, -88.0, 0.0, 89.0, 1e30, INF],
            &[0.0, 0.0, 0.0, 0.0, 1.0, INF, INF, INF],
        ),
        (
            Exp2,
            &[-INF, f32::MIN, -126.1, 0.0, 1.0, 127.0],
            &[0.0, 0.0, 0.0, 1.0, 2.0, 2.0_f32.powi(127)],
        ),
        (Tanh, &far, &[-1.0, -1.0, 1.0, 1.0]),
        (Sigmoid, &far, &[0.0, 0.0, 1.0, 1.0]),
    ];
    for level in Level::available() {
        for (function, inputs, expected) in cases {
            let what = format!("{level:?}: {function:?}");
            let found = f32::dispatch(level, Map(function, inputs));
            assert_eq!(found, expected, "{what}");
            let single = f32::dispatch(level, Map(function, &[f32::NAN]));
            let double = f64::dispatch(level, Map(function, &[f64::NAN]));
            assert!(single[0].is_nan() && double[0].is_nan(), "{what} of NaN");
        }
        let powers = f64::dispatch(level, Map(Exp2, &[f64::NEG_INFINITY, 0.0, -2.0]));
        assert_eq!(powers, [0.0, 1.0, 0.25], "{level:?}");
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
                let (found, expected) = (out[lane], f(a[lane], b[lane]));
                let are_nan = found.to_f64().is_nan() && expected.to_f64().is_nan();
                let is_same = found == expected || are_nan;
                assert!(is_same, "lane {lane}: {found} is not {expected}");
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
        let finite = a.iter().map(|&x| if x.is_finite() { x } else { E::ONE });
        let finite: Vec<E> = finite.collect();
        let v = simd.load(&finite);
        assert!(simd.sum(v) == finite.iter().copied().sum());
        let larger = |m, &x: &E| if x > m { x } else { m };
        let largest = a.iter().fold(-E::INFINITY, larger);
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
    let [mut a, mut b] = [(7, 5.0), (5, 7.5)].map(|(factor, offset)| -> Vec<E> {
        let element = |i| E::from_f64(f64::from(i * factor % 16) - offset);
        (0..16).map(element).collect()
    });
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
                let is_moved = to[x * to_stride + r] == from[r * from_stride + x];
                assert!(is_moved, "{x} {r}");
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
