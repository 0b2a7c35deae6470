//! Pairs of features turned by given angles.

use attention_core::functional::rotate;
use attention_tests::{Array, assert_close, device, panic_message};
use burn::tensor::{DType, Tensor};

const SHAPE: [usize; 4] = [2, 3, 5, 14];

/// The pairs of `rows`, `[batch, heads, rows, size]`, turned by the angles `[rows, size / 2]` times `direction`.
fn turned(rows: &Array, angles: &Array, direction: f64) -> Array {
    Array::from_fn(&rows.shape, |at| {
        let (sine, cosine) = (direction * angles.at(&[at[2], at[3] / 2])).sin_cos();
        let element = |x: usize| rows.at(&[at[0], at[1], at[2], x]);
        if at[3].is_multiple_of(2) {
            element(at[3]) * cosine - element(at[3] + 1) * sine
        } else {
            element(at[3]) * cosine + element(at[3] - 1) * sine
        }
    })
}

#[test]
fn rows_are_turned_by_the_angles_and_gradients_turned_back() {
    device::each_training(|device| {
        let [batch, heads, num_rows, size] = SHAPE;
        let angles = Array::draw(1, &[num_rows, size / 2]);
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            if !device::computes(device, dtype) {
                continue;
            }
            let wide = match dtype {
                DType::F64 => DType::F64,
                _ => DType::F32,
            };
            let [cosines, sines] =
                [f64::cos, f64::sin].map(|of| angles.map(of).tensor::<2>(device, wide));
            // Heads as they lie after a projection: the axes of rows and heads exchanged.
            let given = Array::draw(2, &[batch, num_rows, heads, size]);
            let leaf = given.tensor::<4>(device, dtype).require_grad();
            let rows = leaf.clone().swap_dims(1, 2);
            let output = rotate(rows.clone(), cosines, sines);
            let received = Array::draw(3, &SHAPE);
            let loss = (output.clone() * received.tensor(device, dtype)).sum();
            let gradient = leaf.grad(&loss.backward()).unwrap().swap_dims(1, 2);
            let tolerance = 2.0 * device::epsilon(dtype);
            let what = |of| format!("{of} {dtype:?}");
            let expected = turned(&Array::read(rows), &angles, 1.0);
            assert_close(&what("rows"), &Array::read(output), &expected, tolerance);
            let expected = turned(&received, &angles, -1.0);
            let gradient = Array::read(gradient);
            assert_close(&what("gradient"), &gradient, &expected, tolerance);
        }
    });
}

#[test]
fn nothing_is_turned_to_nothing() {
    device::each(|device| {
        let table = || Tensor::<2>::ones([0, 3], device);
        let output = rotate(Tensor::<4>::ones([2, 3, 0, 6], device), table(), table());
        assert_eq!(output.dims(), [2, 3, 0, 6]);
    });
}

#[test]
fn what_does_not_fit_says_what_was_expected() {
    device::each(|device| {
        let rows = |size| Tensor::<4>::ones([1, 2, 3, size], device);
        let table = |rows, pairs| Tensor::<2>::ones([rows, pairs], device);
        let messages = [
            panic_message(|| rotate(rows(5), table(3, 2), table(3, 2))),
            panic_message(|| rotate(rows(4), table(2, 2), table(3, 2))),
            panic_message(|| rotate(rows(4), table(3, 2), table(3, 4))),
        ];
        for (message, part) in messages.iter().zip(["size expected even, got 5", "2", "4"]) {
            assert!(message.contains(part), "{message}");
        }
        if device::computes(device, DType::F16) {
            let half = || rows(4).cast(DType::F16);
            let table = || table(3, 2).cast(DType::F16);
            let message = panic_message(|| rotate(half(), table(), table()));
            assert!(
                message.contains("expected F32 beside rows of F16"),
                "{message}"
            );
        }
    });
}
