//! The families of encoders, as they differ from BERT.

use super::names::Names;

/// A family, as it differs from BERT.
pub(super) struct Family {
    pub(super) model_types: &'static [&'static str],
    /// The beginning of the names of a model that has a head.
    pub(super) prefix: &'static str,
    pub(super) fields: Names,
    /// Names after the prefix or those of a layer, and of the head.
    pub(super) tensors: Names,
    /// Whether positions begin in row `pad_token_id + 1` of their table.
    pub(super) begins_after_padding: bool,
    /// Whether tokens have types.
    pub(super) has_types: bool,
    /// Whether the activation of the head is GELU, whatever the layers have.
    pub(super) has_gelu_head: bool,
}

const BERT: Family = Family {
    model_types: &["bert"],
    prefix: "bert.",
    fields: Names(&[]),
    tensors: Names(&[]),
    begins_after_padding: false,
    has_types: true,
    has_gelu_head: false,
};

pub(super) const FAMILIES: [Family; 4] = [
    BERT,
    Family {
        model_types: &["roberta", "xlm-roberta", "camembert"],
        prefix: "roberta.",
        tensors: Names(&[
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
        tensors: Names(&[
            ("encoder.layer.", "transformer.layer."),
            ("attention.self.query", "attention.q_lin"),
            ("attention.self.key", "attention.k_lin"),
            ("attention.self.value", "attention.v_lin"),
            ("attention.output.dense", "attention.out_lin"),
            ("attention.output.LayerNorm", "sa_layer_norm"),
            ("intermediate.dense", "ffn.lin1"),
            ("output.dense", "ffn.lin2"),
            ("output.LayerNorm", "output_layer_norm"),
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
        tensors: Names(&[
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
pub(super) const MODEL_TYPES: [&str; 6] = [
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "distilbert",
    "electra",
];
