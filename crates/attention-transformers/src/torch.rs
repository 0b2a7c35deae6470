//! Parameters of PyTorch's Transformer layers and stacks, from files that [`attention_import`] reads.
//!
//! A function fills a layer or a stack that was configured before, because a state dict contains neither the number of
//! heads nor the activation nor the order of normalizations. burn-store names a tensor by the fields of its module,
//! which are called in PyTorch
//!
//! | here | PyTorch |
//! | --- | --- |
//! | `attention`, `cross_attention` | `self_attn`, `multihead_attn` |
//! | `feed_forward.input`, `feed_forward.output` | `linear1`, `linear2` |
//! | `attention_residual.norm`, `feed_forward_residual.norm` of an encoder | `norm1`, `norm2` |
//! | the same in a decoder, with `cross_attention_residual.norm` between them | `norm1`, `norm3`, `norm2` |

use std::path::Path;

use attention_core::ScoringFunction;
use attention_import::{ImportError, Place, Reason, StateDict, read_multi_head_attention};

use crate::decoder::TransformerDecoder;
use crate::decoder_layer::TransformerDecoderLayer;
use crate::encoder::TransformerEncoder;
use crate::encoder_layer::TransformerEncoderLayer;
use crate::feed_forward::FeedForward;
use crate::norm::Norm;
use crate::residual::Residual;
use crate::state_dict::ReadNorm;

