//! Arguments of different types or devices are refused in a sentence that names both.

use attention_core::functional::AttentionOptions;
use attention_core::score::{CosineScoreConfig, GaussianScoreConfig, QkNormScoreConfig};
use attention_core::stateful::{CoverageAttentionConfig, StatefulAttention};
use attention_core::{
    AdditiveAttentionConfig, Attention, Mask, Memory, MultiHeadAttentionConfig, ScoringFunction,
    functional,
};
use attention_tests::{assert_says, device, panic_message};
use burn::nn::LinearConfig;
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, RecurrentState, Steps};
use burn_fused_layers::{ClassTargets, PackedLinear, linear, linear_cross_entropy};

/// A tensor that differs from what an operation is made for: in its type, or in its device.
type Other<'a> = &'a dyn Fn(Tensor<4>) -> Tensor<4>;

/// The calls with one argument that differs, which is the named one, and the argument that it is compared with.
fn mixed_calls(device: &Device, other: Other) -> Vec<(&'static str, &'static str, String)> {
    let rows = |len, size| Tensor::<4>::ones([2, 1, len, size], device);
    let of_three = |tensor: Tensor<4>| tensor.squeeze_dim::<3>(1);
    let four = |len, size| other(rows(len, size));
    let three = |len, size| of_three(four(len, size));
    let vector = |size: usize| other(Tensor::ones([1, 1, 1, size], device)).reshape([size]);
    let matrix = |len: usize, size: usize| {
        let tensor = other(Tensor::ones([1, 1, len, size], device));
        tensor.reshape([len, size])
    };
    let ones = |size: usize| Tensor::<1>::ones([size], device);
    let flat = |len, size| Tensor::<2>::ones([len, size], device);
    let row = |len, size| of_three(rows(len, size));
    let none = Mask::none();
    let mut calls: Vec<(&'static str, &'static str, String)> = Vec::new();
    let mut refused = |name, whose, call: &dyn Fn()| {
        calls.push((name, whose, panic_message(call)));
    };

    refused("input", "weight", &|| {
        linear(matrix(2, 3), flat(3, 5), None);
    });
    refused("bias", "weight", &|| {
        linear(flat(2, 3), flat(3, 5), Some(vector(5)));
    });
    refused("input", "weight", &|| {
        PackedLinear::new(flat(3, 5), None).forward(matrix(2, 3));
    });
    let loss = |input, weight, bias, factors| {
        let targets = Tensor::from_ints([0, 1], device);
        linear_cross_entropy(input, weight, bias, ClassTargets::new(targets, factors));
    };
    refused("weight", "input", &|| {
        loss(flat(2, 3), matrix(3, 5), None, ones(2));
    });
    refused("bias", "input", &|| {
        loss(flat(2, 3), flat(3, 5), Some(vector(5)), ones(2));
    });
    refused("factors", "input", &|| {
        loss(flat(2, 3), flat(3, 5), None, vector(2));
    });

    let memory = |keys, values| Memory::of_projected(keys, values, Mask::none());
    refused("values", "keys", &|| {
        memory(rows(7, 3), four(7, 3));
    });
    let options = AttentionOptions::default();
    refused("keys", "queries", &|| {
        functional::dot_product_attention(four(5, 3), rows(7, 3), rows(7, 3), &options);
    });
    refused("weight", "queries", &|| {
        functional::additive_attention(rows(5, 3), rows(7, 3), rows(7, 3), vector(3), &options);
    });
    refused("keys", "queries", &|| {
        functional::dot_product_score(rows(5, 3), four(7, 3), &none, 1.0);
    });
    refused("weight", "queries", &|| {
        functional::additive_score(rows(5, 3), rows(7, 3), vector(3), &none);
    });
    refused("values", "weights", &|| {
        functional::weighted_sum(rows(5, 7), four(7, 3), &none);
    });

    let additive = AdditiveAttentionConfig::new(3, 3, 5).init(device);
    refused("keys", "values", &|| {
        additive.forward(row(5, 3), three(7, 3), row(7, 3), &none);
    });
    refused("queries", "values", &|| {
        additive.forward(three(5, 3), row(7, 3), row(7, 3), &none);
    });
    let heads = MultiHeadAttentionConfig::new(4, 2).init(device);
    refused("values", "weight", &|| {
        heads.forward(row(5, 4), row(7, 4), three(7, 4), &none);
    });
    fn rows_of<S: ScoringFunction>(score: S, of: &dyn Fn() -> Tensor<4>) {
        Attention::new(score, 0.0).forward(of(), of(), of(), Mask::none());
    }
    refused("temperature", "queries", &|| {
        rows_of(CosineScoreConfig::new().init(device), &|| four(5, 3));
    });
    refused("inverse_width", "rows", &|| {
        let score = GaussianScoreConfig::new().with_learned(true).init(device);
        rows_of(score, &|| four(5, 3));
    });
    refused("gain", "rows", &|| {
        rows_of(QkNormScoreConfig::new(3).init(device), &|| four(5, 3));
    });
    let coverage = CoverageAttentionConfig::new(3, 3, 5).init(device);
    refused("query", "values", &|| {
        let memory = coverage.prepare(row(7, 3), row(7, 3), Mask::none());
        let state = coverage.initial_state(&memory);
        coverage.step(three(1, 3), &memory, state);
    });
    refused("state", "values", &|| {
        let memory = coverage.prepare(row(7, 3), row(7, 3), Mask::none());
        let mut state = coverage.initial_state(&memory);
        state.coverage = matrix(2, 7);
        coverage.step(row(1, 3), &memory, state);
    });

    for kind in [CellKind::Gru, CellKind::Lstm] {
        let layer = RecurrentConfig::new(kind, 3, 5).init(device);
        refused("input", "weight", &|| {
            layer.forward(three(4, 3), None, &Steps::all());
        });
        let cell = (kind == CellKind::Lstm).then(|| flat(2, 5));
        refused("initial state", "gates", &|| {
            let hidden = matrix(2, 5);
            let cell = cell.as_ref().map(|_| matrix(2, 5));
            let initial = vec![RecurrentState { hidden, cell }];
            layer.forward(row(4, 3), Some(initial), &Steps::all());
        });
    }
    refused("cell c", "output h", &|| {
        let layer = RecurrentConfig::new(CellKind::Lstm, 3, 5).init(device);
        let initial = RecurrentState {
            hidden: flat(2, 5),
            cell: Some(matrix(2, 5)),
        };
        layer.forward(row(4, 3), Some(vec![initial]), &Steps::all());
    });
    calls
}

