//! Rows turned by angles.

use attention_core::functional;
use burn::tensor::{DType, Tensor, TensorData};

use crate::case::Sizes;
use crate::check::{Check, Input, Outcome, draw};
use crate::plain::rotation as plain;

/// The check of an angle for each pair of each row.
pub(crate) fn checks(sizes: Sizes) -> Vec<Check> {
    let Sizes {
        batch,
        heads,
        queries: num_rows,
        size: pairs,
        ..
    } = sizes;
    let shape @ [.., size] = [batch, heads, num_rows, 2 * pairs];
    let check = Check::new(
        ["rotation", "angle of each pair"],
        [Input::drawn(17, shape, 1.0)],
        draw(18, shape, 1.0),
        move |[rows], given| {
            let gradient = plain::rotate(given.grad_output, [num_rows, size], -1.0);
            Outcome::new(plain::rotate(rows, [num_rows, size], 1.0), [gradient])
        },
        move |[rows]| {
            let dtype = match rows.dtype() {
                DType::F64 => DType::F64,
                _ => DType::F32,
            };
            let options = (&rows.device(), dtype);
            let table = |of: fn(f64) -> f64| {
                let angles =
                    (0..num_rows * pairs).map(|at| plain::angle(at / pairs, at % pairs, 1.0));
                let data = TensorData::new(angles.map(of).collect(), [num_rows, pairs]);
                Tensor::<2>::from_data(data, options)
            };
            let [cosines, sines] = [f64::cos, f64::sin].map(table);
            functional::rotate(rows, cosines, sines)
        },
    );
    vec![check]
}
