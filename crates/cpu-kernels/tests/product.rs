//! Products of large matrices against plain loops in `f64`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/calls.rs"]
mod calls;
#[path = "support/random.rs"]
mod random;

use calls::{on_threads, refuses};
use cpu_kernels::{
    LayerReal, Level, Matrix, Packing, ProductStart, column_sums, product, product_packed,
    product_sum,
};
use random::Random;

#[derive(Clone, Copy, Debug)]
struct Case {
    /// Rows, steps and columns.
    sizes: [usize; 3],
    /// Whether each operand is stored as its transpose.
    transposed: [bool; 2],
    /// Elements after each row of the operands.
    gap: usize,
    start: Start,
}

impl Case {
    /// Without gaps.
    fn new(sizes: [usize; 3], transposed: [bool; 2], start: Start) -> Self {
        Self {
            sizes,
            transposed,
            gap: 0,
            start,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Start {
    Zero,
    Row,
    Sum,
}

/// An operand, and its element at a row and column.
struct Operand<E> {
    data: Vec<E>,
    sizes: [usize; 2],
    stride: usize,
    is_transposed: bool,
}

impl<E: LayerReal> Operand<E> {
    fn new(random: &mut Random, mut sizes: [usize; 2], is_transposed: bool, gap: usize) -> Self {
        if is_transposed {
            sizes.reverse();
        }
        let stride = sizes[1] + gap;
        let mut data: Vec<E> = (0..sizes[0] * stride).map(|_| random.normal()).collect();
        for row in data.chunks_mut(stride.max(1)) {
            row[sizes[1]..].fill(E::from_f64(f64::NAN));
        }
        // The last row may end with its last element.
        data.truncate((sizes[0] * stride).saturating_sub(gap));
        Self {
            data,
            sizes,
            stride,
            is_transposed,
        }
    }

    fn matrix(&self) -> Matrix<'_, E> {
        let matrix = Matrix::strided(&self.data, self.sizes, self.stride);
        match self.is_transposed {
            true => matrix.transposed(),
            false => matrix,
        }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        let [row, column] = match self.is_transposed {
            true => [column, row],
            false => [row, column],
        };
        self.data[row * self.stride + column].to_f64()
    }
}

/// The product, and the largest difference of an element from the exact one.
fn run<E: LayerReal>(level: Level, case: Case) -> (Vec<E>, f64) {
    let [rows, steps, columns] = case.sizes;
    let mut random = Random::new(1);
    let [left, right] = case.transposed;
    let left = Operand::<E>::new(&mut random, [rows, steps], left, case.gap);
    let right = Operand::<E>::new(&mut random, [steps, columns], right, case.gap);
    let row: Vec<E> = (0..columns).map(|_| random.normal()).collect();
    let before: Vec<E> = (0..rows * columns).map(|_| random.normal()).collect();
    let nan = vec![E::from_f64(f64::NAN); before.len()];
    let (start, mut out) = match case.start {
        Start::Zero => (ProductStart::Zero, nan),
        Start::Row => (ProductStart::Row(&row), nan),
        Start::Sum => (ProductStart::Sum, before.clone()),
    };
    // Packed by one call, found by the next.
    let packing = Packing::default();
    let packed = [(); 2].map(|()| {
        let mut out = out.clone();
        let right = (right.matrix(), &packing);
        product_packed(level, left.matrix(), right, start, &mut out);
        out
    });
    // Some parts are empty.
    let (lefts, rights) = in_parts(&left, &right, &[0, 0, steps / 3, steps / 2, steps]);
    let mut sum = out.clone();
    product_sum(level, &lefts, &rights, start, &mut sum);
    product(level, left.matrix(), right.matrix(), start, &mut out);
    let bits = |out: &[E]| -> Vec<u64> { out.iter().map(|x| x.to_f64().to_bits()).collect() };
    for packed in packed {
        assert!(bits(&packed) == bits(&out), "{case:?}, packed");
    }
    assert!(bits(&sum) == bits(&out), "{case:?}, in parts");
    let mut error = 0.0_f64;
    // All of a small result, and some of a large one.
    let stride = (rows * columns / 3000).max(1);
    for at in (0..rows * columns).step_by(stride) {
        let (r, c) = (at / columns, at % columns);
        let sum: f64 = (0..steps).map(|t| left.at(r, t) * right.at(t, c)).sum();
        let start = match case.start {
            Start::Zero => 0.0,
            Start::Row => row[c].to_f64(),
            Start::Sum => before[at].to_f64(),
        };
        let difference = (out[at].to_f64() - sum - start).abs();
        assert!(!difference.is_nan(), "{case:?}: {at} was not written");
        error = error.max(difference);
    }
    (out, error)
}

/// The operands cut at these steps.
fn in_parts<'a, E: LayerReal>(
    left: &'a Operand<E>,
    right: &'a Operand<E>,
    cuts: &[usize],
) -> (Vec<Matrix<'a, E>>, Vec<Matrix<'a, E>>) {
    let parts = cuts.windows(2).map(|cut| cut[0]..cut[1]);
    let left = |part| left.matrix().columns(part);
    let pairs = parts.map(|part| (left(part.clone()), right.matrix().rows(part)));
    pairs.unzip()
}

/// In both types, on every level, with every way to store and to start.
fn check(sizes: [usize; 3]) {
    for level in Level::available() {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            for (start, gap) in [(Start::Zero, 0), (Start::Row, 3), (Start::Sum, 0)] {
                let case = Case {
                    gap,
                    ..Case::new(sizes, transposed, start)
                };
                let terms = (sizes[1] as f64).sqrt() + 1.0;
                let error = run::<f32>(level, case).1;
                assert!(error <= 2e-6 * terms, "{level:?} {case:?}: {error:e}");
                let error = run::<f64>(level, case).1;
                assert!(error <= 1e-14 * terms, "{level:?} {case:?}: {error:e}");
            }
        }
    }
}

