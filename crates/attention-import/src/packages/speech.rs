//! Packages for speech.

use attention_core::score::ProjectedScore;
use attention_core::stateful::LocationFeatures::{Both, Cumulative, Previous};
use attention_core::stateful::{CoverageAttention, ForwardAttention, ForwardAttentionConfig, LocationAttention, Start};
use attention_core::{AdditiveAttention, Attention};

use super::Role::*;
use super::{Entries, Package, Parts, WithOutput, package};

/// ESPnet 202511, `espnet.nets.pytorch_backend.rnn.attentions`, named by `atype`. Prefixes are `"decoder.att_list.0."`
/// in ESPnet 2, `"dec.att.0."` before, and `"dec.att."` in a Tacotron 2. ESPnet calls all but the forward attentions
/// with the factor 2.0 on the energies.
pub mod espnet {
    use super::*;

    const LAYERS: Entries = &[
        ("mlp_enc.weight", Key, "A D"), ("mlp_enc.bias", Bias, "A"), ("mlp_dec.weight", Query, "A Q"),
        ("gvec.weight", Energy, "1 A"), ("gvec.bias", EnergyBias, "1"),
    ];
    const FILTERS: Entries = &[("loc_conv.weight", Filters, "C 1 1 W"), ("mlp_att.weight", Location, "A C")];
    const COVERAGE: Entries = &[("wvec.weight", Coverage, "A 1"), ("wvec.bias", Bias, "A")];
    const AGENT: Entries = &[("mlp_ta.weight", Agent, "1 D+P+Q"), ("mlp_ta.bias", AgentBias, "1")];
    const TANH_OF_BOTH: Entries = &[
        ("mlp_enc.weight", Key, "A D"), ("mlp_enc.bias", KeyBias, "A"),
        ("mlp_dec.weight", Query, "A Q"), ("mlp_dec.bias", QueryBias, "A"),
    ];

    fn forward(file: &Parts, floor: f64, sign: f64) -> ForwardAttention<LocationAttention> {
        let config = ForwardAttentionConfig::new().with_floor(floor);
        file.forward(config, file.location(Previous, Start::First), sign)
    }

    /// `AttAdd`, "add": additive attention.
    pub const ATT_ADD: Package<AdditiveAttention> = package("ESPnet's AttAdd", &[LAYERS], 2.0, Parts::additive);

    /// `AttDot`, "dot": a dot product of projections after tanh.
    pub const ATT_DOT: Package<Attention<ProjectedScore>> =
        package("ESPnet's AttDot", &[TANH_OF_BOTH], 2.0, |file| file.projected(true, 1.0));

    /// `AttLoc`, "location": location-sensitive attention, whose filters run over the weights of the previous step,
    /// initially `1 / len`.
    pub const ATT_LOC: Package<LocationAttention> =
        package("ESPnet's AttLoc", &[LAYERS, FILTERS], 2.0, |file| file.location(Previous, Start::Uniform));

    /// `AttLoc` in the decoder of ESPnet's Tacotron 2 (`cumulate_att_w`, its default): the filters run over the sum of
    /// the weights, without the `1 / len` of the first step.
    pub const ATT_LOC_CUMULATIVE: Package<LocationAttention> =
        package("ESPnet's AttLoc", &[LAYERS, FILTERS], 2.0, |file| file.location(Cumulative, Start::Uniform));

    /// `AttCovLoc`, "coverage_location": the filters run over the sum of the weights, including the initial `1 / len`.
    pub const ATT_COV_LOC: Package<LocationAttention> =
        package("ESPnet's AttCovLoc", &[LAYERS, FILTERS], 2.0, |file| file.location(Cumulative, Start::UniformInSum));

    /// `AttCov`, "coverage": attention with coverage, including the initial `1 / len`.
    pub const ATT_COV: Package<CoverageAttention> =
        package("ESPnet's AttCov", &[LAYERS, COVERAGE], 2.0, |file| file.coverage(Start::UniformInSum));

