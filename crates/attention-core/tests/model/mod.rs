//! A model of many operations, and the gradients of a training step.

use attention_core::position::{Rotary, RotaryConfig};
use attention_core::score::DotProductScoreConfig;
use attention_core::{AdditiveAttentionConfig, Attention, DotProductScore, Mask};
use attention_tests::{Outcome, parameters};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use burn_fused_layers::recurrent::{CellKind, RecurrentConfig, Steps};
use burn_fused_layers::{
    Activation, ClassTargets, activate_gated, layer_norm, linear_cross_entropy,
};

#[derive(Module, Debug)]
pub(crate) struct Model {
    recurrent: burn_fused_layers::recurrent::Recurrent,
    additive: attention_core::AdditiveAttention,
    dot: Attention<Rotary<DotProductScore>>,
    norm: burn::nn::LayerNorm,
    output: burn::nn::Linear,
}

pub(crate) const SIZE: usize = 6;

pub(crate) fn model(device: &Device) -> Model {
    let dot = DotProductScoreConfig::new().init();
    Model {
        recurrent: RecurrentConfig::new(CellKind::Lstm, SIZE, SIZE).init(device),
        additive: AdditiveAttentionConfig::new(SIZE, SIZE, 5).init(device),
        dot: Attention::new(RotaryConfig::new(SIZE, 4).init_with(dot, device), 0.0),
        norm: burn::nn::LayerNormConfig::new(SIZE).init(device),
        output: burn::nn::LinearConfig::new(SIZE, 7).init(device),
    }
}

/// The gradients of the parameters, of a loss after some decoding steps.
pub(crate) fn gradients(model: &Model, inputs: &Tensor<3>) -> Outcome {
    let device = inputs.device();
    let (states, _) = model.recurrent.forward(inputs.clone(), None, &Steps::all());
    let mask = Mask::valid_lens(Tensor::from_ints([4, 3], &device));
    let additive = &model.additive;
    let memory = additive.prepare(states.clone(), states.clone(), mask.clone());
    let mut query = states.clone().narrow(1, 0, 1);
    let mut contexts = Vec::new();
    for _ in 0..3 {
        query = additive.attend(query, &memory, Mask::none());
        contexts.push(query.clone());
    }
    let contexts = Tensor::cat(contexts, 1);
    let contexts = model.dot.forward(contexts, states.clone(), states, &mask);
    let (gain, bias) = (&model.norm.gamma, &model.norm.beta);
    let bias = bias.as_ref().map(|bias| bias.val());
    let contexts = layer_norm(contexts, gain.val(), bias, 1e-5);
    let contexts = activate_gated(contexts.clone(), contexts, Activation::Gelu);
    let targets = Tensor::<1, Int>::from_ints([0, 6, 2, 3, 3, 1], &device);
    let weight = model.output.weight.val();
    let bias = model.output.bias.as_ref().map(|bias| bias.val());
    let targets = ClassTargets::new(targets, Tensor::ones([6], &device));
    let (loss, _) = linear_cross_entropy(contexts.reshape([6, SIZE]), weight, bias, targets);
    parameters::gradients(model, Some(&loss.backward()))
}
