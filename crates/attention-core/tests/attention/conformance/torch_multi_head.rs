//! PyTorch's `nn.MultiheadAttention`.

use attention_core::functional::{AttentionOptions, weight_of_no_key};
use attention_core::{
    DotProductScore, Mask, MultiHeadAttention, MultiHeadAttentionConfig, MultiHeadAttentionOutput,
};
use attention_tests::conformance::{self, TorchMultiHead, TypedArray, TypedArrays};
use attention_tests::heads::{Inputs, On, parameters_of_pytorch};
use attention_tests::{Array, Outcome, device, parameters};
use burn::tensor::Tensor;

use super::{
    By, DROPOUT, assert_conforms, assert_gradient_conforms, cases_in_scope, tolerance, with_axes,
};

type Case = conformance::Case<TorchMultiHead>;

/// `[batch, rows, size]`, whichever comes first in the case.
fn with_batch_first(case: &Case, array: &Array) -> Array {
    match case.attributes.batch_first {
        true => array.clone(),
        false => array.permute(&[1, 0, 2]),
    }
}

fn arrays(typed: &TypedArrays) -> Inputs {
    let array = |(name, typed): (&String, &TypedArray)| (name.clone(), typed.array.clone());
    typed.iter().map(array).collect()
}

/// The module with the parameters of the case.
fn module(case: &Case, (device, dtype): On) -> MultiHeadAttention<DotProductScore> {
    let size = |name: &str| case.inputs[name].array.shape[2];
    let module = MultiHeadAttentionConfig::new(size("query"), case.attributes.num_heads)
        .with_key_size(Some(size("key")))
        .with_value_size(Some(size("value")))
        .with_bias(case.attributes.bias)
        .init(device);
    let theirs = parameters_of_pytorch(&arrays(&case.inputs));
    let module = parameters::cast(module, dtype);
    parameters::changed(module, |path, _| theirs[path].clone())
}

