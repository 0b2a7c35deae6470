//! Trained models as one file, with the names and layouts of PyTorch.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor};
use burn_fused_layers::harness::parameter::value;
use safetensors::tensor::{Dtype, TensorView};

use crate::error::{Error, Result};
use crate::file::write_file;
use crate::translate::Translator;

impl Translator {
    /// Writes the model to a safetensors file, atomically, in f32: parameters with the names and layouts of PyTorch,
    /// which `docs/export.md` lists, settings and vocabularies as JSON in the metadata, under
    /// [`METADATA_KEY`](Self::METADATA_KEY). The same model gives the same bytes.
    ///
    /// ```no_run
    /// use attention_seq2seq::Translator;
    ///
    /// Translator::open("runs/dates")?.export("dates.safetensors")?;
    /// # Ok::<(), attention_seq2seq::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written, [`Error::Config`] if the device fails, the vocabularies exceed the
    /// header of a file, or this is an ensemble.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        let bytes = to_safetensors(self.model()?, self.metadata())?;
        write_file(path, &bytes)
    }

    /// The key of settings and vocabularies in the metadata of an exported file.
    pub const METADATA_KEY: &str = "attention-seq2seq";

    fn metadata(&self) -> String {
        let config = self.config();
        let (source, target) = (config.data.source_tokens(), config.data.target_tokens());
        let metadata = serde_json::json!({
            "model": config.model,
            "attention": config.attention,
            "epoch": self.epoch(),
            "max_len": self.max_len(),
            "vocabs": self.vocabs(),
            "source_tokens": source.tokens,
            "target_tokens": target.tokens,
            "source_subwords": source.subwords,
            "target_subwords": target.subwords,
            "source_has_tags": source.has_tags,
            "unicode": source.normalization,
        });
        metadata.to_string()
    }
}

/// The content of a file with the parameters.
fn to_safetensors(model: &impl Module, metadata: String) -> Result<Vec<u8>> {
    let failed = |error: &dyn Display| {
        let found = error.to_string().replace('\n', " ");
        Error::config("the model to export", "one that fits into a file", found)
    };
    let mut state_dict = StateDict::default();
    model.visit(&mut state_dict);
    let mut tensors = Vec::new();
    for (name, (shape, rows)) in state_dict.tensors {
        let data = Tensor::cat(rows, 0).try_into_data_dtype(DType::F32);
        tensors.push((name, shape, data.map_err(|error| failed(&error))?));
    }
    let mut views = Vec::new();
    for (name, shape, data) in &tensors {
        let view = TensorView::new(Dtype::F32, shape.clone(), data.as_bytes());
        views.push((name, view.map_err(|error| failed(&error))?));
    }
    let metadata = [(Translator::METADATA_KEY.to_string(), metadata)].into();
    safetensors::serialize(views, Some(metadata)).map_err(|error| failed(&error))
}

/// The parameters of a module by their names in PyTorch.
#[derive(Default)]
struct StateDict {
    /// The path to the current module: for each module its type and field, and its name in PyTorch.
    path: Vec<(String, String)>,
    /// The shape of each tensor, and its elements, a part for each parameter that is joined into it.
    tensors: BTreeMap<String, (Vec<usize>, Vec<Tensor<1>>)>,
}

impl ModuleVisitor for StateDict {
    fn enter_module(&mut self, field: &str, module: &str) {
        let field = format!("{}.{field}", module.trim_start_matches("Struct:"));
        let renamed = NAMES.iter().find(|(name, _)| *name == field);
        let name = match renamed {
            Some((_, name)) => name.to_string(),
            None => format!("{}.", field.rsplit('.').next().unwrap_or_default()),
        };
        self.path.push((field, name));
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let mut tensor = value(parameter);
        let field = self.path.last();
        if field.is_some_and(|(field, _)| field == "Linear.weight") {
            tensor = tensor.swap_dims(0, 1);
        }
        let name: String = self.path.iter().map(|(_, name)| name.as_str()).collect();
        let mut name = name.trim_end_matches('.').to_string();
        // `rnn.l.0.ih.weight` is PyTorch's `rnn.weight_ih_l0`.
        if let Some((above, own)) = name.split_once("rnn.l")
            && let [reverse, layer, part, kind] = own.split('.').collect::<Vec<_>>()[..]
        {
            name = format!("{above}rnn.{kind}_{part}_l{layer}{reverse}");
        }
        let (shape, rows) = self.tensors.entry(name).or_default();
        match shape.first_mut() {
            Some(first) => *first += tensor.dims()[0],
            None => shape.extend(tensor.dims()),
        }
        rows.push(tensor.flatten(0, D - 1));
    }
}

/// The fields with another name in PyTorch, and that name with its suffix; `docs/export.md` has all names.
const NAMES: &[(&str, &str)] = &[
    ("Encoder.recurrent", "rnn."),
    ("Decoder.recurrent", "rnn."),
    ("Recurrent.layers", "l."),
    ("Recurrent.reversed", "l_reverse."),
    ("RecurrentLayer.input", "ih."),
    ("RecurrentLayer.hidden", "hh."),
    ("TokenEmbedding.tokens", ""),
    ("TransformerEncoderLayer.attention", "self_attn."),
    ("TransformerEncoderLayer.attention_residual", "norm1."),
    ("TransformerEncoderLayer.feed_forward", ""),
    ("TransformerEncoderLayer.feed_forward_residual", "norm2."),
    ("TransformerDecoderLayer.attention", "self_attn."),
    ("TransformerDecoderLayer.attention_residual", "norm1."),
    ("TransformerDecoderLayer.cross_attention", "multihead_attn."),
    ("TransformerDecoderLayer.cross_attention_residual", "norm2."),
    ("TransformerDecoderLayer.feed_forward", ""),
    ("TransformerDecoderLayer.feed_forward_residual", "norm3."),
    ("Residual.norm", ""),
    ("FeedForward.input", "linear1."),
    ("FeedForward.output", "linear2."),
    ("LayerNorm.gamma", "weight"),
    ("LayerNorm.beta", "bias"),
    ("RmsNorm.gamma", "weight"),
    // These are rows of one matrix, in this order.
    ("MultiHeadAttention.query", "in_proj_"),
    ("MultiHeadAttention.key", "in_proj_"),
    ("MultiHeadAttention.value", "in_proj_"),
    ("MultiHeadAttention.output", "out_proj."),
    ("MultiHeadAttention.attention", ""),
    // D2L's names.
    ("AdditiveScore.query", "W_q."),
    ("AdditiveScore.key", "W_k."),
    ("AdditiveScore.value", "w_v."),
];

#[cfg(test)]
mod tests;
