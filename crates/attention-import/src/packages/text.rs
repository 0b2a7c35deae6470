//! Packages for texts.

use attention_core::score::BilinearScore;
use attention_core::{AdditiveAttention, Attention, DotProductAttention};
use burn::tensor::Tensor;

use super::Role::*;
use super::{Entries, Package, Parts, WithOutput, package};

/// OpenNMT-py 3.5.1, `onmt.modules.GlobalAttention`, named by `global_attention`; the prefix ends in `"decoder.attn."`.
/// The layer applied to the context also reads the query. docs/recipes.md has a recipe for `coverage_attn`; if
/// `global_attention_function` is "sparsemax", set that normalizer on `attention`.
pub mod opennmt {
    use super::*;

    const OF_MLP: Entries = &[
        ("linear_context.weight", Key, "A D"), ("linear_query.weight", Query, "A Q"),
        ("linear_query.bias", Bias, "A"), ("v.weight", Energy, "1 A"),
        ("linear_out.weight", Output, "O D+Q"), ("linear_out.bias", OutputBias, "O"),
    ];
    const OF_GENERAL: Entries = &[("linear_in.weight", Bilinear, "D Q"), ("linear_out.weight", Output, "O D+Q")];

    /// `"mlp"`: additive attention; the layer after it has no tanh.
    pub const MLP: Package<WithOutput<AdditiveAttention>> =
        package("OpenNMT-py's mlp", &[OF_MLP], 1.0, |file| file.with_output(file.additive(), true, false));

    /// `"general"`: bilinear attention; the layer after it has a tanh.
    pub const GENERAL: Package<WithOutput<Attention<BilinearScore>>> =
        package("OpenNMT-py's general", &[OF_GENERAL], 1.0, |file| file.with_output(file.bilinear(), true, true));

    /// `"dot"`: dot-product attention without `1 / sqrt(size)`; the layer after it has a tanh.
    pub const DOT: Package<WithOutput<DotProductAttention>> =
        package("OpenNMT-py's dot", &[&[("linear_out.weight", Output, "O O+O")]], 1.0,
            |file| file.with_output(file.dot_product(), true, true));
}

/// JoeyNMT 2.3.0, `joeynmt.attention`, by `attention` of its configuration; the prefix ends in `"decoder.attention."`.
pub mod joeynmt {
    use super::*;

    const OF_BAHDANAU: Entries = &[
        ("key_layer.weight", Key, "A D"), ("query_layer.weight", Query, "A Q"),
        ("energy_layer.weight", Energy, "1 A"),
    ];

    /// "bahdanau", `BahdanauAttention`: additive attention.
    pub const BAHDANAU: Package<AdditiveAttention> =
        package("JoeyNMT's BahdanauAttention", &[OF_BAHDANAU], 1.0, Parts::additive);

    /// "luong", `LuongAttention`: bilinear attention. There the layer is applied to the keys, here to the queries.
    pub const LUONG: Package<Attention<BilinearScore>> =
        package("JoeyNMT's LuongAttention", &[&[("key_layer.weight", Bilinear, "Q D")]], 1.0, Parts::bilinear);
}

/// AllenNLP 2.10.1, `allennlp.modules.attention`. There both return only weights.
pub mod allennlp {
    use super::*;

    const OF_ADDITIVE: Entries =
        &[("_w_matrix", Query, "Q A"), ("_u_matrix", Key, "D A"), ("_v_vector", Energy, "A 1")];
    const OF_BILINEAR: Entries = &[("_weight_matrix", Bilinear, "Q D"), ("_bias", EnergyBias, "1")];

    /// `AdditiveAttention`.
    pub const ADDITIVE: Package<AdditiveAttention> =
        package("AllenNLP's AdditiveAttention", &[OF_ADDITIVE], 1.0, Parts::additive);

    /// `BilinearAttention` with its default `activation`, none.
    pub const BILINEAR: Package<Attention<BilinearScore>> =
        package("AllenNLP's BilinearAttention", &[OF_BILINEAR], 1.0, Parts::bilinear);
}

/// fairseq 0.12.2, `fairseq.models.lstm`; the prefix ends in `"decoder.attention."`.
pub mod fairseq {
    use super::*;

    const ENTRIES: Entries = &[
        ("input_proj.weight", Bilinear, "D Q"), ("input_proj.bias", QueryBias, "D?"),
        ("output_proj.weight", Output, "O D+Q"), ("output_proj.bias", OutputBias, "O?"),
    ];

