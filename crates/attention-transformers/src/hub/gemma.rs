//! Parts that Gemma 2 and Gemma 3 have in common.

use super::decoder::{Heads, LLAMA, Layout, layer_config, model_config};
use super::fields::Fields;
use crate::language_model::LanguageModelConfig;
use crate::residual::NormOrder;

/// Files have the gains of normalizations less 1.
pub(super) const GEMMA: Layout = Layout {
    offset: 1.0,
    ..LLAMA
};

/// Layers with normalizations before and after their sublayers, below a scaled embedding that is the head, too.
pub(super) fn gemma_config(fields: &Fields, heads: &Heads) -> Result<LanguageModelConfig, String> {
    let reason = "rows attend to those up to themselves";
    fields.refuse_flag("use_bidirectional_attention", reason)?;
    let layer = layer_config(fields, heads, "hidden_activation")?;
    let layer = layer.with_norm_order(NormOrder::Sandwich);
    let mut config = model_config(fields, layer, true)?;
    config.embedding.scaled = true;
    let soft_cap = fields.positive_or_null("final_logit_softcapping")?;
    Ok(config.with_logit_soft_cap(soft_cap))
}

/// The factor on scores, `1 / sqrt(query_pre_attn_scalar)`.
pub(super) fn scale(fields: &Fields) -> Result<f64, String> {
    Ok(fields.positive("query_pre_attn_scalar")?.sqrt().recip())
}
