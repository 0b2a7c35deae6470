//! Modules whose parameters Burn has quantised: they compute what the same modules with the dequantised parameters do.

use attention_core::position::RelativePositionBiasConfig;
use attention_core::score::{
    AdditiveScoreConfig, BiaffineScoreConfig, Biased, BilinearScoreConfig, ConcatScoreConfig,
    CosineScoreConfig, DotProductScoreConfig, GaussianScoreConfig, ProjectedScoreConfig,
    QkNormScoreConfig,
};
use attention_core::stateful::{
    CoverageAttentionConfig, LocationAttentionConfig, LocationFeatures, MonotonicAttentionConfig,
    StatefulAttention,
};
use attention_core::{
    AdditiveAttentionConfig, Attention, Mask, MultiHeadAttentionConfig, NewRows, ScoringFunction,
};
use attention_import::{Place, StateDict};
use attention_tests::{Array, assert_same, device, reference_path};
use attention_transformers::layer::NormConfig;
use attention_transformers::{
    FeedForwardActivation, LanguageModelConfig, PositionEmbeddingConfig, TokenEmbeddingConfig,
    TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::module::{Module, ModuleMapper, Param, Quantizer};
use burn::nn::LinearConfig;
use burn::tensor::quantization::{Calibration, QuantValue};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, Steps};
use burn_fused_layers::{ClassTargets, EmbeddingTable, PackedLinear, linear, linear_cross_entropy};

/// The module with all parameters quantised, and the same module with what they are dequantised to.
fn pair<M: Module>(module: M, device: &Device) -> [M; 2] {
    let scheme = device.settings().quantization.scheme;
    let mut quantizer = Quantizer::new(Calibration::MinMax, scheme.with_value(QuantValue::Q8S));
    let quantised = module.quantize_weights(&mut quantizer);
    let mut dequantiser = Dequantiser { count: 0 };
    let dequantised = quantised.clone().map(&mut dequantiser);
    assert!(dequantiser.count > 0, "a module with parameters expected");
    [quantised, dequantised]
}

struct Dequantiser {
    count: usize,
}

impl ModuleMapper for Dequantiser {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        assert!(matches!(parameter.dtype(), DType::QFloat(_)));
        self.count += 1;
        parameter.map(Tensor::dequantize)
    }
}

fn rows(seed: u64, len: usize, size: usize, device: &Device) -> Tensor<3> {
    Array::draw(seed, &[2, len, size]).f32(device)
}

/// Both modules compute the same in `run`, to the bit, and something.
fn agrees<M: Module>(what: &str, module: M, device: &Device, run: impl Fn(&M) -> Vec<Array>) {
    let [quantised, dequantised] = pair(module, device);
    let (actual, expected) = (run(&quantised), run(&dequantised));
    assert_eq!(actual.len(), expected.len());
    for (actual, expected) in actual.iter().zip(&expected) {
        assert!(expected.magnitude() > 0.0, "{what}");
        assert_same(what, actual, expected);
    }
}

fn score<S: ScoringFunction>(what: &str, score: S, device: &Device) {
    agrees(what, Attention::new(score, 0.0), device, |attention| {
        let [q, k, v] = [(1, 5), (2, 7), (3, 7)].map(|(seed, len)| rows(seed, len, 4, device));
        let mask = || Mask::causal();
        let output = attention.forward_with_weights(q.clone(), k.clone(), v.clone(), mask());
        let memory = attention.prepare(k.clone(), v.clone(), mask());
        vec![
            Array::read(attention.forward(q.clone(), k, v, mask())),
            Array::read(output.context),
            Array::read(output.weights),
            Array::read(attention.attend(q, &memory, Mask::none())),
        ]
    });
}

#[test]
fn scores() {
    device::each_both_ways(|device| {
        macro_rules! scores {
            ($($name:literal: $config:expr;)*) => {$(
                score($name, $config.init(device), device);
            )*};
        }
        let additive = || AdditiveScoreConfig::new(4, 4, 6);
        let concat = || ConcatScoreConfig::new(4, 4, 6);
        scores! {
            "additive": additive();
            "with a bias": additive().with_bias(true);
            "normalised": additive().with_normalize(true);
            "concat": concat();
            "concat with a bias": concat().with_bias(true);
            "bilinear": BilinearScoreConfig::new(4, 4);
            "biaffine": BiaffineScoreConfig::new(4, 4);
            "projected": ProjectedScoreConfig::new(4, 4, 6);
            "cosine": CosineScoreConfig::new();
            "query-key norm": QkNormScoreConfig::new(4);
            "Gaussian": GaussianScoreConfig::new().with_learned(true);
        }
        let dot = DotProductScoreConfig::new().init();
        let relative = RelativePositionBiasConfig::new(1).init(device);
        score("T5", Biased::new(dot, relative), device);
    });
}

#[test]
fn heads() {
    device::each_both_ways(|device| {
        for bias in [false, true] {
            let config = MultiHeadAttentionConfig::new(12, 3).with_bias(bias);
            agrees("heads", config.init(device), device, |heads| {
                let [q, k] = [(1, 5), (2, 7)].map(|(seed, len)| rows(seed, len, 12, device));
                let memory = heads.prepare(k.clone(), k.clone(), Mask::none());
                vec![
                    Array::read(heads.forward(q.clone(), k.clone(), k, Mask::none())),
                    Array::read(heads.attend(q, &memory, Mask::none())),
                ]
            });
        }
    });
}

