//! Activations by name.

use super::fields::Fields;
use crate::feed_forward::FeedForwardActivation;
use attention_import::Reason;

/// The activation in the field `name`, for a feed-forward network with or without a gate.
pub(super) fn activation(
    fields: &Fields,
    name: &str,
    is_gated: bool,
) -> Result<FeedForwardActivation, Reason> {
    let text = fields.text(name)?;
    let Some([plain, gated]) = activation_pair(text) else {
        let known = ["relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "silu"];
        return Err(fields.unknown(name, &known, text));
    };
    Ok(if is_gated { gated } else { plain })
}

/// The activations of a name, without a gate and with it.
pub(super) fn activation_pair(name: &str) -> Option<[FeedForwardActivation; 2]> {
    use FeedForwardActivation::{GeGlu, GeGluTanh, Gelu, GeluTanh, ReGlu, Relu, Silu, SwiGlu};
    Some(match name {
        "relu" => [Relu, ReGlu],
        "gelu" | "gelu_python" => [Gelu, GeGlu],
        "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" | "gelu_python_tanh" => {
            [GeluTanh, GeGluTanh]
        }
        "silu" | "swish" => [Silu, SwiGlu],
        _ => return None,
    })
}
