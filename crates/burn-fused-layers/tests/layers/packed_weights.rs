//! Modules whose weights stay packed: the same results and gradients, to the bit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use attention_tests::{Array, assert_same, device};
use burn::module::{Lora, Module, ModuleMapper, Param, Quantizer};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::quantization::{Calibration, QuantValue};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::paths::Operation;
use burn_fused_layers::{Activation, PackedWeights, activate_linear, is_in_host_memory, linear};

const SIZES: [usize; 3] = [37, 128, 70];

#[derive(Module, Debug)]
struct Network {
    words: Embedding,
    hidden: Linear,
    output: Linear,
}

impl Network {
    fn new(device: &Device) -> Self {
        let [from, hidden, to] = SIZES;
        Self {
            words: EmbeddingConfig::new(11, from).init(device),
            hidden: LinearConfig::new(from, hidden).init(device),
            output: LinearConfig::new(hidden, to).init(device),
        }
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let parameters = |layer: &Linear| {
            let bias = layer.bias.as_ref().map(|bias| bias.val());
            (layer.weight.val(), bias)
        };
        let (weight, bias) = parameters(&self.hidden);
        let hidden = linear(input, weight, bias);
        let (weight, bias) = parameters(&self.output);
        activate_linear(hidden, Activation::Relu, weight, bias)
    }
}

fn input(rows: usize, device: &Device) -> Tensor<2> {
    Array::draw(rows as u64, &[rows, SIZES[0]]).f32(device)
}

/// A store counts `expected` where kernels run, and has nothing where they do not.
fn assert_counts(packed: &PackedWeights, expected: [usize; 2], device: &Device) {
    let is_on = Operation::Linear.is_on() && Operation::ActivateLinear.is_on();
    let expected = match is_on && is_in_host_memory(device) {
        true => expected,
        false => [0, 0],
    };
    assert_eq!([packed.num_weights(), packed.num_packed()], expected);
}

#[test]
fn packings_change_no_bit() {
    device::each_both_ways(device::in_each_type(|(device, dtype)| {
        let network = Network::new(device).map(&mut Cast(dtype));
        let packed = PackedWeights::of(&network);
        assert_counts(&packed, [2, 0], device);
        for (rows, count) in [
            (1, 0),
            (6, 0),
            (128, 0),
            (7, 2),
            (17, 2),
            (127, 2),
            (200, 2),
        ] {
            let input = || input(rows, device).cast(dtype);
            let expected = Array::read(network.forward(input()));
            assert!(expected.magnitude() > 0.0);
            for _ in 0..2 {
                let got = packed.scope(|| network.forward(input()));
                assert_same(format!("{rows} rows"), got, &expected);
            }
            assert_counts(&packed, [2, count], device);
        }
    }));
}

#[test]
fn packings_change_no_gradient() {
    device::each_training(|device| {
        let network = Network::new(device);
        let packed = PackedWeights::of(&network);
        let run = || {
            let input = input(17, device).require_grad();
            let gradients = network.forward(input.clone()).square().sum().backward();
            let weights = [&network.hidden, &network.output].map(|layer| layer.weight.val());
            [input, weights[0].clone(), weights[1].clone()]
                .map(|tensor| Array::read(tensor.grad(&gradients).unwrap()))
        };
        for (got, expected) in packed.scope(run).iter().zip(&run()) {
            assert_same("gradient", got, expected);
        }
        assert_counts(&packed, [2, 2], device);
        let packed = PackedWeights::of(&network);
        packed.scope(|| network.valid().forward(input(17, device)));
        assert_counts(&packed, [2, 2], device);
    });
}

struct Cast(DType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        parameter.map(|tensor| tensor.cast(self.0))
    }
}

/// Adds 1 to each matrix, in place if nobody else has it.
struct Add;

impl ModuleMapper for Add {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        parameter.map(|tensor| tensor.add_scalar(1.0))
    }
}

#[test]
fn a_weight_that_changes_is_read_anew() {
    device::each(|device| {
        let mut network = Network::new(device);
        let packed = PackedWeights::of(&network);
        let input = || input(17, device);
        let mut last = Array::read(packed.scope(|| network.forward(input())));
        for _ in 0..3 {
            network = network.map(&mut Add);
            let expected = Array::read(network.forward(input()));
            assert_ne!(expected, last);
            let got = packed.scope(|| network.forward(input()));
            assert_same("changed", got, &expected);
            last = expected;
        }
    });
}

/// Tensors that begin where a weight does, and are not the weight.
#[test]
fn views_of_a_weight_are_other_weights() {
    device::each(|device| {
        let network = Network::new(device);
        let packed = PackedWeights::of(&network);
        let weight = || network.hidden.weight.val();
        let [from, hidden, _] = SIZES;
        packed.scope(|| network.forward(input(17, device)));
        assert_counts(&packed, [2, 2], device);
        let views: [(&str, Tensor<2>); 5] = [
            ("first columns", weight().slice([0..from, 0..70])),
            ("first rows", weight().slice([0..20, 0..hidden])),
            (
                "one row",
                weight().slice([0..1, 0..hidden]).expand([from, hidden]),
            ),
            ("transposed", weight().transpose()),
            ("another shape", weight().reshape([hidden, from])),
        ];
        for (name, view) in views {
            let [from, _] = view.dims();
            let input = Array::draw(1, &[17, from]).f32::<2>(device);
            let expected = linear(input.clone(), view.clone(), None);
            let got = packed.scope(|| linear(input, view, None));
            assert_same(name, got, &Array::read(expected));
        }
    });
}

