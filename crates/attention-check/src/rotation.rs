//! Rows rotated by angles.

use attention_core::functional;
use attention_core::position::RotaryLayout::{HalfSplit, Interleaved};
use attention_oracle::Rotation;
use burn::tensor::{DType, Tensor, TensorData};

use crate::case::Sizes;
use crate::check::{Check, Input, Outcome, draw};

/// The checks with an angle for each pair of each row: neighbours that make up whole rows, with the same angles in all
/// examples; and features from two halves, before some that stay, with angles of each example.
pub(crate) fn checks(sizes: Sizes) -> Vec<Check> {
    let (batch, rows, pairs) = (sizes.batch, sizes.queries, sizes.size);
    let check = |name, size, examples, layout| {
        let shape = [batch, sizes.heads, rows, size];
        let angles = angles([examples, rows, pairs]);
        let on_device = angles.clone();
        let rotate = move |rows: &[f64], direction| {
            let rotation = Rotation {
                shape,
                angles: &angles,
                pairs,
                is_interleaved: layout == Interleaved,
            };
            rotation.rotate(rows, direction)
        };
        Check::new(
            ["rotation", name],
            [Input::drawn(17, shape, 1.0)],
            draw(18, shape, 1.0),
            move |[rows], given| {
                let gradient = rotate(given.grad_output, -1.0);
                Outcome::new(rotate(rows, 1.0), [gradient])
            },
            move |[input]| {
                let dtype = match input.dtype() {
                    DType::F64 => DType::F64,
                    _ => DType::F32,
                };
                let options = (&input.device(), dtype);
                let table = |of: fn(f64) -> f64| {
                    let elements = on_device.iter().copied().map(of).collect();
                    let data = TensorData::new(elements, [examples, rows, pairs]);
                    Tensor::<3>::from_data(data, options)
                };
                let [cosines, sines] = [f64::cos, f64::sin].map(table);
                functional::rotate(input, cosines, sines, layout)
            },
        )
    };
    vec![
        check("angle of each pair", 2 * pairs, 1, Interleaved),
        check(
            "half-split pairs, partial, per example",
            2 * pairs + 3,
            batch,
            HalfSplit,
        ),
    ]
}

fn angles([examples, rows, pairs]: [usize; 3]) -> Vec<f64> {
    let place = |at: usize| [at / pairs / rows, at / pairs % rows, at % pairs];
    let angle = |[example, row, pair]: [usize; 3]| {
        1.1 * example as f64 + 0.7 * row as f64 + 0.3 * pair as f64
    };
    (0..examples * rows * pairs).map(place).map(angle).collect()
}