#[test]
fn rows_around_a_register_block_and_a_task() {
    for rows in [1, 5, 6, 7, 11, 12, 13, 25, 95, 96, 97, 193] {
        check([rows, 9, 17]);
    }
    check([35, 18, 17]); // whole vectors of both, and more, to transpose
    if !cfg!(miri) {
        check([1600, 530, 17]); // more than what is transposed at a time
        check([900, 530, 17]); // the same, where tasks pack for themselves
    }
}

#[test]
fn columns_around_a_vector_and_a_panel() {
    for columns in [1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129] {
        check([7, 5, columns]);
    }
}

#[test]
fn steps_around_a_vector_and_a_block() {
    let steps = match cfg!(miri) {
        true => &[1, 15, 17][..],
        false => &[1, 2, 7, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1030],
    };
    for &steps in steps {
        check([7, steps, 19]);
    }
    if !cfg!(miri) {
        check([12, 1030, 5]); // tasks pack for themselves
        check([7, 515, 32]); // a right operand that is read in place
    }
}

#[test]
fn columns_beyond_a_block() {
    if !cfg!(miri) {
        check([14, 30, 1025]);
        check([1027, 3, 1090]);
        check([7, 30, 2064]); // a right operand that is read in place
    }
}

/// Panels of a task that packs several, the last of them cut, and more steps than are packed at a time.
#[test]
fn several_panels_of_one_task() {
    if !cfg!(miri) {
        on_threads(1, || check([13, 530, 450]));
    }
}

#[test]
fn without_steps_the_result_is_the_start() {
    for start in [Start::Zero, Start::Row, Start::Sum] {
        let case = Case::new([3, 0, 5], [false, false], start);
        assert_eq!(run::<f32>(Level::current(), case).1, 0.0);
    }
}

#[test]
fn without_rows_or_columns_there_is_nothing() {
    for sizes in [[0, 3, 5], [3, 5, 0], [0, 0, 0]] {
        check(sizes);
    }
}

#[test]
fn bits_do_not_depend_on_the_threads() {
    if cfg!(miri) {
        return;
    }
    for sizes in [[301, 1100, 130], [37, 64, 1030], [1200, 530, 130]] {
        let case = Case::new(sizes, [true, false], Start::Zero);
        let once = run::<f32>(Level::current(), case).0;
        for threads in [1, 2, 3, 5] {
            let again = on_threads(threads, || run::<f32>(Level::current(), case)).0;
            assert!(again == once, "{threads} threads: {case:?}");
        }
    }
}