    /// `AttForward`, "forward": forward attention around location-sensitive attention. ESPnet's `max((prev_j +
    /// prev_{j-1}) y_j, 1e-6)` is twice the product here, and so is its lower bound.
    pub const ATT_FORWARD: Package<ForwardAttention<LocationAttention>> =
        package("ESPnet's AttForward", &[LAYERS, FILTERS], 1.0, |file| forward(file, 5e-7, 1.0));

    /// `AttForwardTA`, "forward_ta": forward attention with a transition agent, which reads the decoder's previous
    /// output: each step needs [`ForwardState::with_output`](attention_core::stateful::ForwardState::with_output).
    /// ESPnet has the probability of staying, the paper that of moving on, so weights and bias are negated.
    pub const ATT_FORWARD_TA: Package<ForwardAttention<LocationAttention>> =
        package("ESPnet's AttForwardTA", &[LAYERS, FILTERS, AGENT], 1.0, |file| forward(file, 1e-6, -1.0));
}

/// SpeechBrain 1.1.2, `speechbrain.nnet.attention`, named by `attn_type` of its decoders, where the prefix ends in
/// `"attn."`. The factor is `scaling` in the recipe's YAML file, 1.0 by default.
pub mod speechbrain {
    use super::*;

    const LAYERS: Entries = &[
        ("mlp_enc.weight", Key, "A D"), ("mlp_enc.bias", Bias, "A"),
        ("mlp_dec.weight", Query, "A Q"), ("mlp_dec.bias", Bias, "A"), ("mlp_attn.weight", Energy, "1 A"),
        ("mlp_out.weight", Output, "O D"), ("mlp_out.bias", OutputBias, "O"),
    ];
    const FILTERS: Entries = &[
        ("conv_loc.weight", Filters, "C 1 W"),
        ("mlp_loc.weight", Location, "A C"), ("mlp_loc.bias", Bias, "A"),
    ];
    const OF_KEY_VALUE: Entries = &[
        ("key_linear.weight", Key, "A D"), ("key_linear.bias", KeyBias, "A"),
        ("query_linear.weight", Query, "A Q"), ("query_linear.bias", QueryBias, "A"),
        ("value_linear.weight", Output, "O D"), ("value_linear.bias", OutputBias, "O"),
    ];

    /// `ContentBasedAttention`, "content": additive attention, and a layer applied to the context.
    pub const CONTENT_BASED: Package<WithOutput<AdditiveAttention>> =
        package("SpeechBrain's ContentBasedAttention", &[LAYERS], 1.0, |file| {
            file.with_output(file.additive(), false, false)
        });

    /// `LocationAwareAttention`, "location": location-sensitive attention, which begins with `1 / len`, and a layer
    /// applied to the context. SpeechBrain trains it without gradients through the weights of the previous step: to do
    /// the same, detach `previous` of the state between steps.
    pub const LOCATION_AWARE: Package<WithOutput<LocationAttention>> =
        package("SpeechBrain's LocationAwareAttention", &[LAYERS, FILTERS], 1.0, |file| {
            file.with_output(file.location(Previous, Start::Uniform), false, false)
        });

    /// `KeyValueAttention`, "keyvalue": scaled dot product of projections. The projection of the values becomes the
    /// layer applied to the context, which is equivalent since the weights of a query sum to 1.
    pub const KEY_VALUE: Package<WithOutput<Attention<ProjectedScore>>> =
        package("SpeechBrain's KeyValueAttention", &[OF_KEY_VALUE], 1.0, |file| {
            let scale = (file.sizes.of('A') as f64).sqrt().recip();
            file.with_output(file.projected(false, scale), false, false)
        });
}

/// Coqui TTS 0.28.0 (`coqui-tts`), the `OriginalAttention` of `TTS.tts.layers.tacotron.attentions`, named by options of
/// `TacotronConfig`; `attention_norm` is "sigmoid" where "softmax" is not mentioned. The prefix of a checkpoint is
/// `"model.decoder.attention."`. `windowing` and `forward_attn_mask`, which are for inference, are not offered, nor is
/// `location_attn=False` with "sigmoid" or forward attention.
pub mod coqui {
    use super::*;