#[test]
fn scopes_may_be_nested() {
    device::each(|device| {
        let networks = [(); 2].map(|()| Network::new(device));
        let [outer, inner] = networks.each_ref().map(PackedWeights::of);
        let run = |network: &Network| Array::read(network.forward(input(17, device)));
        let expected = networks.each_ref().map(run);
        let got = outer.scope(|| {
            let second = inner.scope(|| run(&networks[1]));
            assert_counts(&outer, [2, 0], device);
            [run(&networks[0]), second]
        });
        assert_eq!(got, expected);
        assert_counts(&outer, [2, 2], device);
        assert_counts(&inner, [2, 2], device);
        let [outer, inner] = networks.each_ref().map(PackedWeights::of);
        let got = outer.scope(|| inner.scope(|| networks.each_ref().map(run)));
        assert_eq!(got, expected);
        assert_counts(&outer, [2, 2], device);
        assert_counts(&inner, [2, 2], device);
    });
}

#[test]
fn a_scope_ends_with_its_call() {
    device::each(|device| {
        let network = Network::new(device);
        let packed = PackedWeights::of(&network);
        packed.scope(|| ());
        let panics = || packed.scope(|| panic!("a call that panics"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        network.forward(input(17, device));
        assert_counts(&packed, [2, 0], device);
    });
}

/// On ndarray, clones of what was read from a file are copies: a weight lies where another one lay.
#[test]
fn weights_from_a_file_are_read_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layers.bpk");
    device::each(|device| {
        let layers = || [(); 8].map(|()| LinearConfig::new(64, 64).init(device));
        layers().to_vec().save_file(&file).unwrap();
        let layers = layers().to_vec().load_file(&file);
        let run = || {
            let input = Array::draw(1, &[17, 64]).f32::<2>(device);
            let output = layers.iter().fold(input, |input, layer: &Linear| {
                linear(input, layer.weight.val(), None)
            });
            Array::read(output)
        };
        let packed = PackedWeights::of(&layers);
        let expected = run();
        for _ in 0..20 {
            assert_same("loaded", &packed.scope(run), &expected);
        }
        match format!("{device:?}").contains("NdArray") {
            true => assert_eq!(packed.num_weights(), 0),
            false => assert_counts(&packed, [8, 8], device),
        }
    });
}

#[test]
fn reparameterized_weights_are_not_packed() {
    device::each(|device| {
        let network = Network::new(device).apply_lora(Lora::new(2, 4.0));
        let packed = PackedWeights::of(&network);
        assert_eq!(packed.num_weights(), 0);
        let plain = LinearConfig::new(5, 7).init(device);
        let adapted = || plain.clone().apply_lora(Lora::new(2, 4.0));
        for shared in [[adapted(), plain.clone()], [plain.clone(), adapted()]] {
            assert_counts(&PackedWeights::of(&shared.to_vec()), [1, 0], device);
        }
        let expected = Array::read(network.forward(input(17, device)));
        let got = packed.scope(|| network.forward(input(17, device)));
        assert_same("LoRA", got, &expected);
    });
}

#[test]
fn threads_share_packings() {
    device::each(|device| {
        let network = Network::new(device);
        let packed = PackedWeights::of(&network);
        let expected = Array::read(network.forward(input(17, device)));
        packed.scope(|| {
            let other = || Array::read(network.forward(input(17, device)));
            std::thread::scope(|threads| threads.spawn(other).join().unwrap())
        });
        assert_counts(&packed, [2, 0], device);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let got = packed.scope(|| network.forward(input(17, device)));
                    assert_same("thread", got, &expected);
                });
            }
        });
        assert_counts(&packed, [2, 2], device);
    });
}

/// Weights that a product would copy or dequantise first are not packed.
#[test]
fn contiguous_floats_are_packed_alone() {
    device::each(|device| {
        let mut transposed = LinearConfig::new(20, 20).init(device);
        transposed.weight = transposed.weight.map(|weight| weight.transpose());
        let half = LinearConfig::new(20, 20).init(device);
        let types = device::half_types(device);
        let halves = types.map(|dtype| {
            let mut half = half.clone();
            half.weight = half.weight.map(|weight| weight.cast(dtype));
            half
        });
        let scheme = device.settings().quantization.scheme;
        let mut quantizer = Quantizer::new(Calibration::MinMax, scheme.with_value(QuantValue::Q8S));
        let quantised = half.clone().quantize_weights(&mut quantizer);
        assert!(matches!(quantised.weight.dtype(), DType::QFloat(_)));
        let layers: Vec<Linear> = halves.chain([transposed, quantised]).collect();
        assert_eq!(PackedWeights::of(&layers).num_weights(), 0);
    });
}
