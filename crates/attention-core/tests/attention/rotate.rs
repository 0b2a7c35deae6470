//! Pairs of features turned by given angles.

use attention_core::functional::rotate;
use attention_core::{Positions, RotaryLayout};
use attention_tests::{Array, assert_close, device, panic_message};
use burn::tensor::{DType, Device, Tensor};

const SHAPE: [usize; 4] = [2, 3, 5, 14];
const LAYOUTS: [RotaryLayout; 2] = [RotaryLayout::Interleaved, RotaryLayout::HalfSplit];

/// The pairs of `rows`, `[batch, heads, rows, size]`, turned by the angles `[batch or 1, rows, pairs]` times
/// `direction`.
fn turned(rows: &Array, angles: &Array, layout: RotaryLayout, direction: f64) -> Array {
    let [examples, _, pairs] = angles.shape[..] else {
        panic!("three axes of angles");
    };
    Array::from_fn(&rows.shape, |at| {
        let x = at[3];
        let element = |x: usize| rows.at(&[at[0], at[1], at[2], x]);
        if x >= 2 * pairs {
            return element(x);
        }
        let (pair, is_first, other) = match layout {
            RotaryLayout::Interleaved => (x / 2, x.is_multiple_of(2), x ^ 1),
            RotaryLayout::HalfSplit => (x % pairs, x < pairs, (x + pairs) % (2 * pairs)),
        };
        let angle = direction * angles.at(&[at[0] % examples, at[2], pair]);
        let sign = if is_first { -1.0 } else { 1.0 };
        element(x) * angle.cos() + sign * element(other) * angle.sin()
    })
}

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
    let leaf = given.tensor::<4>(device, dtype).require_grad();
    let rows = leaf.clone().swap_dims(1, 2);
    let output = rotate(rows.clone(), cosines, sines, layout);
    let received = Array::draw(3, &SHAPE);
    let loss = (output.clone() * received.tensor(device, dtype)).sum();
    let gradient = leaf.grad(&loss.backward()).unwrap().swap_dims(1, 2);
    let tolerance = 2.0 * device::epsilon(dtype);
    let what = |of| format!("{of} {dtype:?} {layout:?} {shape_of_angles:?}");
    let expected = turned(&Array::read(rows), &angles, layout, 1.0);
    assert_close(&what("rows"), &Array::read(output), &expected, tolerance);
    let expected = turned(&received, &angles, layout, -1.0);
    let gradient = Array::read(gradient);
    assert_close(&what("gradient"), &gradient, &expected, tolerance);
}

#[test]
fn rows_are_turned_by_the_angles_and_gradients_turned_back() {
    device::each_training(|device| {
        let [batch, _, num_rows, size] = SHAPE;
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            if !device::computes(device, dtype) {
                continue;
            }
            for layout in LAYOUTS {
                for (examples, pairs) in [(1, size / 2), (batch, size / 2), (1, 3), (batch, 5)] {
                    check((device, dtype), layout, [examples, num_rows, pairs]);
                }
            }
        }
    });
}

/// ONNX's `RotaryEmbedding` (opset 23), whose input has three axes, or four with the heads after the batch.
#[test]
fn onnx_rotary_embedding_is_one_call() {
    device::each(|device| {
        let [batch, heads, num_rows, size] = SHAPE;
        let (max_positions, pairs) = (11, 5);
        let [cosines, sines] =
            [f64::cos, f64::sin].map(|of| Array::draw(1, &[max_positions, pairs]).map(of));
        let ids = Array::from_fn(&[batch, num_rows], |at| {
            ((3 + 7 * at[0] + 4 * at[1]) % max_positions) as f64
        });
        let input = Array::draw(2, &[batch, num_rows, heads * size]);
        for layout in LAYOUTS {
            // As its specification says: caches are gathered, features split and joined again.
            let expected = Array::from_fn(&input.shape, |at| {
                let (head, x) = (at[2] / size, at[2] % size);
                let element = |x: usize| input.at(&[at[0], at[1], head * size + x]);
                if x >= 2 * pairs {
                    return element(x);
                }
                let id = ids.at(&at[..2]) as usize;
                let (pair, is_real) = match layout {
                    RotaryLayout::Interleaved => (x / 2, x.is_multiple_of(2)),
                    RotaryLayout::HalfSplit => (x % pairs, x < pairs),
                };
                let (real, imaginary) = match layout {
                    RotaryLayout::Interleaved => (element(2 * pair), element(2 * pair + 1)),
                    RotaryLayout::HalfSplit => (element(pair), element(pair + pairs)),
                };
                let (cos, sin) = (cosines.at(&[id, pair]), sines.at(&[id, pair]));
                if is_real {
                    cos * real - sin * imaginary
                } else {
                    sin * real + cos * imaginary
                }
            });
            let split = [batch, num_rows, heads, size];
            let rows = input.f32::<3>(device).reshape(split).swap_dims(1, 2);
            let positions = Positions::per_token(ids.int::<2>(device));
            let [cosines, sines] = [&cosines, &sines]
                .map(|cache| positions.select(&cache.f32(device), [batch, num_rows]));
            let output = rotate(rows, cosines, sines, layout).swap_dims(1, 2);
            let output = output.reshape([batch, num_rows, heads * size]);
            assert_close(
                &format!("{layout:?}"),
                &Array::read(output),
                &expected,
                1e-6,
            );
        }
    });
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
        for (message, name, part) in [
            (
                refused(5, table(1, 5, 3), table(1, 5, 3)),
                "cosines",
                "[1, 5, 3]",
            ),
            (
                refused(4, table(1, 4, 2), table(1, 5, 2)),
                "cosines",
                "[1, 4, 2]",
            ),
            (
                refused(4, table(3, 5, 2), table(2, 5, 2)),
                "sines",
                "[2, 5, 2]",
            ),
        ] {
            let expected = format!("{name} {expected} {part}");
            assert!(message.contains(&expected), "{message}: {expected}");
        }
        let message = refused(4, table(3, 5, 2), table(1, 5, 2));
        let expected = "sines expected [3, 5, 2], as the cosines, got [1, 5, 2]";
        assert!(message.contains(expected), "{message}");
        if device::computes(device, DType::F16) {
            let half = || rows(4).cast(DType::F16);
            let table = || table(1, 5, 2).cast(DType::F16);
            let layout = RotaryLayout::HalfSplit;
            let message = panic_message(|| rotate(half(), table(), table(), layout));
            let expected = "expected F32 beside rows of F16";
            assert!(message.contains(expected), "{message}");
        }
    });
}