fn assert_names(message: &str, [name, whose]: [&str; 2], [expected, got]: [&str; 2]) {
    let (name, whose) = (format!("{name} expected "), format!("as the {whose}, got "));
    assert_says(message, [&name, expected, &whose, got]);
}

#[test]
fn another_type_is_named() {
    device::each_both_ways(|device| {
        if !device::computes(&device.clone().inner(), DType::F64) {
            return;
        }
        let calls = mixed_calls(device, &|tensor| tensor.cast(DType::F64));
        assert_eq!(calls.len(), 25);
        for (name, whose, message) in calls {
            // Which of the two is said to be expected depends on which the operation was made for.
            let types = match message.contains("of type F32") {
                true => ["of type F32", "F64"],
                false => ["of type F64", "F32"],
            };
            assert_names(&message, [name, whose], types);
        }
    });
}

/// Needs two backends: `.ci/run` has them.
#[cfg(all(feature = "flex", feature = "ndarray"))]
#[allow(deprecated, reason = "ndarray is, in Burn 0.22")]
#[test]
fn another_device_is_named() {
    let (flex, ndarray) = (Device::flex(), Device::ndarray());
    for (device, name) in [(flex.clone(), "Flex"), (flex.autodiff(), "Flex")] {
        let calls = mixed_calls(&device, &|tensor| tensor.to_device(&ndarray));
        assert_eq!(calls.len(), 25);
        for (argument, whose, message) in calls {
            assert_names(&message, [argument, whose], [name, "NdArray"]);
        }
        // Masks and indices, too.
        let rows = || Tensor::<3>::ones([2, 5, 4], &device);
        let attention = MultiHeadAttentionConfig::new(4, 2).init(&device);
        let lens = || Mask::valid_lens(Tensor::from_ints([3, 5], &ndarray));
        let flags = || Mask::padding(Tensor::<2>::zeros([2, 5], &ndarray).bool());
        for mask in [lens(), flags()] {
            let message = panic_message(|| attention.forward(rows(), rows(), rows(), &mask));
            assert_names(&message, ["mask", "scores"], [name, "NdArray"]);
        }
        let here = Mask::valid_lens(Tensor::from_ints([3, 5], &device));
        let message = panic_message(|| lens() & here);
        assert_names(&message, ["second mask", "first mask"], ["NdArray", name]);
        let memory = attention.prepare(rows(), rows(), Mask::none());
        let message = panic_message(|| memory.select(Tensor::from_ints([1], &ndarray)));
        assert_names(&message, ["indices", "keys"], [name, "NdArray"]);
        let flat = |len, size| Tensor::<2>::ones([len, size], &device);
        let message = panic_message(|| {
            let factors = Tensor::ones([2], &device);
            let targets = ClassTargets::new(Tensor::from_ints([0, 1], &ndarray), factors);
            linear_cross_entropy(flat(2, 3), flat(3, 5), None, targets)
        });
        assert_names(&message, ["targets", "input"], [name, "NdArray"]);
    }
}

/// Autodiff is no other device.
#[test]
fn a_training_tensor_goes_with_plain_parameters() {
    device::each(|device| {
        let layer = LinearConfig::new(3, 5).init(device);
        let input = Tensor::<2>::ones([2, 3], &device.clone().autodiff()).require_grad();
        let output = PackedLinear::from(&layer).forward(input.clone());
        assert!(input.grad(&output.sum().backward()).is_some());
    });
}
