//! A position bias that all layers of a stack share.

use attention_core::position::{RelativePositionBias, RelativePositionBiasConfig};
use attention_core::score::{Biased, DotProductScoreConfig};
use attention_core::{DotProductScore, Mask};
use attention_tests::{Array, Outcome, assert_close, assert_same, device, parameters};
use attention_transformers::{
    TransformerDecoder, TransformerDecoderConfig, TransformerEncoder, TransformerEncoderConfig,
};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::models::{HEADS, HIDDENS, drawn, layer, lens};

const SHARED: &str = "position_bias.embedding.weight";
const OWN: &str = "attention.attention.score.position.embedding.weight";

type OfLayers = Biased<DotProductScore, RelativePositionBias>;

fn bias() -> RelativePositionBiasConfig {
    RelativePositionBiasConfig::new(HEADS).with_max_distance(20)
}

fn dot() -> DotProductScore {
    DotProductScoreConfig::new().init()
}

fn score(device: &Device) -> OfLayers {
    Biased::new(dot(), bias().init(device))
}

/// `module` with the parameters of one whose position bias is shared.
fn with_own<M: Module>(module: M, shared: &Outcome) -> M {
    parameters::changed(module, |path, _| {
        let path = if path.ends_with(OWN) { SHARED } else { path };
        shared[path].clone()
    })
}

/// The output of a module, and all gradients.
fn run<M: Module>(module: &M, forward: impl Fn(&M) -> Tensor<3>) -> (Array, Outcome) {
    let output = forward(module);
    let received = Array::draw(2, &output.dims()).f32(&output.device());
    let gradients = (output.clone() * received).sum().backward();
    let gradients = parameters::gradients(module, Some(&gradients));
    (Array::read(output), gradients)
}

/// The same output bit for bit, and the gradient of the one table is the sum of each layer's gradient.
fn check<M: Module, N: Module>(
    what: &str,
    (shared, forward): (&M, impl Fn(&M) -> Tensor<3>),
    (own, forward_own): (N, impl Fn(&N) -> Tensor<3>),
) {
    let own = with_own(own, &parameters::values(shared));
    let (output, gradients) = run(shared, forward);
    let (expected, of_layers) = run(&own, forward_own);
    assert_same(what, &output, &expected);
    let mut tables = Vec::new();
    for (path, gradient) in &of_layers {
        if path.ends_with(OWN) {
            tables.push(gradient);
        } else {
            assert_close(format!("{what}: {path}"), &gradients[path], gradient, 1e-5);
        }
    }
    assert_eq!(tables.len(), 3, "{what}");
    let summed = |at: &[usize]| tables.iter().map(|of| of.at(at)).sum();
    let sum = Array::from_fn(&tables[0].shape, summed);
    assert!(sum.magnitude() > 0.0, "{what}");
    assert_close(what, &gradients[SHARED], &sum, 1e-5);
}

#[test]
fn an_encoder_shares_one_table() {
    device::each_training(|device| {
        let config = TransformerEncoderConfig::new(layer(), 3);
        let shared = config.clone().with_position_bias(Some(bias()));
        let shared: TransformerEncoder<DotProductScore> = drawn(shared.init(device));
        let own = config.init_with(|_| score(device), device);
        let rows = || Array::draw(1, &[2, 5, HIDDENS]).f32(device);
        for mask in [Mask::valid_lens(lens(&[5, 3], device)), Mask::causal()] {
            let of_shared = |stack: &TransformerEncoder<_>| stack.forward(rows(), &mask);
            let of_own = |stack: &TransformerEncoder<OfLayers>| stack.forward(rows(), &mask);
            check("encoder", (&shared, of_shared), (own.clone(), of_own));
        }
    });
}

#[test]
fn a_decoder_shares_one_table() {
    device::each_training(|device| {
        let config = TransformerDecoderConfig::new(layer(), 3);
        let shared = config.clone().with_position_bias(Some(bias()));
        let shared: TransformerDecoder<DotProductScore> = drawn(shared.init(device));
        let own = config.init_with(|_| score(device), |_| dot(), device);
        let draw = |(seed, rows)| Array::draw(seed, &[2, rows, HIDDENS]).f32::<3>(device);
        let [rows, memory] = [(1, 5), (3, 4)].map(draw);
        let mask = Mask::valid_lens(lens(&[5, 3], device));
        let of_shared = |stack: &TransformerDecoder<DotProductScore>| {
            let memory = stack.prepare(memory.clone(), Mask::none());
            stack.forward(rows.clone(), &mask, &memory)
        };
        let of_own = |stack: &TransformerDecoder<OfLayers>| {
            let memory = stack.prepare(memory.clone(), Mask::none());
            stack.forward(rows.clone(), &mask, &memory)
        };
        check("decoder", (&shared, of_shared), (own, of_own));
    });
}
