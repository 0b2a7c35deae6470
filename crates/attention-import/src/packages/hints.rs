//! Suggestions for a file that a class does not fit: another class, a recipe, or the class under another prefix.

use super::names::Names;
use super::*;
use crate::state_dict::NEAREST;

macro_rules! classes {
    ($($path:path),* $(,)?) => { &[$((stringify!($path), $path.names)),*] };
}

/// The constants with their names.
#[rustfmt::skip] // a table of names, packed to be read side by side
const CLASSES: &[(&str, Names)] = classes![
    espnet::ATT_ADD, espnet::ATT_DOT, espnet::ATT_LOC, espnet::ATT_LOC_CUMULATIVE, espnet::ATT_COV_LOC,
    espnet::ATT_FORWARD, espnet::ATT_COV, espnet::ATT_FORWARD_TA, speechbrain::CONTENT_BASED,
    speechbrain::LOCATION_AWARE, speechbrain::KEY_VALUE, coqui::CONTENT, coqui::ORIGINAL, coqui::SIGMOID,
    coqui::FORWARD, coqui::FORWARD_SIGMOID, coqui::FORWARD_AGENT, coqui::FORWARD_AGENT_SIGMOID, opennmt::MLP,
    opennmt::GENERAL, opennmt::DOT, joeynmt::BAHDANAU, joeynmt::LUONG, allennlp::ADDITIVE, allennlp::BILINEAR,
    fairseq::ATTENTION_LAYER, yoyodyne::ATTENTION, tensorflow_addons::BAHDANAU, tensorflow_addons::LUONG,
    texar::BAHDANAU, texar::LUONG, sockeye::MLP, keras::ADDITIVE, keras::MULTI_HEAD, keras::GRU, keras::LSTM,
    d2l::pytorch::ADDITIVE, d2l::pytorch::MULTI_HEAD, d2l::pytorch::GRU,
    d2l::mxnet::ADDITIVE, d2l::mxnet::MULTI_HEAD, d2l::mxnet::GRU,
    d2l::tensorflow::ADDITIVE, d2l::tensorflow::MULTI_HEAD, d2l::tensorflow::GRU,
    d2l::jax::ADDITIVE, d2l::jax::MULTI_HEAD, d2l::jax::GRU,
    d2l::paddle::ADDITIVE, d2l::paddle::MULTI_HEAD, d2l::paddle::GRU, marian::RNN_ATTENTION, nvidia::TACOTRON2,
    gluonnlp::MLP, gluonnlp::NORMALIZED_MLP, pytorch_nlp::GENERAL, keras_attention::BAHDANAU,
    keras_attention::LUONG, keras_self_attention::ADDITIVE, keras_self_attention::MULTIPLICATIVE,
    onnx_runtime::ATTN_LSTM, onnx_runtime::ATTN_LSTM_WITH_AW,
];

/// Tensors of classes for which there is a recipe, and the smallest size of their third axis.
#[rustfmt::skip] // a table
const RECIPES: [(&str, usize, &str); 5] = [
    ("loc_conv.weight", 2, "ESPnet's AttLoc2D"),
    ("linear_cover.weight", 0, "OpenNMT-py's coverage_attn"),
    ("att_lstm.weight_hh", 0, "ESPnet's AttLocRec"),
    ("gvec.0.weight", 0, "ESPnet's AttMultiHeadAdd or AttMultiHeadLoc"),
    ("attention_score_bias", 0, "TensorFlow Addons' or texar's monotonic attention"),
];

/// The end of the error for a class that a file does not fit.
pub(super) fn hint(names: &Names, file: &StateDict) -> String {
    let has = |(name, least, _): &&(&str, usize, &str)| {
        let shape = file.shape(name);
        shape.is_ok_and(|shape| shape.get(2).is_none_or(|size| size >= least))
    };
    if let Some((.., class)) = RECIPES.iter().find(has) {
        return format!("; the file is of {class}, a recipe in docs/recipes.md");
    }
    let fitting = CLASSES.iter().filter(|(_, names)| names.fits(file));
    let classes = fitting.map(|(path, _)| path.to_string()).collect();
    let said = [
        ("the names fit", classes, ""),
        ("did you mean the prefix", names.prefixes(file), "?"),
    ];
    let said = said.into_iter().filter(|(_, found, _)| !found.is_empty());
    let said = said.map(|(what, found, end): (_, Vec<String>, _)| {
        let told = found.iter().take(NEAREST);
        let told = told.map(|one| format!("`{}`", shown(one)));
        format!("; {what} {}{end}", told.collect::<Vec<_>>().join(" or "))
    });
    said.collect()
}