#[test]
fn a_sum_of_products_is_one_product() {
    let (rows, columns) = (35, 70);
    let few: &[&[usize]] = &[&[0, 3, 3, 20]];
    let many = &[0, 128, 128, 500, 513, 700];
    let all: &[&[usize]] = &[&[0, 600], &[0, 1, 2, 3], many, &[0, 520, 1300]];
    let cuts = if cfg!(miri) { few } else { all };
    let ways = [[false, false], [true, false], [false, true], [true, true]];
    let cases = cuts.iter().flat_map(|cuts| ways.map(|which| (cuts, which)));
    for (cuts, transposed) in cases {
        let mut random = Random::new(3);
        let steps = cuts[cuts.len() - 1];
        let left = Operand::<f32>::new(&mut random, [rows, steps], transposed[0], 2);
        let right = Operand::<f32>::new(&mut random, [steps, columns], transposed[1], 2);
        let (lefts, rights) = in_parts(&left, &right, cuts);
        for level in Level::available() {
            let mut whole = vec![0.5; rows * columns];
            let start = ProductStart::Sum;
            product(level, left.matrix(), right.matrix(), start, &mut whole);
            let mut sum = vec![0.5; rows * columns];
            product_sum(level, &lefts, &rights, start, &mut sum);
            assert!(sum == whole, "{cuts:?} {transposed:?} {level:?}");
        }
    }
}

#[test]
fn sums_of_columns() {
    let mut random = Random::new(2);
    let small = [[0, 5], [1, 1], [3, 63], [64, 64], [65, 130]];
    let large = [[1000, 3], [1000, 517], [70, 4099]];
    for [rows, columns] in small.into_iter().chain(large) {
        let matrix: Vec<f32> = (0..rows * columns).map(|_| random.normal()).collect();
        let mut sums = vec![f32::NAN; columns];
        column_sums(&matrix, &mut sums);
        for (column, sum) in sums.into_iter().enumerate() {
            let below = matrix[column.min(matrix.len())..].iter().step_by(columns);
            let exact: f64 = below.map(|&x| f64::from(x)).sum();
            let error = (f64::from(sum) - exact).abs();
            let bound = 1e-6 * (1.0 + (rows as f64).sqrt());
            assert!(error <= bound, "{rows} {columns}: {error:e}");
        }
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let (zeros, start) = ([0.0_f32; 8], ProductStart::Zero);
    let (level, out) = (Level::current(), &mut [0.0; 8]);
    let matrix = |sizes: [usize; 2]| Matrix::new(&zeros[..sizes[0] * sizes[1]], sizes);
    refuses("product: right operand expected [3, 4], got [2, 4]", || {
        product(level, matrix([2, 3]), matrix([2, 4]), start, out);
    });
    // A sum of products of other rows, and of nothing.
    refuses("product: left operand expected [2, 1], got [3, 1]", || {
        let lefts = [matrix([2, 1]), matrix([3, 1])];
        product_sum(level, &lefts, &[matrix([1, 4]); 2], start, out);
    });
    let message = "expected some left operands and as many right ones, got 1 and 0";
    refuses(message, || {
        product_sum(level, &[matrix([2, 1])], &[], start, out)
    });
}

#[test]
fn a_packing_is_of_one_matrix_and_not_of_its_transpose() {
    let square = [1.0_f32, 2.0, 3.0, 4.0];
    let matrix = Matrix::new(&square, [2, 2]);
    let packing = Packing::default();
    let run = |right| {
        let (level, mut out) = (Level::current(), [0.0; 4]);
        let (right, start) = ((right, &packing), ProductStart::Zero);
        product_packed(level, matrix, right, start, &mut out);
        out
    };
    assert_eq!(run(matrix), [7.0, 10.0, 15.0, 22.0]);
    let both = "with a matrix or its transpose, got both";
    refuses(both, || run(matrix.transposed()));
}