/// Loads a PyTorch state dict of `torch.nn.TransformerEncoderLayer` into `layer`: `self_attn.in_proj_weight`, ..,
/// `linear1`, `linear2`, `norm1` and `norm2`.
///
/// See [`load_transformer_encoder`] for what a state dict does not contain.
///
/// # Errors
/// As [`load_transformer_encoder`].
pub fn load_transformer_encoder_layer<S: ScoringFunction>(
    layer: TransformerEncoderLayer<S>,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<TransformerEncoderLayer<S>, ImportError> {
    load(path.as_ref(), prefix, None, |file| {
        encoder_layer(layer, file, "")
    })
}

/// Loads a PyTorch state dict of `torch.nn.TransformerDecoderLayer` into `layer`: `self_attn.in_proj_weight`, ..,
/// `multihead_attn.in_proj_weight`, .., `linear1`, `linear2`, `norm1`, `norm2` and `norm3`.
///
/// See [`load_transformer_encoder`] for what a state dict does not contain.
///
/// # Errors
/// As [`load_transformer_encoder`].
pub fn load_transformer_decoder_layer<S: ScoringFunction, C: ScoringFunction>(
    layer: TransformerDecoderLayer<S, C>,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<TransformerDecoderLayer<S, C>, ImportError> {
    load(path.as_ref(), prefix, None, |file| {
        decoder_layer(layer, file, "")
    })
}

/// Loads a PyTorch state dict of `torch.nn.TransformerEncoder` into `stack`: `layers.0.self_attn.in_proj_weight`, ..,
/// and `norm`, if the stack ends with a normalization.
///
/// `prefix` precedes these names in the file, such as `"encoder."` in a state dict of `torch.nn.Transformer`. Every
/// tensor with the prefix must have a place in `stack`, and every parameter of `stack` a tensor. Parameters of scores,
/// sinks and a position bias, which PyTorch does not have, stay as they are.
///
/// A state dict contains only parameters. **All else must be configured in `stack`**, and nothing is guessed. PyTorch's
/// defaults, beside ours:
///
/// | PyTorch | its default | here | our default |
/// | --- | --- | --- | --- |
/// | `norm_first` | `False` | `norm_order` | [`Pre`](crate::NormOrder::Pre), its `True` |
/// | `norm` of a stack | `None` | `final_norm` | a norm, unless the order is `Post` |
/// | `activation` | `relu` | `activation` | [`Relu`](crate::FeedForwardActivation::Relu), the same |
/// | `layer_norm_eps` | `1e-5` | `norm` | [`NormConfig::layer`](crate::layer::NormConfig::layer), the same |
/// | `nhead` | none | `num_heads` | none |
/// | `dropout` | 0.1 | `dropout`, `attention_dropout`, `feed_forward_dropout` | 0 |
///
/// With `bias=False` PyTorch omits the biases of both linear layers and normalizations: set `attention_bias`,
/// `feed_forward_bias` and the bias of [`NormConfig`](crate::layer::NormConfig) to false.
///
/// # Errors
/// If the file is missing or malformed, a tensor is missing, has an unsupported type or another shape than `stack` was
/// configured for, the file has a tensor without a place in `stack` (a layer, a bias, a last normalization), or `stack`
/// has something that PyTorch's layers do not have: a gate in the feed-forward network, or normalizations of sublayer
/// outputs.
///
/// ```no_run
/// use attention_transformers::torch::load_transformer_encoder;
/// use attention_transformers::{NormOrder, TransformerEncoderConfig, TransformerLayerConfig};
/// use burn::prelude::*;
///
/// // layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
/// // encoder = nn.TransformerEncoder(layer, 6)
/// let layer = TransformerLayerConfig::new(512, 8, 2048).with_norm_order(NormOrder::Post);
/// let stack = TransformerEncoderConfig::new(layer, 6).init(&Device::flex());
/// let stack = load_transformer_encoder(stack, "model.pt", "encoder.")?;
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_transformer_encoder<S: ScoringFunction>(
    mut stack: TransformerEncoder<S>,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<TransformerEncoder<S>, ImportError> {
    let num_layers = stack.layers.len();
    load(path.as_ref(), prefix, Some(num_layers), |file| {
        let layers = stack.layers.into_iter().enumerate();
        let layers = layers.map(|(index, layer)| encoder_layer(layer, file, &place_of(index)));
        stack.layers = layers.collect::<Result<_, _>>()?;
        stack.norm = final_norm(stack.norm, file)?;
        Ok(stack)
    })
}

/// Loads a PyTorch state dict of `torch.nn.TransformerDecoder` into `stack`: `layers.0.self_attn.in_proj_weight`, ..,
/// `layers.0.multihead_attn.in_proj_weight`, .., and `norm`, if the stack ends with a normalization.
///
/// See [`load_transformer_encoder`] for what a state dict does not contain. In a state dict of `torch.nn.Transformer`
/// the prefix is `"decoder."`.
///
/// # Errors
/// As [`load_transformer_encoder`].
pub fn load_transformer_decoder<S: ScoringFunction, C: ScoringFunction>(
    mut stack: TransformerDecoder<S, C>,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<TransformerDecoder<S, C>, ImportError> {
    let num_layers = stack.layers.len();
    load(path.as_ref(), prefix, Some(num_layers), |file| {
        let layers = stack.layers.into_iter().enumerate();
        let layers = layers.map(|(index, layer)| decoder_layer(layer, file, &place_of(index)));
        stack.layers = layers.collect::<Result<_, _>>()?;
        stack.norm = final_norm(stack.norm, file)?;
        Ok(stack)
    })
}

/// The module that `load_parameters` makes from the tensors at `prefix`, all of which it must read. `num_layers` is for
/// a stack.
fn load<M>(
    path: &Path,
    prefix: &str,
    num_layers: Option<usize>,
    load_parameters: impl FnOnce(&StateDict) -> Result<M, Reason>,
) -> Result<M, ImportError> {
    let load_all = |file: StateDict| {
        let loaded = load_parameters(&file)?;
        let Some(name) = file.unread().first().map(|name| name.to_string()) else {
            return Ok(loaded);
        };
        let reason = match num_layers {
            Some(count) if is_beyond(&name, count) => format!("the number of layers is {count}"),
            _ => "the module has no place for it".to_string(),
        };
        file.refuse(&name, &reason).map(|()| loaded)
    };
    let file = StateDict::open(path, prefix);
    file.and_then(load_all).map_err(ImportError::of(path))
}

/// The prefix of the names of layer `index`.
fn place_of(index: usize) -> String {
    format!("layers.{index}.")
}

/// Whether a tensor belongs to a layer after the first `count` layers.
fn is_beyond(name: &str, count: usize) -> bool {
    let rest = name.strip_prefix("layers.");
    let index = rest.and_then(|rest| rest.split('.').next());
    let index = index.and_then(|index| index.parse::<usize>().ok());
    index.is_some_and(|index| index >= count)
}

fn encoder_layer<S: ScoringFunction>(
    mut layer: TransformerEncoderLayer<S>,
    file: &StateDict,
    at: &str,
) -> Result<TransformerEncoderLayer<S>, Reason> {
    let name = |of: &str| format!("{at}{of}");
    layer.attention = read_multi_head_attention(layer.attention, file, &name("self_attn."))?;
    layer.attention_residual = residual(layer.attention_residual, file, &name("norm1"))?;
    layer.feed_forward = feed_forward(layer.feed_forward, file, at)?;
    layer.feed_forward_residual = residual(layer.feed_forward_residual, file, &name("norm2"))?;
    Ok(layer)
}

fn decoder_layer<S: ScoringFunction, C: ScoringFunction>(
    mut layer: TransformerDecoderLayer<S, C>,
    file: &StateDict,
    at: &str,
) -> Result<TransformerDecoderLayer<S, C>, Reason> {
    let name = |of: &str| format!("{at}{of}");
    layer.attention = read_multi_head_attention(layer.attention, file, &name("self_attn."))?;
    layer.attention_residual = residual(layer.attention_residual, file, &name("norm1"))?;
    layer.cross_attention =
        read_multi_head_attention(layer.cross_attention, file, &name("multihead_attn."))?;
    layer.cross_attention_residual =
        residual(layer.cross_attention_residual, file, &name("norm2"))?;
    layer.feed_forward = feed_forward(layer.feed_forward, file, at)?;
    layer.feed_forward_residual = residual(layer.feed_forward_residual, file, &name("norm3"))?;
    Ok(layer)
}

fn residual(mut residual: Residual, file: &StateDict, norm: &str) -> Result<Residual, Reason> {
    if residual.output_norm.is_some() {
        let reason =
            "expected layers of `NormOrder::Pre` or `Post`, as PyTorch's are, got `Sandwich`";
        return Err(reason.into());
    }
    residual.norm = file.norm(residual.norm, norm)?;
    Ok(residual)
}

fn feed_forward(
    mut network: FeedForward,
    file: &StateDict,
    at: &str,
) -> Result<FeedForward, Reason> {
    if network.gate.is_some() {
        let reason =
            "expected an activation without a gate, as PyTorch's layers have, got a gated one";
        return Err(reason.into());
    }
    let place = |of: &str| Place::weight_and_bias(&format!("{at}{of}"));
    network.input = file.linear(network.input, place("linear1"))?;
    network.output = file.linear(network.output, place("linear2"))?;
    Ok(network)
}

/// The normalization after the last layer.
fn final_norm(norm: Option<Norm>, file: &StateDict) -> Result<Option<Norm>, Reason> {
    match norm {
        Some(norm) => file.norm(norm, "norm").map(Some),
        None => {
            let reason = "the stack ends without a normalization (`final_norm`)";
            file.refuse("norm.weight", reason).map(|()| None)
        }
    }
}
