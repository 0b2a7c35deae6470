//! PyTorch's `scaled_dot_product_attention`.

use attention_core::Mask;
use attention_core::functional::{AttentionOptions, dot_product_attention};
use attention_tests::conformance::{Case, CausalBias, TorchAttention, TypedArray};
use attention_tests::heads::{On, in_each_type};
use attention_tests::{Array, device};

use super::{OutOfScope, assert_conforms, cases_in_scope, tolerance, with_four_axes};

const OUT_OF_SCOPE: OutOfScope = &[
    (
        "broadcast_batch",
        "queries without a batch: inputs are not broadcast",
    ),
    (
        "dropout",
        "PyTorch's own draw of the weights that are dropped",
    ),
];

/// The mask in four axes: with three, inputs have no heads, and neither has the mask.
fn mask_axes(array: &Array, axes: usize) -> Array {
    match array.shape[..] {
        [batch, queries, keys] if axes == 3 => array.reshape(&[batch, 1, queries, keys]),
        _ => with_four_axes(array),
    }
}

fn positions(attributes: &TorchAttention) -> Mask {
    match (attributes.is_causal, attributes.attn_bias) {
        (true, _) | (_, Some(CausalBias::UpperLeft)) => Mask::causal_top_left(),
        (_, Some(CausalBias::LowerRight)) => Mask::causal(),
        _ => Mask::none(),
    }
}

fn check<const D: usize>(case: &Case<TorchAttention>, on: On) {
    let (device, dtype) = on;
    let leaves = ["query", "key", "value"].map(|name| {
        let rows = case.inputs[name].array.tensor::<D>(device, dtype);
        rows.require_grad()
    });
    let keys = leaves[1].dims()[D - 2];
    let mut options = AttentionOptions {
        mask: positions(&case.attributes),
        scale: case.attributes.scale,
        ..AttentionOptions::default()
    };
    let mut float_mask = None;
    if let Some(TypedArray { array, element }) = case.inputs.get("attn_mask") {
        let array = mask_axes(array, D);
        if element.float().is_some() {
            let leaf = array.tensor::<4>(device, dtype).require_grad();
            let copies = keys / leaf.dims()[3];
            options.bias = Some(leaf.clone().repeat_dim(3, copies));
            float_mask = Some(leaf);
        } else {
            options.mask = options.mask & Mask::keep(array.bool::<4>(device));
        }
    }
    let [query, key, value] = leaves.clone();
    let output = dot_product_attention(query, key, value, &options);
    let received = case.inputs["grad_output"].array.tensor::<D>(device, dtype);
    let gradients = (output.clone() * received).sum().backward();
    let check = |of: &str, actual: &Array, expected: &Array| {
        let what = format!("{}: {of}, {dtype:?}", case.name);
        assert_conforms(&what, actual, expected, tolerance(dtype));
    };
    check(
        "output",
        &Array::read(output),
        &case.outputs["output"].array,
    );
    for (name, leaf) in ["query", "key", "value"].into_iter().zip(&leaves) {
        let gradient = Array::read(leaf.grad(&gradients).unwrap());
        check(
            &format!("grad {name}"),
            &gradient,
            &case.gradients[name].array,
        );
    }
    if let Some(leaf) = float_mask {
        let expected = &case.gradients["attn_mask"].array;
        let gradient = Array::read(leaf.grad(&gradients).unwrap()).reshape(&expected.shape);
        check("grad attn_mask", &gradient, expected);
    }
}

#[test]
fn torch_attention() {
    let cases = cases_in_scope::<TorchAttention>(OUT_OF_SCOPE);
    device::each_training(in_each_type(|on| {
        for case in &cases {
            match case.inputs["query"].array.shape.len() {
                3 => check::<3>(case, on),
                _ => check::<4>(case, on),
            }
        }
    }));
}