    /// `AttentionLayer`: bilinear attention, and a layer of context and query with tanh.
    pub const ATTENTION_LAYER: Package<WithOutput<Attention<BilinearScore>>> =
        package("fairseq's AttentionLayer", &[ENTRIES], 1.0, |file| file.with_output(file.bilinear(), true, true));
}

/// yoyodyne 0.5.27, `yoyodyne.models.modules.attention`.
pub mod yoyodyne {
    use super::*;

    /// `Attention`: additive attention, with a single layer for the encoded source followed by the query.
    pub const ATTENTION: Package<AdditiveAttention> = package("yoyodyne's Attention", &[&[
        ("M.weight", KeyAndQuery, "A D+A"), ("M.bias", Bias, "A"), ("V.weight", Energy, "1 A"),
        ("V.bias", EnergyBias, "1")]], 1.0, Parts::additive);
}

/// The score of TensorFlow Addons and texar.
const OF_SCORE: Entries = &[("attention_v", Energy, "A"), ("attention_g", Gain, "?"), ("attention_b", Bias, "A?")];

/// TensorFlow Addons 0.23.0, `tensorflow_addons.seq2seq`, in a safetensors file with the names of `weights` or of
/// `tf.train.list_variables`; the prefix is `"BahdanauAttention/"`, or the path of the `AttentionWrapper` around it.
pub mod tensorflow_addons {
    use super::*;

    /// `BahdanauAttention`, with or without `normalize=True`: additive attention.
    pub const BAHDANAU: Package<AdditiveAttention> =
        package("TensorFlow Addons' BahdanauAttention",
            &[&[("memory_layer/kernel", Key, "D A"), ("kernel", Query, "Q A")], OF_SCORE], 1.0, Parts::additive);

    /// `LuongAttention`, with or without `scale=True`: bilinear attention.
    pub const LUONG: Package<Attention<BilinearScore>> =
        package("TensorFlow Addons' LuongAttention",
            &[&[("memory_layer/kernel", Bilinear, "D Q"), ("attention_g", Gain, "?")]], 1.0, Parts::bilinear);
}

/// texar-pytorch 0.1.4, `texar.torch.core`.
pub mod texar {
    use super::*;
    /// `BahdanauAttention`, with or without `normalize=True`: additive attention.
    pub const BAHDANAU: Package<AdditiveAttention> =
        package("texar's BahdanauAttention", &[&[("_memory_layer.weight", Key, "A D"),
            ("_query_layer.weight", Query, "A Q")], OF_SCORE], 1.0, Parts::additive);

    /// `LuongAttention`, with or without `scale=True`: bilinear attention.
    pub const LUONG: Package<Attention<BilinearScore>> =
        package("texar's LuongAttention",
            &[&[("_memory_layer.weight", Bilinear, "Q D"), ("attention_g", Gain, "?")]], 1.0, Parts::bilinear);
}

/// Sockeye 1.18.106, `sockeye.rnn_attention`, in a safetensors file of its MXNet parameters; prefixes end in `"att_"`.
pub mod sockeye {
    use super::*;

    /// `MlpAttention` without layer normalization and coverage: additive attention.
    pub const MLP: Package<AdditiveAttention> = package("Sockeye's MlpAttention", &[&[
        ("e2h_weight", Key, "A D"), ("q2h_weight", Query, "A Q"), ("h2s_weight", Energy, "1 A")]],
        1.0, Parts::additive);
}

/// gluonnlp 0.10.0, `gluonnlp.model.attention_cell`, in a safetensors file with the output of `save_parameters`.
pub mod gluonnlp {
    use super::*;

    const LAYERS: Entries = &[
        ("_query_mid_layer.weight", Query, "A Q"), ("_query_mid_layer.bias", Bias, "A"),
        ("_key_mid_layer.weight", Key, "A D"),
    ];

    /// `MLPAttentionCell`: additive attention.
    pub const MLP: Package<AdditiveAttention> = package("gluonnlp's MLPAttentionCell",
        &[LAYERS, &[("_attention_score.weight", Energy, "1 A")]], 1.0, Parts::additive);

    /// `MLPAttentionCell` with `normalized=True`.
    pub const NORMALIZED_MLP: Package<AdditiveAttention> = package("gluonnlp's MLPAttentionCell with normalized",
        &[LAYERS, &[("_attention_score.v", Energy, "1 A"), ("_attention_score.g", Gain, "1")]], 1.0, Parts::additive);
}

