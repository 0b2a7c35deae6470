//! PyTorch's `scaled_dot_product_attention`.

use attention_core::Mask;
use attention_core::functional::{AttentionOptions, dot_product_attention};
use attention_tests::conformance::{Case, CausalBias, TorchAttention, TypedArray};
use attention_tests::heads::On;
use attention_tests::{Array, device};

use super::{
    By, DROPOUT, assert_conforms, assert_gradient_conforms, cases_in_scope, tolerance, with_axes,
};

/// The mask in four axes: with three, inputs have no heads, and neither has the mask.
fn mask_axes(array: &Array, axes: usize) -> Array {
    match array.shape[..] {
        [batch, queries, keys] if axes == 3 => array.reshape(&[batch, 1, queries, keys]),
        _ => with_axes(array, 4),
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
    // One example may have no batch, beside others that have one.
    let input = |name: &str| with_axes(&case.inputs[name].array, D).tensor::<D>(device, dtype);
    let leaves = ["query", "key", "value"].map(|name| input(name).require_grad());
    let mut options = AttentionOptions {
        mask: positions(&case.attributes),
        scale: case.attributes.scale,
        ..AttentionOptions::default()
    };
    let mut float_mask = None;
    if let Some(TypedArray { array, element }) = case.inputs.get("attn_mask") {
        let array = mask_axes(array, D);
        if element.float().is_some() {
            let leaf = array.leaf::<4>(device, dtype);
            options.bias = Some(leaf.clone());
            float_mask = Some(leaf);
        } else {
            options.mask &= Mask::keep(array.bool::<4>(device));
        }
    }
    let [query, key, value] = leaves.clone();
    let output = dot_product_attention(query, key, value, &options);
    let gradients = (output.clone() * input("grad_output")).sum().backward();
    let what = format!("{}: output, {dtype:?}", case.name);
    let expected = &case.outputs["output"].array;
    assert_conforms(&what, &Array::read(output), expected, tolerance(dtype));
    let check = |name: &str, gradient: Array| {
        let expected = &case.gradients[name].array;
        let gradient = gradient.reshape(&expected.shape);
        assert_gradient_conforms(case, name, &gradient, expected, dtype);
    };
    for (name, leaf) in ["query", "key", "value"].into_iter().zip(&leaves) {
        check(name, Array::read(leaf.grad(&gradients).unwrap()));
    }
    if let Some(leaf) = float_mask {
        check("attn_mask", Array::read(leaf.grad(&gradients).unwrap()));
    }
}

#[test]
fn torch_attention() {
    let cases = cases_in_scope::<TorchAttention>(DROPOUT, |_| By::OneCall, [95, 95]);
    device::each_training(device::in_each_type(|on| {
        for case in &cases {
            match case.inputs["key"].array.shape.len() {
                3 => check::<3>(case, on),
                _ => check::<4>(case, on),
            }
        }
    }));
}
