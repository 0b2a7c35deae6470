//! The families of encoders, by their differences from BERT.

use super::decoder::{LLAMA, Layout};
use super::names::Names;

/// The differences of a family from BERT.
pub(super) struct Family {
    pub(super) model_types: &'static [&'static str],
    /// The prefix of the names in a model with a head.
    pub(super) prefix: &'static str,
    pub(super) fields: Names,
    pub(super) layers: Layout,
    /// The names of the head.
    pub(super) head: Names,
    /// Whether positions begin in row `pad_token_id + 1` of their table.
    pub(super) begins_after_padding: bool,
    /// Whether tokens have types.
    pub(super) has_types: bool,
    /// Whether the activation of the head is GELU, whatever that of the layers is.
    pub(super) has_gelu_head: bool,
}

const BERT: Family = Family {
    model_types: &["bert"],
    prefix: "bert.",
    fields: Names(&[]),
    layers: Layout {
        names: Names(&[
            ("layers.", "encoder.layer."),
            ("self_attn.q_proj", "attention.self.query"),
            ("self_attn.k_proj", "attention.self.key"),
            ("self_attn.v_proj", "attention.self.value"),
            ("self_attn.o_proj", "attention.output.dense"),
            ("input_layernorm", "attention.output.LayerNorm"),
            ("mlp.fc1", "intermediate.dense"),
            ("mlp.down_proj", "output.dense"),
            ("post_attention_layernorm", "output.LayerNorm"),
        ]),
        ..LLAMA
    },
    head: Names(&[]),
    begins_after_padding: false,
    has_types: true,
    has_gelu_head: false,
};

pub(super) const FAMILIES: [Family; 4] = [
    BERT,
    Family {
        model_types: &["roberta", "xlm-roberta", "camembert"],
        prefix: "roberta.",
        head: Names(&[
            ("cls.predictions.transform.dense", "lm_head.dense"),
            ("cls.predictions.transform.LayerNorm", "lm_head.layer_norm"),
            ("cls.predictions.bias", "lm_head.bias"),
            ("cls.predictions.decoder.weight", "lm_head.decoder.weight"),
            ("cls.predictions.decoder.bias", "lm_head.decoder.bias"),
        ]),
        begins_after_padding: true,
        has_gelu_head: true,
        ..BERT
    },
    Family {
        model_types: &["distilbert"],
        prefix: "distilbert.",
        fields: Names(&[
            ("hidden_size", "dim"),
            ("num_attention_heads", "n_heads"),
            ("num_hidden_layers", "n_layers"),
            ("intermediate_size", "hidden_dim"),
            ("hidden_act", "activation"),
            ("hidden_dropout_prob", "dropout"),
            ("attention_probs_dropout_prob", "attention_dropout"),
        ]),
        layers: Layout {
            names: Names(&[
                ("layers.", "transformer.layer."),
                ("self_attn.q_proj", "attention.q_lin"),
                ("self_attn.k_proj", "attention.k_lin"),
                ("self_attn.v_proj", "attention.v_lin"),
                ("self_attn.o_proj", "attention.out_lin"),
                ("input_layernorm", "sa_layer_norm"),
                ("mlp.fc1", "ffn.lin1"),
                ("mlp.down_proj", "ffn.lin2"),
                ("post_attention_layernorm", "output_layer_norm"),
            ]),
            ..LLAMA
        },
        head: Names(&[
            ("cls.predictions.transform.dense", "vocab_transform"),
            ("cls.predictions.transform.LayerNorm", "vocab_layer_norm"),
            ("cls.predictions.bias", "vocab_projector.bias"),
            ("cls.predictions.decoder.weight", "vocab_projector.weight"),
            ("cls.predictions.decoder.bias", "vocab_projector.bias"),
        ]),
        has_types: false,
        ..BERT
    },
    Family {
        model_types: &["electra"],
        prefix: "electra.",
        head: Names(&[
            (
                "cls.predictions.transform.dense",
                "generator_predictions.dense",
            ),
            (
                "cls.predictions.transform.LayerNorm",
                "generator_predictions.LayerNorm",
            ),
            ("cls.predictions.bias", "generator_lm_head.bias"),
            ("cls.predictions.decoder.weight", "generator_lm_head.weight"),
            ("cls.predictions.decoder.bias", "generator_lm_head.bias"),
        ]),
        has_gelu_head: true,
        ..BERT
    },
];

/// The `model_type`s of the families.
pub(super) fn model_types() -> Vec<&'static str> {
    FAMILIES.map(|family| family.model_types).concat()
}