#[test]
fn transformers() {
    device::each_both_ways(|device| {
        for norm in [NormConfig::layer(), NormConfig::rms()] {
            let layer = TransformerLayerConfig::new(12, 3, 17);
            let layer = layer.with_norm(norm);
            let layer = layer.with_activation(FeedForwardActivation::GeGlu);
            let positions = PositionEmbeddingConfig::Learned { max_positions: 9 };
            let embedding = TokenEmbeddingConfig::new(16, 12).with_positions(positions);
            let stack = TransformerEncoderConfig::new(layer, 2);
            for tied in [true, false] {
                let config = LanguageModelConfig::new(embedding.clone(), stack.clone());
                let model = config.with_tied(tied).init(device);
                agrees("language model", model, device, |model| {
                    let tokens = Array::draw(1, &[2, 5]).map(|x| (x * 4.0).abs()).int(device);
                    vec![Array::read(model.forward(tokens, NewRows::First(&[5, 3])))]
                });
            }
        }
    });
}

fn stateful<A: StatefulAttention>(what: &str, attention: A, device: &Device) {
    agrees(what, attention, device, |attention| {
        let keys = rows(2, 7, 4, device);
        let memory = attention.prepare(keys.clone(), keys, Mask::none());
        let mut state = attention.initial_state(&memory);
        let mut contexts = Vec::new();
        for step in 0..3 {
            let query = rows(3 + step, 1, 4, device);
            let (output, next) = attention.step_with_weights(query, &memory, state);
            contexts.push(Array::read(output.context));
            state = next;
        }
        contexts
    });
}

#[test]
fn steps() {
    device::each(|device| {
        let location = |features| {
            let config = LocationAttentionConfig::new(4, 4, 6).with_kernel_size(3);
            config.with_features(features).init(device)
        };
        stateful("location", location(LocationFeatures::Previous), device);
        stateful("both features", location(LocationFeatures::Both), device);
        let coverage = CoverageAttentionConfig::new(4, 4, 6);
        stateful("coverage", coverage.init(device), device);
        let monotonic = MonotonicAttentionConfig::new().with_offset(1.0);
        let additive = monotonic.init_additive(4, 4, 6, device);
        stateful("monotonic", additive, device);
        let bilinear = BilinearScoreConfig::new(4, 4).init(device);
        let bilinear = monotonic.init_with(bilinear, device);
        stateful("monotonic, bilinear", bilinear, device);
    });
}

#[test]
fn recurrent_layers() {
    device::each_both_ways(|device| {
        let config = |kind| RecurrentConfig::new(kind, 4, 5).with_layers(2);
        for config in [
            config(CellKind::Gru),
            config(CellKind::Lstm),
            config(CellKind::Gru).with_reset_after(false),
            config(CellKind::Lstm).with_peepholes(true),
        ] {
            let layers = config.with_bidirectional(true).init(device);
            agrees("recurrent", layers, device, |layers| {
                let input = || rows(1, 6, 4, device);
                let (outputs, _) = layers.forward(input(), None, &Steps::of_lens([6, 4]));
                let layer = &layers.layers[0];
                let gates = layer.gates(input().narrow(1, 0, 1)).squeeze_dim(1);
                let (_, state) = layer.forward(input(), None, &Steps::all());
                let state = layer.cell().forward(gates, state);
                vec![Array::read(outputs), Array::read(state.hidden)]
            });
        }
    });
}

/// The functions take what a parameter holds.
#[test]
fn functions() {
    device::each_both_ways(|device| {
        let layer = LinearConfig::new(4, 5).init(device);
        agrees("linear", layer, device, |layer| {
            let input = Array::draw(1, &[3, 4]).f32::<2>(device);
            let (weight, bias) = (layer.weight.val(), layer.bias.as_ref().map(Param::val));
            let table = EmbeddingTable::new(weight.clone());
            let factors = Tensor::<1>::ones([3], device);
            let targets = Array::draw(2, &[3]).map(|x| x.abs()).int(device);
            let targets = ClassTargets::new(targets, factors);
            let (rows, of_layer) = (input.clone(), weight.clone());
            let (loss, _) = linear_cross_entropy(rows, of_layer, bias.clone(), targets);
            vec![
                Array::read(linear(input.clone(), weight, bias)),
                Array::read(PackedLinear::from(layer).forward(input)),
                Array::read(table.rows(Tensor::from_ints([3, 0, 3], device))),
                Array::read(loss),
            ]
        });
    });
}

/// Parameters of a file replace what was quantised, as floats.
#[test]
fn a_file_is_loaded_as_floats() {
    device::each_both_ways(|device| {
        let attention = || AdditiveAttentionConfig::new(11, 13, 17).init(device);
        let file = StateDict::open(&reference_path("additive_state_dict.safetensors"), "").unwrap();
        let load = |layer| file.linear(layer, Place::weight_and_bias("W_q")).unwrap();
        let [quantised, _] = pair(attention(), device);
        let [loaded, expected] = [quantised, attention()]
            .map(|attention| Array::read(load(attention.score.query).weight.val()));
        assert_same("W_q", &loaded, &expected);
    });
}
