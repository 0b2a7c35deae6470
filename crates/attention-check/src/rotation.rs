//! Rows turned by angles.

use attention_core::{RotaryLayout, functional};
use burn::tensor::{DType, Tensor, TensorData};

use crate::case::Sizes;
use crate::check::{Check, Input, Outcome, draw};
use crate::plain::rotation::Rotation;

/// The checks of an angle for each pair of each row: of neighbours that make up whole rows, the angles the same in all
/// examples; and of features from two halves, before some that stay, each example with its own angles.
pub(crate) fn checks(sizes: Sizes) -> Vec<Check> {
    let Sizes {
        batch,
        heads,
        queries: rows,
        size: pairs,
        ..
    } = sizes;
    let check = |name, size, examples, layout| {
        let rotation = Rotation {
            batch,
            heads,
            rows,
            size,
            examples,
            pairs,
            is_interleaved: layout == RotaryLayout::Interleaved,
        };
        let shape = [batch, heads, rows, size];
        Check::new(
            ["rotation", name],
            [Input::drawn(17, shape, 1.0)],
            draw(18, shape, 1.0),
            move |[rows], given| {
                let gradient = rotation.rotate(given.grad_output, -1.0);
                Outcome::new(rotation.rotate(rows, 1.0), [gradient])
            },
            move |[rows]| {
                let dtype = match rows.dtype() {
                    DType::F64 => DType::F64,
                    _ => DType::F32,
                };
                let options = (&rows.device(), dtype);
                let table = |of: fn(f64) -> f64| {
                    let angles = rotation.angles().into_iter().map(of).collect();
                    let data = TensorData::new(angles, rotation.shape_of_angles());
                    Tensor::<3>::from_data(data, options)
                };
                let [cosines, sines] = [f64::cos, f64::sin].map(table);
                functional::rotate(rows, cosines, sines, layout)
            },
        )
    };
    vec![
        check(
            "angle of each pair",
            2 * pairs,
            1,
            RotaryLayout::Interleaved,
        ),
        check(
            "half-split pairs, partial, per example",
            2 * pairs + 3,
            batch,
            RotaryLayout::HalfSplit,
        ),
    ]
}
