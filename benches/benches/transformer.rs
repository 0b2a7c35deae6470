//! A training step of a Transformer encoder: ours, Burn's as it is and with one import changed, and PyTorch's. Forward,
//! then the gradients of the input and of all parameters; no mask, no dropout, no optimizer.
//!
//! `ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench transformer`; see benches/README.md.

use std::io;

use attention_benches::bench::Bench;
use attention_benches::tensors::{Call, call_of, numbers, random};
use attention_core::{Mask, MultiHeadAttention};
use attention_transformers::burn_nn as drop_in;
use attention_transformers::{
    FeedForwardActivation, NormOrder, TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::module::Module;
use burn::nn::transformer as burns;
use burn::tensor::{Device, Tensor};
use serde_json::json;

const LAYERS: usize = 4;
const HEADS: usize = 8;
/// The feature dimension of inputs and outputs.
const SIZE: usize = 256;
/// The hidden units of a feed-forward layer.
const FEED_FORWARD: usize = 4 * SIZE;
/// Batch and tokens.
const TEXTS: [[usize; 2]; 3] = [[4, 512], [4, 1024], [1, 4096]];

fn main() -> io::Result<()> {
    Bench::run("transformer.py", |bench| {
        TEXTS.into_iter().try_for_each(|text| time(bench, text))
    })
}

fn time(bench: &mut Bench, [batch, tokens]: [usize; 2]) -> io::Result<()> {
    let title = format!(
        "training step of an encoder b{batch} tokens {tokens} layers {LAYERS} d{SIZE} heads {HEADS} \
         feed-forward {FEED_FORWARD}"
    );
    let device = bench.options.baselines_device();
    let names = ["PyTorch eager", "torch.compile"];
    let calls = |device: &Device| steps([batch, tokens, SIZE], &device.clone().autodiff());
    bench.time([&title, "step"], calls, &names, |name| {
        json!({
            "candidate": name,
            "device": device,
            "batch": batch,
            "tokens": tokens,
            "layers": LAYERS,
            "size": SIZE,
            "heads": HEADS,
            "feed_forward": FEED_FORWARD,
        })
    })
}

fn steps(shape: [usize; 3], device: &Device) -> Vec<(&'static str, Call)> {
    let input = random(shape, device);
    let output_gradient = numbers(shape, device);
    let encoders = encoders(&input, &output_gradient);
    let steps = encoders.map(|(name, encoder)| {
        let (input, output_gradient) = (input.clone(), output_gradient.clone());
        // The gradients of the parameters are computed before the input's, and dropped.
        let gradient = move || input_gradient(&encoder, &input, &output_gradient);
        (name, call_of(device, gradient))
    });
    steps.into()
}

/// From the inputs of an encoder to its outputs.
type Encode = Box<dyn Fn(Tensor<3>) -> Tensor<3>>;

/// Our encoder, Burn's with one import changed, and Burn's as it is, with the same parameters.
///
/// # Panics
/// If their outputs or gradients differ by more than rounding.
fn encoders(input: &Tensor<3>, output_gradient: &Tensor<3>) -> [(&'static str, Encode); 3] {
    let device = input.device();
    let burns: burns::TransformerEncoder =
        burns::TransformerEncoderConfig::new(SIZE, FEED_FORWARD, HEADS, LAYERS)
            .with_dropout(0.0)
            .init(&device);
    let drop_in = drop_in::TransformerEncoderConfig::new(SIZE, FEED_FORWARD, HEADS, LAYERS)
        .with_dropout(0.0)
        .init(&device)
        .load_record(burns.clone().into_record());
    let ours = ours(&drop_in, &device);
    let drop_in: Encode =
        Box::new(move |input| drop_in.forward(drop_in::TransformerEncoderInput::new(input)));
    let burns: Encode =
        Box::new(move |input| burns.forward(burns::TransformerEncoderInput::new(input)));
    let expected = burns(input.clone());
    let expected_gradient = input_gradient(&burns, input, output_gradient);
    for encoder in [&ours, &drop_in] {
        assert_close(encoder(input.clone()), expected.clone());
        let gradient = input_gradient(encoder, input, output_gradient);
        assert_close(gradient, expected_gradient.clone());
    }
    [
        ("ours", ours),
        ("one import changed", drop_in),
        ("Burn", burns),
    ]
}

/// Our encoder with the parameters of `other`.
fn ours(other: &drop_in::TransformerEncoder, device: &Device) -> Encode {
    let layer = TransformerLayerConfig::new(SIZE, HEADS, FEED_FORWARD)
        .with_activation(FeedForwardActivation::Gelu)
        .with_norm_order(NormOrder::Post);
    let mut encoder = TransformerEncoderConfig::new(layer, LAYERS).init(device);
    for (layer, other) in encoder.layers.iter_mut().zip(&other.layers) {
        layer.attention = MultiHeadAttention::from(other.mha.clone());
        layer.attention_residual.norm = other.norm_1.clone();
        layer.feed_forward.input = other.pwff.linear_inner.clone();
        layer.feed_forward.output = other.pwff.linear_outer.clone();
        layer.feed_forward_residual.norm = other.norm_2.clone();
    }
    Box::new(move |input| encoder.forward(input, Mask::none()))
}

/// The gradient of the input, from the gradient of the outputs.
fn input_gradient(encoder: &Encode, input: &Tensor<3>, output_gradient: &Tensor<3>) -> Tensor<3> {
    let outputs = encoder(input.clone()) * output_gradient.clone();
    let gradients = outputs.sum().backward();
    let gradient = input.grad(&gradients);
    gradient.expect("the input has a part in the outputs")
}

/// To a ten-thousandth of the largest element.
fn assert_close(ours: Tensor<3>, burns: Tensor<3>) {
    let [difference, largest] =
        [ours - burns.clone(), burns].map(|tensor| tensor.abs().max().into_scalar::<f32>());
    let what = format!("ours and Burn's differ by {difference}, of at most {largest}");
    assert!(difference <= 1e-4 * largest, "{what}");
}
