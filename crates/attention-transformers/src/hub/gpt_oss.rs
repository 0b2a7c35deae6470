//! The attention of gpt-oss.

use std::path::Path;

use attention_core::functional::AttentionOptions;
use attention_core::import::{ImportError, StateDict};
use attention_core::position::Rotary;
use attention_core::score::DotProductScoreConfig;
use attention_core::{DotProductScore, KeyValueCache, Mask, MultiHeadAttention, NewRows};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde_json::json;

use super::decoder::{Heads, LLAMA, load_attention};
use super::fields::Fields;
use super::folder::load_part;
use super::layer_types::{has_window, window};
use super::rotary::rotary;
use crate::encoder_layer::{TransformerEncoderLayer, within};
use crate::layer_config::TransformerLayerConfig;
use crate::norm::NormConfig;
use crate::residual::Residual;
use crate::state_dict::ReadNorm;

/// The base of the angles, where a config has none.
const THETA: f64 = 150_000.0;

/// The attention of a layer of gpt-oss, within its residual connection: an RMS norm before it, grouped heads with
/// biases, YaRN's angles, a sink in each head, and a window in every other layer.
#[derive(Module, Debug)]
pub struct GptOssAttention {
    /// The attention of the rows to each other.
    pub attention: MultiHeadAttention<Rotary<DotProductScore>>,
    /// The residual connection around it.
    pub residual: Residual,
    /// The number of rows, its own the last, before which a row attends to none, if it is limited.
    pub window: Option<usize>,
}

impl GptOssAttention {
    /// The rows after attention, each of which attends to those up to itself.
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`
    ///
    /// # Panics
    /// If the shapes do not fit together, or the window is 0.
    pub fn forward(&self, rows: Tensor<3>) -> Tensor<3> {
        let options = within(self.window, AttentionOptions::from(&Mask::causal()));
        self.residual.forward(rows, |rows| {
            let attention = &self.attention;
            attention.forward(rows.clone(), rows.clone(), rows, options)
        })
    }

    /// An empty cache for [`forward_cached`](Self::forward_cached), with the window of the layer.
    pub fn cache(&self) -> KeyValueCache {
        KeyValueCache::of_window(self.window)
    }

    /// The last rows of texts after attention, of which `cache` has the keys and values so far, and takes those of the
    /// `new` rows.
    ///
    /// # Shapes
    /// - rows and result `[batch, rows, num_hiddens]`
    ///
    /// # Panics
    /// As [`MultiHeadAttention::forward_cached`].
    pub fn forward_cached(
        &self,
        rows: Tensor<3>,
        new: NewRows,
        cache: &mut KeyValueCache,
    ) -> Tensor<3> {
        self.residual.forward(rows, |rows| {
            let attention = &self.attention;
            attention.forward_cached(rows.clone(), rows.clone(), rows, new, cache)
        })
    }
}

/// Loads the attention of layer `layer` of a gpt-oss (`model_type` `gpt_oss`) from a folder of Hugging Face's. The
/// feed-forward network, a mixture of experts, is not read: this library has none.
///
/// After `model.layers.n.`: `input_layernorm.weight`, and `self_attn.q_proj.weight` and `.bias`, `k_proj`, `v_proj`,
/// `o_proj` (biases with `attention_bias`), and `self_attn.sinks`.
///
/// # Errors
/// As [`hub`](super) says, and if there is no such layer. Tensors of other parts are left alone.
///
/// ```no_run
/// use attention_transformers::hub::load_gpt_oss_attention;
/// use burn::prelude::*;
///
/// let device = Device::flex();
/// let attention = load_gpt_oss_attention("gpt-oss-20b", 0, &device)?;
/// let rows = attention.forward(Tensor::<3>::ones([1, 7, 2880], &device));
/// # Ok::<(), attention_core::import::ImportError>(())
/// ```
pub fn load_gpt_oss_attention(
    folder: impl AsRef<Path>,
    layer: usize,
    device: &Device,
) -> Result<GptOssAttention, ImportError> {
    load_part(
        folder.as_ref(),
        &["gpt_oss"],
        |fields| init(fields, layer, device),
        |attention, file| load(attention, file, &format!("model.layers.{layer}.")),
    )
}

fn init(fields: &Fields, layer: usize, device: &Device) -> Result<GptOssAttention, String> {
    let num_layers = fields.num_layers("num_hidden_layers")?;
    if layer >= num_layers {
        let expected = format!("more than {layer}, as layer {layer} is asked for");
        return Err(fields.wrong("num_hidden_layers", &expected, &num_layers.to_string()));
    }
    let heads = Heads::of(fields)?;
    let angles = json!({ "rope_type": "yarn", "factor": 32.0, "truncate": false,
        "original_max_position_embeddings": 4096 });
    let fields = &fields.clone().or("rope_parameters", angles);
    let rotary = rotary(fields, heads.head_size, THETA)?;
    let epsilon = fields.positive("rms_norm_eps")?;
    let has_window = has_window(fields, num_layers, |at| at % 2 == 0)?;
    let window = window(fields, has_window[layer])?;
    // The feed-forward network is never made.
    let config = TransformerLayerConfig::new(heads.num_hiddens, heads.num_heads, 1)
        .with_num_key_value_heads(Some(heads.num_key_value_heads))
        .with_head_size(Some(heads.head_size))
        .with_norm(NormConfig::Rms { epsilon })
        .with_attention_bias(fields.flag("attention_bias", true)?)
        .with_attention_dropout(fields.dropout("attention_dropout")?)
        .with_sinks(true);
    let score = rotary.init_with(DotProductScoreConfig::new().init(), device);
    let TransformerEncoderLayer {
        attention,
        attention_residual,
        ..
    } = config.init_encoder_with(score, device);
    Ok(GptOssAttention {
        attention,
        residual: attention_residual,
        window,
    })
}

fn load(
    mut of_layer: GptOssAttention,
    file: &StateDict,
    prefix: &str,
) -> Result<GptOssAttention, String> {
    let mut attention = load_attention(of_layer.attention, file, [prefix, "self_attn"], &LLAMA)?;
    let sinks = attention.attention.sinks;
    let sinks = sinks.map(|sinks| file.parameter(sinks, &format!("{prefix}self_attn.sinks")));
    attention.attention.sinks = sinks.transpose()?;
    of_layer.attention = attention;
    let norm = format!("{prefix}input_layernorm");
    of_layer.residual.norm = file.norm(of_layer.residual.norm, &norm)?;
    Ok(of_layer)
}