/// Float masks as one bias, and their leaves; those that are boolean as a mask.
struct Masks {
    mask: Mask,
    bias: Option<Tensor<4>>,
    leaves: Vec<(&'static str, Tensor<4>)>,
}

impl Masks {
    fn new(case: &Case, (device, dtype): On) -> Self {
        let mut masks = Self {
            mask: Mask::none(),
            bias: None,
            leaves: Vec::new(),
        };
        for name in ["attn_mask", "key_padding_mask"] {
            let Some(TypedArray { array, element }) = case.inputs.get(name) else {
                continue;
            };
            let heads = case.attributes.num_heads;
            let array = match array.shape[..] {
                [batch, keys] if name == "key_padding_mask" => array.reshape(&[batch, 1, 1, keys]),
                [rows, queries, keys] => array.reshape(&[rows / heads, heads, queries, keys]),
                _ => with_axes(array, 4),
            };
            if element.float().is_some() {
                let leaf = array.leaf::<4>(device, dtype);
                // PyTorch adds up its masks.
                masks.bias = Some(match masks.bias.take() {
                    Some(bias) => bias + leaf.clone(),
                    None => leaf.clone(),
                });
                masks.leaves.push((name, leaf));
            } else {
                masks.mask &= Mask::drop(array.bool::<4>(device));
            }
        }
        masks
    }
}

/// The weights as PyTorch returns them: averaged over the heads (whose axis is 1 then) unless the case says otherwise,
/// and the zero key's included.
fn weights_of_suite(case: &Case, output: &MultiHeadAttentionOutput) -> Tensor<4> {
    let weights = match case.attributes.average_attn_weights {
        true => output.mean_weights().unsqueeze_dim(1),
        false => output.weights.clone(),
    };
    match case.attributes.add_zero_attn {
        true => Tensor::cat(vec![weights.clone(), weight_of_no_key(weights)], 3),
        false => weights,
    }
}

/// A suite's last column of weights is the result of a call of its own.
fn by(case: &Case) -> By {
    let masks = ["attn_mask", "key_padding_mask"].map(|name| case.inputs.get(name));
    let are_float = masks.map(|mask| mask.is_some_and(|mask| mask.element.float().is_some()));
    let has_weights = case.outputs.contains_key("weights");
    if are_float == [true; 2] {
        // They are added up.
        By::Tensors
    } else if has_weights && case.attributes.add_zero_attn {
        By::Calls
    } else {
        By::OneCall
    }
}

fn check(case: &Case, on: On) {
    let (device, dtype) = on;
    let module = module(case, on);
    let rows = ["query", "key", "value"].map(|name| {
        let rows = with_batch_first(case, &case.inputs[name].array);
        rows.leaf::<3>(device, dtype)
    });
    let leaf = |row: &TypedArray| row.array.leaf::<3>(device, dtype);
    let extra = ["bias_k", "bias_v"].map(|name| case.inputs.get(name).map(leaf));
    let heads = case.attributes.num_heads;
    let split = |row: &Tensor<3>| {
        let [_, _, size] = row.dims();
        row.clone().reshape([1, heads, 1, size / heads])
    };
    let extra_keys = match &extra {
        [Some(key), Some(value)] => Some([split(key), split(value)]),
        _ => None,
    };
    let masks = Masks::new(case, on);
    let options = AttentionOptions {
        mask: masks.mask,
        bias: masks.bias,
        extra_keys,
        zero_key: case.attributes.add_zero_attn,
        ..AttentionOptions::default()
    };
    let [query, key, value] = rows.clone();
    let received = |name: &str| &case.inputs[name].array;
    let of_output = with_batch_first(case, received("grad_output")).tensor::<3>(device, dtype);
    let (context, weights) = if case.outputs.contains_key("weights") {
        let output = module.forward_with_weights(query, key, value, options);
        let weights = weights_of_suite(case, &output);
        (output.context, Some(weights))
    } else {
        (module.forward(query, key, value, options), None)
    };
    let assert_output = |name: &str, actual: Array, expected: Array| {
        let what = format!("{}: {name}, {dtype:?}", case.name);
        let actual = actual.reshape(&expected.shape);
        assert_conforms(&what, &actual, &expected, tolerance(dtype));
    };
    let expected = with_batch_first(case, &case.outputs["output"].array);
    assert_output("output", Array::read(context.clone()), expected);
    let mut loss = (context * of_output).sum();
    if let Some(weights) = weights {
        let expected = case.outputs["weights"].array.clone();
        assert_output("weights", Array::read(weights.clone()), expected);
        let of_weights = received("grad_weights").reshape(&weights.dims());
        loss = loss + (weights * of_weights.tensor::<4>(device, dtype)).sum();
    }
    let gradients = loss.backward();
    let mut found = parameters::gradients(&module, Some(&gradients));
    let of_rows = ["query", "key", "value"].into_iter().zip(rows.map(Some));
    let of_extra = ["bias_k", "bias_v"].into_iter().zip(extra);
    for (name, rows) in of_rows.chain(of_extra) {
        let gradient = rows.map(|rows| Array::read(rows.grad(&gradients).unwrap()));
        found.extend(gradient.map(|gradient| (name.to_string(), gradient)));
    }
    for (name, mask) in masks.leaves {
        let gradient = Array::read(mask.grad(&gradients).unwrap());
        found.insert(name.to_string(), gradient);
    }
    for (name, expected) in expected_gradients(case) {
        let actual = found[&name].reshape(&expected.shape);
        assert_gradient_conforms(case, &name, &actual, &expected, dtype);
    }
}

/// Gradients under our names and in our layout.
fn expected_gradients(case: &Case) -> Outcome {
    let theirs = arrays(&case.gradients);
    let mut ours = parameters_of_pytorch(&theirs);
    for (name, gradient) in &theirs {
        match name.as_str() {
            "query" | "key" | "value" => {
                ours.insert(name.clone(), with_batch_first(case, gradient));
            }
            "bias_k" | "bias_v" | "attn_mask" | "key_padding_mask" => {
                ours.insert(name.clone(), gradient.clone());
            }
            _ => {}
        }
    }
    // PyTorch keeps three projections in one tensor.
    let packed = theirs.keys().filter(|name| name.starts_with("in_proj"));
    let expected = theirs.len() + 2 * packed.count();
    assert_eq!(ours.len(), expected, "{}", case.name);
    ours
}

#[test]
fn torch_multi_head() {
    let cases = cases_in_scope(DROPOUT, by, [28, 49]);
    device::each_training(device::in_each_type(|on| {
        for case in &cases {
            check(case, on);
        }
    }));
}
