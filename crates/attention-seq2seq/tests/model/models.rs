//! Models to check, of every shape.

use attention_seq2seq::attention::AnyAttention;
use attention_seq2seq::{AttentionKind, Seq2Seq, Seq2SeqConfig};
use attention_tests::parameters;
use burn_fused_layers::recurrent::CellKind;

use crate::support::{config, drawn_model};

/// One and two layers, one and two directions, GRU and LSTM.
pub(crate) fn configs() -> [Seq2SeqConfig; 4] {
    [
        config(),
        config().with_layers(2),
        config().with_layers(2).with_bidirectional(false),
        config().with_layers(2).with_cell(CellKind::Lstm),
    ]
}

/// Runs `check` on every shape of model with each of these attentions.
pub(crate) fn each_model(
    kinds: &[AttentionKind],
    check: impl Fn(&str, &Seq2SeqConfig, &Seq2Seq<AnyAttention>),
) {
    for (seed, config) in configs().into_iter().enumerate() {
        for &kind in kinds {
            let model = drawn_model(kind, &config, seed as u64);
            check(&format!("{kind:?} {config:?}"), &config, &model);
        }
    }
}

/// A model that predicts `token` for any source.
pub(crate) fn constant(token: u32) -> Seq2Seq<AnyAttention> {
    biased(token, 100.0)
}

/// A model with this bias of the logit of `token`.
pub(crate) fn biased(token: u32, bias: f64) -> Seq2Seq<AnyAttention> {
    let model = drawn_model(AttentionKind::Additive, &config(), 7);
    parameters::changed(model, |path, mut value| {
        if path == "decoder.output.bias" {
            value.data[token as usize] = bias;
        }
        value
    })
}
