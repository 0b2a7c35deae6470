//! Pairs of features turned by given angles.

use attention_core::functional::rotate;
use attention_core::position::RotaryLayout;
use attention_tests::{Array, assert_close, assert_says, device, oracle, panic_message, refuses};
use burn::tensor::{DType, Device, Tensor};

const SHAPE: [usize; 4] = [2, 3, 5, 14];
const LAYOUTS: [RotaryLayout; 2] = [RotaryLayout::Interleaved, RotaryLayout::HalfSplit];

fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

fn check((device, dtype): (&Device, DType), layout: RotaryLayout, shape_of_angles: [usize; 3]) {
    let [batch, heads, num_rows, size] = SHAPE;
    let angles = Array::draw(1, &shape_of_angles);
    let tables = [f64::cos, f64::sin].map(|of| angles.map(of));
    let [cosines, sines] = tables.map(|table| table.tensor::<3>(device, wide(dtype)));
    // Heads as they lie after a projection: the axes of rows and heads exchanged.
    let given = Array::draw(2, &[batch, num_rows, heads, size]);
    let leaf = given.leaf::<4>(device, dtype);
    let rows = leaf.clone().swap_dims(1, 2);
    let output = rotate(rows.clone(), cosines, sines, layout);
    let received = Array::draw(3, &SHAPE);
    let loss = (output.clone() * received.tensor(device, dtype)).sum();
    let gradient = leaf.grad(&loss.backward()).unwrap().swap_dims(1, 2);
    let tolerance = 2.0 * device::epsilon(dtype);
    let what = |of| format!("{of} {dtype:?} {layout:?} {shape_of_angles:?}");
    let expected = oracle::rotated(&Array::read(rows), &angles, layout, 1.0);
    assert_close(what("rows"), output, &expected, tolerance);
    let expected = oracle::rotated(&received, &angles, layout, -1.0);
    assert_close(what("gradient"), gradient, &expected, tolerance);
}

#[test]
fn rows_are_turned_by_the_angles_and_gradients_turned_back() {
    device::each_training(device::in_all_types(|on| {
        let [batch, _, num_rows, size] = SHAPE;
        for layout in LAYOUTS {
            for (examples, pairs) in [(1, size / 2), (batch, size / 2), (1, 3), (batch, 5)] {
                check(on, layout, [examples, num_rows, pairs]);
            }
        }
    }));
}

#[test]
fn nothing_is_turned_to_nothing() {
    device::each(|device| {
        let output = |rows: [usize; 4], table: [usize; 3]| {
            let table = || Tensor::<3>::ones(table, device);
            let rows = Tensor::<4>::ones(rows, device);
            rotate(rows, table(), table(), RotaryLayout::HalfSplit).dims()
        };
        assert_eq!(output([2, 3, 0, 6], [1, 0, 3]), [2, 3, 0, 6]);
        assert_eq!(output([0, 3, 4, 6], [0, 4, 3]), [0, 3, 4, 6]);
        assert_eq!(output([0, 3, 4, 6], [1, 4, 3]), [0, 3, 4, 6]);
        assert_eq!(output([2, 3, 4, 6], [1, 4, 0]), [2, 3, 4, 6]);
        assert_eq!(output([2, 3, 4, 0], [1, 4, 0]), [2, 3, 4, 0]);
    });
}

#[test]
fn bad_angles_are_named() {
    device::each(|device| {
        let rows = |size| Tensor::<4>::ones([3, 2, 5, size], device);
        let table = |examples, rows, pairs| Tensor::<3>::ones([examples, rows, pairs], device);
        let refused = |size, cosines, sines| {
            panic_message(|| rotate(rows(size), cosines, sines, RotaryLayout::Interleaved))
        };
        let expected = "expected [3 or 1, 5, at most 2], got";
        #[rustfmt::skip]
        let cases = [
            (refused(5, table(1, 5, 3), table(1, 5, 3)), "cosines", "[1, 5, 3]"),
            (refused(4, table(1, 4, 2), table(1, 5, 2)), "cosines", "[1, 4, 2]"),
            (refused(4, table(3, 5, 2), table(2, 5, 2)), "sines", "[2, 5, 2]"),
        ];
        for (message, name, part) in cases {
            assert_says(message, &format!("{name} {expected} {part}"));
        }
        let message = refused(4, table(3, 5, 2), table(1, 5, 2));
        let expected = "sines expected [3, 5, 2], as the cosines, got [1, 5, 2]";
        assert_says(&message, expected);
        if device::computes(device, DType::F16) {
            let (half, layout) = (rows(4).cast(DType::F16), RotaryLayout::HalfSplit);
            let table = || table(1, 5, 2).cast(DType::F16);
            let expected = "expected F32 beside rows of F16";
            refuses(expected, || rotate(half, table(), table(), layout));
        }
    });
}
