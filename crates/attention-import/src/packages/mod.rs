//! Attentions of other packages, by the names in their files.
//!
//! A [`Package`] is a class of another package: its tensors with their shapes, how they become the parameters
//! of a module here, and the factor on its energies, which no file says. [`Package::load`] makes the module; all sizes
//! are read from the file.
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
//! and contexts to rounding: `prepare` takes the encoder's states as keys and values, and each step a decoder's state.
//!
//! # Folded parameters
//!
//! All biases inside the tanh are added up into one. A bias of the energies cancels in a softmax and is dropped; where
//! a sigmoid follows, it is kept. A factor on the energies is multiplied into `w`. Faults are not copied:
//! docs/differences.md has a table of classes, with factors, starts and what they do on padding.

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

/// An attention of another package, which is an `A` here; see the [module](self).
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

/// The use of a tensor. `KeyAndQuery` is W of `tanh(W [key; query])`; `Bias` is a bias inside the tanh, where there may
/// be several; `Energy` is w, and `Gain` its length g; `Bilinear` is M of `q^T M k`. `Input` and `Hidden` are the gates
/// of a recurrent layer, all or one after the other, and `Biases` the biases of both. `Ignored` is what has another
/// use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip] // a list
enum Role {
    Query, QueryBias, Key, KeyBias, KeyAndQuery, Bias, Energy, EnergyBias, Gain, Bilinear, Filters, Location, Coverage,
    Agent, AgentBias, Value, ValueBias, Output, OutputBias, Input, InputBias, Hidden, HiddenBias, Biases, Ignored,
}

impl<A> Package<A> {
    /// The same with another factor on the energies than the package's default. Heads and recurrent layers have none.
    pub const fn with_factor(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    /// The attention in a file of any format that [`tensor_files`] reads, on `device` in the device's float type.
    ///
    /// `prefix` stands before the attention's own names in the file, `"decoder.att_list.0."`; `""` for a state dict
    /// of the attention alone. Tensors that do not begin with it are left alone. Some classes have the same names, as
    /// `espnet::ATT_LOC` and `ATT_FORWARD`: the caller says which it is.
    ///
    /// # Errors
    /// If the file is missing or malformed, a tensor is missing, of a type that cannot be read, or of a shape that does
    /// not fit the others, or there is another tensor of this prefix. Where the names fit other classes, or
    /// this one under another prefix, the error names these. If the factor is not finite.
    pub fn load(
        &self,
        path: impl AsRef<Path>,
        prefix: &str,
        device: &Device,
    ) -> Result<A, ImportError> {
        read_file(path, prefix, |file| self.read(file, device))
    }

    /// The same of a framework, where another has the same names in files of its own.
    const fn written_by(mut self, writer: Option<FileFormat>) -> Self {
        self.names.writer = writer;
        self
    }

    /// [`load`](Self::load) of a file that is open, perhaps [`renamed`](StateDict::renamed): a wrapper's names, or one
    /// head of several. docs/recipes.md has heads, and attentions with a term beside the package's.
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
    /// The same with a number of heads, which D2L's files do not say.
    pub const fn with_num_heads(mut self, num_heads: usize) -> Self {
        self.names.num_heads = Some(num_heads);
        self
    }
}
