//! Attentions of other packages, by the names in their files.
//!
//! A [`Package`] is a class of another package: its tensors with their shapes, how they become the parameters of a
//! module here, and the factor on its energies, which files do not contain. [`Package::load`] makes the module; all
//! sizes are read from the file.
//!
//! ```no_run
//! use attention_core::burn_fused_layers::recurrent::Steps;
//! use attention_import::packages::{coqui, d2l, espnet, opennmt};
//! use burn::prelude::*;
//!
//! let device = Device::flex();
//! // A location-sensitive attention, whose steps begin with the same weight on each key, as ESPnet's do.
//! let attention = espnet::ATT_LOC.load("asr.pth", "decoder.att_list.0.", &device)?;
//! // The same, trained with another factor than ESPnet's 2.0.
//! let attention = espnet::ATT_LOC.with_factor(1.0).load("asr.pth", "decoder.att_list.0.", &device)?;
//! // Additive attention, and a layer behind the context. The key in a checkpoint, `model`, stands before the names.
//! let mlp = opennmt::MLP.load("nmt.pt", "model.decoder.attn.", &device)?;
//! // Tacotron 2 with forward attention and a transition agent.
//! let forward = coqui::FORWARD_AGENT.load("tts.pth", "model.decoder.attention.", &device)?;
//! // The encoder's GRU of D2L's model in MXNet, over inputs `[batch, steps, size]`.
//! let encoder = d2l::mxnet::GRU.load("model.params", "encoder.rnn.rnn.", &device)?;
//! let (outputs, _last) = encoder.forward(Tensor::zeros([2, 5, 4], &device), None, &Steps::all());
//! # Ok::<(), attention_import::ImportError>(())
//! ```
//!
//! Every attention is a [`StatefulAttention`](attention_core::stateful::StatefulAttention) with the package's weights
//! and contexts, to rounding: `prepare` takes the encoder's states as keys and values, each step a decoder's state.
//!
//! # Folded parameters
//!
//! All biases inside the tanh are summed to one. A bias of the energies cancels in a softmax and is dropped; before a
//! sigmoid, it is kept. A factor on the energies is multiplied into `w`. Faults are not copied: docs/differences.md has
//! a table of classes, with factors, starts and behaviour on padding.

#[rustfmt::skip] // tables of names, packed to be read side by side
mod frameworks;
mod hints;
mod names;
mod output;
mod parts;
mod shapes;
#[rustfmt::skip]
mod speech;
#[rustfmt::skip]
mod text;

pub use frameworks::{d2l, keras, marian};
pub use output::{OutputLayer, WithOutput};
pub use speech::{coqui, espnet, nvidia, speechbrain};
pub use text::{
    allennlp, fairseq, gluonnlp, joeynmt, keras_attention, keras_self_attention, onnx_runtime,
    opennmt, pytorch_nlp, sockeye, tensorflow_addons, texar, yoyodyne,
};

use std::path::Path;

use attention_core::{MultiHeadAttention, ScoringFunction};
use burn::tensor::Device;
use tensor_files::{FileFormat, shown};

use crate::Reason;
use crate::state_dict::StateDict;
use crate::{ImportError, read_file};
use hints::hint;
use names::{Entries, Names};
use parts::Parts;

/// An attention of another package, which becomes an `A` here; see the [module](self).
#[derive(Debug)]
pub struct Package<A> {
    names: Names,
    /// The factor on the energies.
    factor: f64,
    build: fn(&Parts) -> A,
}

const fn package<A>(
    class: &'static str,
    tables: &'static [Entries],
    factor: f64,
    build: fn(&Parts) -> A,
) -> Package<A> {
    Package {
        names: Names {
            class,
            tables,
            num_heads: None,
            writer: None,
        },
        factor,
        build,
    }
}

/// The use of a tensor. `KeyAndQuery` is W of `tanh(W [key; query])`; `Bias` is one of possibly several biases inside
/// the tanh; `Energy` is w, and `Gain` its length g; `Bilinear` is M of `q^T M k`. `Input` and `Hidden` are the gates
/// of a recurrent layer, in one tensor or one after the other, and `Biases` the biases of both. `Ignored` marks a
/// tensor with another use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip] // a list
enum Role {
    Query, QueryBias, Key, KeyBias, KeyAndQuery, Bias, Energy, EnergyBias, Gain, Bilinear, Filters, Location, Coverage,
    Agent, AgentBias, Value, ValueBias, Output, OutputBias, Input, InputBias, Hidden, HiddenBias, Biases, Ignored,
}

impl<A> Package<A> {
    /// Sets another factor on the energies than the package's default. Heads and recurrent layers have no factor.
    pub const fn with_factor(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    /// Loads the attention from a file of any format of [`tensor_files`], on `device` in the device's float type.
    ///
    /// `prefix` precedes the attention's own names in the file, such as `"decoder.att_list.0."`; `""` for a state dict
    /// of the attention alone. Tensors without the prefix are ignored. Some classes have the same names, such as
    /// `espnet::ATT_LOC` and `ATT_FORWARD`: the caller must know which one it is.
    ///
    /// # Errors
    /// If the file is missing or malformed, a tensor is missing, has an unsupported type or a shape that does not fit
    /// the others, or there is a further tensor with this prefix. If the names fit other classes, or this class under
    /// another prefix, the error names these. If the factor is not finite.
    pub fn load(
        &self,
        path: impl AsRef<Path>,
        prefix: &str,
        device: &Device,
    ) -> Result<A, ImportError> {
        read_file(path, prefix, |file| self.read(file, device))
    }

    /// Sets the framework, if another one has the same names in its files.
    const fn written_by(mut self, writer: Option<FileFormat>) -> Self {
        self.names.writer = writer;
        self
    }

    /// [`load`](Self::load) from an open file, perhaps [`renamed`](StateDict::renamed): to remove a wrapper's names, or
    /// to select one of several heads. docs/recipes.md has heads, and attentions with a term beside the package's.
    ///
    /// # Errors
    /// As [`load`](Self::load), without the file's path.
    pub fn read(&self, file: &StateDict, device: &Device) -> Result<A, Reason> {
        if !self.factor.is_finite() {
            return Err(format!("expected a finite factor, got {}", self.factor).into());
        }
        let of_variables = file.of_variables();
        let file = of_variables.as_ref().unwrap_or(file);
        let fitted = self.names.fit(file);
        let (entries, sizes) =
            fitted.map_err(|reason| reason.with_hint(&hint(&self.names, file)))?;
        let parts = Parts::read(file, &entries, sizes, (self.factor, device))?;
        Ok((self.build)(&parts))
    }
}

impl<S: ScoringFunction> Package<MultiHeadAttention<S>> {
    /// Sets the number of heads, which D2L's files do not contain.
    pub const fn with_num_heads(mut self, num_heads: usize) -> Self {
        self.names.num_heads = Some(num_heads);
        self
    }
}