/// pytorch-nlp 0.5.0, `torchnlp.nn.Attention`. There the layer applied to the context reads the projected query; here
/// its weight is multiplied by that of the projection. The other `attention_type`, "dot", is [`opennmt::DOT`].
pub mod pytorch_nlp {
    use super::*;

    const ENTRIES: Entries = &[("linear_in.weight", Bilinear, "D Q"), ("linear_out.weight", Output, "O D+D")];

    /// `"general"`: bilinear attention; the layer after it has a tanh.
    pub const GENERAL: Package<WithOutput<Attention<BilinearScore>>> =
        package("pytorch-nlp's Attention", &[ENTRIES], 1.0, |file| {
            let [context, query] = file.output_parts(['D', 'D']);
            let weight = vec![context, file.tensor(Bilinear).matmul(query)];
            let mut layers = file.with_output(file.bilinear(), true, true);
            layers.output.linear.weight = file.parameter(Tensor::cat(weight, 0));
            layers
        });
}

/// `attention` 5.0.0, for Keras, whose query is the last state, in a safetensors file with the names of `weights`; the
/// prefix is the layer's name, `"attention/"`.
pub mod keras_attention {
    use super::*;

    const LAYER: Entries = &[("attention_vector/kernel", Output, "D+Q O")];
    const OF_BAHDANAU: Entries = &[
        ("bahdanau_w1/kernel", Query, "Q A"), ("bahdanau_w2/kernel", Key, "D A"),
        ("bahdanau_v/kernel", Energy, "A 1"),
    ];

    /// `score="bahdanau"`: additive attention; the layer after it has a tanh.
    pub const BAHDANAU: Package<WithOutput<AdditiveAttention>> = package("attention's bahdanau", &[OF_BAHDANAU, LAYER],
        1.0, |file| file.with_output(file.additive(), true, true));

    /// `score="luong"`, the default: bilinear attention; the layer after it has a tanh.
    pub const LUONG: Package<WithOutput<Attention<BilinearScore>>> = package("attention's luong",
        &[&[("luong_w/kernel", Bilinear, "D Q")], LAYER], 1.0, |file| file.with_output(file.bilinear(), true, true));
}

/// keras-self-attention 0.51.0, `SeqSelfAttention`, whose queries are the keys, in a safetensors file with the names of
/// `weights`; the prefix is the layer's path and name, `"seq_self_attention/seq_self_attention_"`.
pub mod keras_self_attention {
    use super::*;

    const OF_ADDITIVE: Entries = &[
        ("Add_Wt", Query, "Q A"), ("Add_Wx", Key, "D A"), ("Add_bh", Bias, "A?"), ("Add_Wa", Energy, "A 1"),
        ("Add_ba", EnergyBias, "1?"),
    ];
    const OF_MULTIPLICATIVE: Entries = &[("Mul_Wa", Bilinear, "Q D"), ("Mul_ba", EnergyBias, "1?")];

    /// `"additive"`: additive attention.
    pub const ADDITIVE: Package<AdditiveAttention> =
        package("keras-self-attention's additive", &[OF_ADDITIVE], 1.0, Parts::additive);

    /// `"multiplicative"`: bilinear attention.
    pub const MULTIPLICATIVE: Package<Attention<BilinearScore>> =
        package("keras-self-attention's multiplicative", &[OF_MULTIPLICATIVE], 1.0, Parts::bilinear);
}

/// ONNX Runtime 1.32.0's operator `com.microsoft.AttnLSTM`, in a safetensors file with its inputs for one direction.
pub mod onnx_runtime {
    use super::*;

    const LAYERS: Entries = &[("QW", Query, "1 Q A"), ("MW", Key, "1 D A"), ("V", Energy, "1 A")];

    /// The attention without `AW`: additive attention, whose query is the state of the LSTM.
    pub const ATTN_LSTM: Package<AdditiveAttention> =
        package("ONNX Runtime's AttnLSTM", &[LAYERS], 1.0, Parts::additive);

    /// The attention with `AW`, a layer applied to the context, which also reads the query.
    pub const ATTN_LSTM_WITH_AW: Package<WithOutput<AdditiveAttention>> =
        package("ONNX Runtime's AttnLSTM with AW", &[LAYERS, &[("AW", Output, "1 Q+D O")]], 1.0, |file| {
            let [query, context] = file.output_parts(['Q', 'D']);
            let mut layers = file.with_output(file.additive(), true, false);
            layers.output.linear.weight = file.parameter(Tensor::cat(vec![context, query], 0));
            layers
        });
}
