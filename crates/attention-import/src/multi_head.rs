//! Parameters of multi-head attention, D2L's and PyTorch's.

use std::path::Path;

use attention_core::{ExtraKeys, MultiHeadAttention, ScoringFunction};
use burn::module::Param;
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::shape;

use crate::Reason;
use crate::state_dict::{Place, StateDict};
use crate::{ImportError, read_file};

/// Loads a PyTorch state dict of multi-head attention into `attention`: of D2L's `MultiHeadAttention` (`W_q.weight`,
/// .., `W_o.weight`) or of `torch.nn.MultiheadAttention` (`in_proj_weight`, or `q_proj_weight`, `k_proj_weight` and
/// `v_proj_weight` if the sizes differ; `out_proj.weight`). Biases (`W_q.bias`, ..; `in_proj_bias`, `out_proj.bias`)
/// are loaded if `attention` has them, `bias_k` and `bias_v` into its [extra
/// keys](attention_core::MultiHeadAttentionConfig::num_extra_keys).
///
/// `prefix` precedes these names in the file: `""` for a state dict of the attention alone.
///
/// If heads are grouped, the query heads that share a key head are neighbours, as in PyTorch's `enable_gqa` and in
/// `transformers`; for x-transformers' order, docs/recipes.md has a recipe.
///
/// A state dict does not say whether PyTorch's module has `add_zero_attn=True`: such a file loads like any other, and
/// each call needs [`AttentionOptions::zero_key`](attention_core::functional::AttentionOptions::zero_key).
///
/// # Errors
/// If the file is missing or malformed, a tensor is missing, has an unsupported type or another shape than `attention`
/// was configured for, or the file has a bias or an output projection that `attention` does not have.
///
/// ```no_run
/// use attention_core::MultiHeadAttentionConfig;
/// use attention_import::load_multi_head_attention;
/// use burn::prelude::*;
///
/// let attention = MultiHeadAttentionConfig::new(512, 8).with_bias(true).init(&Device::flex());
/// let attention = load_multi_head_attention(attention, "model.pt", "encoder.layers.0.self_attn.")?;
/// # Ok::<(), attention_import::ImportError>(())
/// ```
pub fn load_multi_head_attention<S: ScoringFunction>(
    attention: MultiHeadAttention<S>,
    path: impl AsRef<Path>,
    prefix: &str,
) -> Result<MultiHeadAttention<S>, ImportError> {
    read_file(path, prefix, |file| {
        read_multi_head_attention(attention, file, "")
    })
}

/// [`load_multi_head_attention`] from an open file, for the attention whose tensors have the prefix `at`.
///
/// # Errors
/// The reason of [`load_multi_head_attention`]'s error, without the name of the file.
pub fn read_multi_head_attention<S: ScoringFunction>(
    mut attention: MultiHeadAttention<S>,
    file: &StateDict,
    at: &str,
) -> Result<MultiHeadAttention<S>, Reason> {
    let name = |own: &str| format!("{at}{own}");
    attention.unpack();
    let heads = &mut attention.attention;
    heads.extra_keys = match heads.extra_keys.take() {
        Some(extra) => Some(ExtraKeys {
            keys: of_heads(extra.keys, file, &name("bias_k"))?,
            values: of_heads(extra.values, file, &name("bias_v"))?,
        }),
        None => {
            file.refuse(&name("bias_k"), "`num_extra_keys` of the attention is 0")?;
            None
        }
    };
    let is_of_d2l = file.names().any(|of| of.starts_with(&name("W_")));
    let is_fused = !is_of_d2l && !file.contains(&name("q_proj_weight"));
    let output_name = name(if is_of_d2l { "W_o" } else { "out_proj" });

    let layers = [&attention.query, &attention.key, &attention.value];
    let outputs = layers.map(|layer| shape(&layer.weight)[1]);
    let places = |index: usize, letter: char| {
        if is_of_d2l {
            return Place::weight_and_bias(&name(&format!("W_{letter}")));
        }
        let part = |own: &str| Place {
            name: name(own),
            start: outputs[..index].iter().sum(),
            rows: Some(outputs.iter().sum()),
            is_transposed: false,
        };
        let weight = if is_fused {
            part("in_proj_weight")
        } else {
            Place::whole(name(&format!("{letter}_proj_weight")))
        };
        [weight, part("in_proj_bias")]
    };
    attention.query = file.linear(attention.query, places(0, 'q'))?;
    attention.key = file.linear(attention.key, places(1, 'k'))?;
    attention.value = file.linear(attention.value, places(2, 'v'))?;
    attention.output = match attention.output {
        Some(output) => Some(file.linear(output, Place::weight_and_bias(&output_name))?),
        None => {
            let reason = "the attention has no output projection";
            file.refuse(&format!("{output_name}.weight"), reason)?;
            None
        }
    };
    Ok(attention)
}

/// A parameter `[heads, n, size]` with the elements of a tensor `[1, n, heads * size]`.
fn of_heads(
    param: Param<Tensor<3>>,
    file: &StateDict,
    name: &str,
) -> Result<Param<Tensor<3>>, Reason> {
    let [heads, number, size] = shape(&param);
    let found = file.find(name, &[1, number, heads * size])?;
    file.load(param, name, &found, |data, device, dtype| {
        let rows = Tensor::<3>::from_data(data, (device, dtype));
        rows.reshape([number, heads, size]).swap_dims(0, 1)
    })
}
