//! ONNX's operator `RotaryEmbedding`.

use attention_core::functional::rotate;
use attention_core::position::{Positions, RotaryLayout};
use attention_tests::conformance::{Case, OnnxRotaryEmbedding};
use attention_tests::{Array, device};
use burn::tensor::{DType, Device, Tensor};

use super::{By, assert_conforms, cases_in_scope, split_heads, tolerance};

type Rotation = Case<OnnxRotaryEmbedding>;

/// The cosines or sines of each row: the case's own, or rows of its cache.
fn angles(case: &Rotation, name: &str, sizes: [usize; 2], device: &Device) -> Tensor<3> {
    let cache = &case.inputs[name].array;
    match case.inputs.get("position_ids") {
        Some(positions) => {
            let positions = Positions::per_token(positions.array.int(device));
            positions.select(&cache.f32(device), sizes)
        }
        None => cache.f32(device),
    }
}

fn check(case: &Rotation, device: &Device) {
    let attributes = &case.attributes;
    let rows = split_heads(&case.inputs["input"].array, attributes.num_heads).f32::<4>(device);
    let [batch, _, num_rows, _] = rows.dims();
    let angles = |name| angles(case, name, [batch, num_rows], device);
    let [cosines, sines] = ["cos_cache", "sin_cache"].map(angles);
    let [.., pairs] = cosines.dims();
    assert!([0, 2 * pairs].contains(&attributes.rotary_embedding_dim));
    let layout = match attributes.interleaved {
        0 => RotaryLayout::HalfSplit,
        _ => RotaryLayout::Interleaved,
    };
    let turned = Array::read(rotate(rows, cosines, sines, layout));
    let expected = split_heads(&case.outputs["output"].array, attributes.num_heads);
    assert_conforms(&case.name, &turned, &expected, tolerance(DType::F32));
}

fn by(case: &Rotation) -> By {
    match case.inputs.contains_key("position_ids") {
        true => By::Calls,
        false => By::OneCall,
    }
}

#[test]
fn onnx_rotary_embedding() {
    let cases = cases_in_scope(&[], by, [3, 8]);
    device::each(|device| {
        for case in &cases {
            check(case, device);
        }
    });
}