    const LAYERS: Entries = &[
        ("query_layer.linear_layer.weight", Query, "A Q"), ("inputs_layer.linear_layer.weight", Key, "A D"),
        ("v.linear_layer.weight", Energy, "1 A"), ("v.linear_layer.bias", EnergyBias, "1"),
    ];
    const FILTERS: Entries = &[
        ("location_layer.location_conv1d.weight", Filters, "C 2 W"),
        ("location_layer.location_dense.linear_layer.weight", Location, "A C"),
    ];
    const AGENT: Entries = &[("ta.weight", Agent, "1 D+Q"), ("ta.bias", AgentBias, "1")];
    const WITH_AGENT: &str = "Coqui's OriginalAttention with trans_agent";

    fn location(file: &Parts) -> LocationAttention {
        file.location(Both, Start::Zeros)
    }

    fn sigmoid(file: &Parts) -> LocationAttention {
        file.normalized_sigmoid(location(file))
    }

    fn forward(file: &Parts, inner: LocationAttention) -> ForwardAttention<LocationAttention> {
        let config = ForwardAttentionConfig::new().with_epsilon(1e-8).with_rest(1e-7);
        file.forward(config, inner, 1.0)
    }

    /// `location_attn=False` and "softmax": additive attention.
    pub const CONTENT: Package<AdditiveAttention> =
        package("Coqui's OriginalAttention without location", &[LAYERS], 1.0, Parts::additive);

    /// "softmax": location-sensitive attention over the weights of the previous step and their sum, as in Tacotron 2.
    pub const ORIGINAL: Package<LocationAttention> =
        package("Coqui's OriginalAttention", &[LAYERS, FILTERS], 1.0, location);

    /// "sigmoid": weights are sigmoids divided by their sum.
    pub const SIGMOID: Package<LocationAttention> =
        package("Coqui's with sigmoid", &[LAYERS, FILTERS], 1.0, sigmoid);

    /// `use_forward_attn=True`, "softmax": forward attention.
    pub const FORWARD: Package<ForwardAttention<LocationAttention>> =
        package("Coqui's with forward_attn", &[LAYERS, FILTERS], 1.0, |file| forward(file, location(file)));

    /// `use_forward_attn=True`, "sigmoid".
    pub const FORWARD_SIGMOID: Package<ForwardAttention<LocationAttention>> =
        package("Coqui's with forward_attn, sigmoid", &[LAYERS, FILTERS], 1.0, |file| forward(file, sigmoid(file)));

    /// `use_forward_attn=True, transition_agent=True`, "softmax": forward attention with a transition agent.
    pub const FORWARD_AGENT: Package<ForwardAttention<LocationAttention>> =
        package(WITH_AGENT, &[LAYERS, FILTERS, AGENT], 1.0, |file| forward(file, location(file)));

    /// `use_forward_attn=True, transition_agent=True`, "sigmoid".
    pub const FORWARD_AGENT_SIGMOID: Package<ForwardAttention<LocationAttention>> =
        package(WITH_AGENT, &[LAYERS, FILTERS, AGENT], 1.0, |file| forward(file, sigmoid(file)));
}

/// NVIDIA's Tacotron 2, `model.Attention`, also as `tacotron2-model` 0.2.4; the prefix of a checkpoint is
/// `"state_dict.decoder.attention_layer."`.
pub mod nvidia {
    use super::*;

    const ENTRIES: Entries = &[
        ("query_layer.linear_layer.weight", Query, "A Q"), ("memory_layer.linear_layer.weight", Key, "A D"),
        ("v.linear_layer.weight", Energy, "1 A"), ("location_layer.location_conv.conv.weight", Filters, "C 2 W"),
        ("location_layer.location_dense.linear_layer.weight", Location, "A C"),
    ];

    /// `Attention`: location-sensitive attention over the weights of the previous step and the sum of all.
    pub const TACOTRON2: Package<LocationAttention> =
        package("NVIDIA's Tacotron 2", &[ENTRIES], 1.0, |file| file.location(Both, Start::Zeros));
}
