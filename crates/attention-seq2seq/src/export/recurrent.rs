//! Recurrent models.

use burn_fused_layers::harness::parameter::value;
use burn_fused_layers::recurrent::{Recurrent, RecurrentLayer};

use super::state_dict::{Parameters, StateDict};
use crate::attention::AnyAttention;
use crate::model::{Decoder, Encoder, Seq2Seq};

/// `encoder` and `decoder`.
impl Parameters for Seq2Seq<AnyAttention> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        let Self { encoder, decoder } = self;
        encoder.add_to(tensors, &format!("{at}encoder."));
        decoder.add_to(tensors, &format!("{at}decoder."));
    }
}

/// `embedding`, and `rnn`: a `torch.nn.GRU` or `LSTM`.
impl Parameters for Encoder {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.embedding.add_to(tensors, &format!("{at}embedding."));
        self.recurrent.add_to(tensors, &format!("{at}rnn."));
    }
}

/// `embedding`, `attention`, `start`: a `torch.nn.ModuleList` of linear layers, `rnn` and `output`.
impl Parameters for Decoder<AnyAttention> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.embedding.add_to(tensors, &format!("{at}embedding."));
        self.attention.add_to(tensors, &format!("{at}attention."));
        for (index, layer) in self.start.iter().enumerate() {
            layer.add_to(tensors, &format!("{at}start.{index}."));
        }
        self.recurrent.add_to(tensors, &format!("{at}rnn."));
        self.output.add_to(tensors, &format!("{at}output."));
    }
}

/// `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0` and `bias_hh_l0`, those of the other layers, and those of the other
/// direction, `weight_ih_l0_reverse`: the gates are in PyTorch's order.
impl Parameters for Recurrent {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        for (layers, direction) in [(&self.layers, ""), (&self.reversed, "_reverse")] {
            for (index, layer) in layers.iter().enumerate() {
                let RecurrentLayer { input, hidden, .. } = layer;
                for (linear, of) in [(input, "ih"), (hidden, "hh")] {
                    let name = |kind| format!("{at}{kind}_{of}_l{index}{direction}");
                    tensors.add(name("weight"), value(&linear.weight).transpose());
                    if let Some(bias) = &linear.bias {
                        tensors.add_parameter(name("bias"), bias);
                    }
                }
            }
        }
    }
}
