//! Trained models as one file, in the names and layouts of PyTorch.

mod attention;
mod metadata;
mod recurrent;
mod state_dict;
mod transformer;

use std::path::Path;

use crate::error::Result;
use crate::file::write_atomic;
use crate::model::AnyModel;
use crate::translate::Translator;

use metadata::Metadata;
use state_dict::{Parameters, StateDict};

impl Translator {
    /// Writes the model to a file of safetensors, whole or not at all: all that another program needs to translate as
    /// it does.
    ///
    /// The tensors have the names and layouts of PyTorch, which `torch.nn`'s modules load: `encoder.rnn.weight_ih_l0`
    /// is `[gates, in]`, `decoder.attention.W_q.weight` that of D2L's `AdditiveAttention`, and
    /// `encoder.layers.0.self_attn.in_proj_weight` that of a `TransformerEncoder`. Settings and vocabularies are JSON
    /// in the file's metadata, under [`METADATA_KEY`](Self::METADATA_KEY). [`PYTHON_LOADER`](Self::PYTHON_LOADER) reads
    /// all of it.
    ///
    /// The same model makes the same bytes.
    ///
    /// ```no_run
    /// use attention_seq2seq::{RunDir, Translator};
    /// use burn::tensor::Device;
    ///
    /// let translator = Translator::load(&RunDir::new("runs/dates"), &Device::flex())?;
    /// translator.export("dates.safetensors")?;
    /// # Ok::<(), attention_seq2seq::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the file cannot be written, [`Error::Config`](crate::Error::Config) if the
    /// device fails, the vocabularies are longer than the header of a file may be, or this is an ensemble.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        let metadata = Metadata::of(self).to_json();
        let state_dict = StateDict::of(self.model()?);
        let bytes = state_dict.into_safetensors(Self::METADATA_KEY, metadata)?;
        write_atomic(path, &bytes, || Ok(()))
    }

    /// The key of settings and vocabularies in the metadata of an exported file.
    pub const METADATA_KEY: &str = "attention-seq2seq";

    /// The source of `seq2seq.py`, which loads an exported file into PyTorch and translates with it.
    pub const PYTHON_LOADER: &str = include_str!("../../python/seq2seq.py");
}

impl Parameters for AnyModel {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        match self {
            Self::Rnn(model) => model.add_to(tensors, at),
            Self::Transformer(model) => model.add_to(tensors, at),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests;
