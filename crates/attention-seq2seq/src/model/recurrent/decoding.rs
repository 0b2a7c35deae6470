//! The decoding steps of a recurrent model.

use attention_core::stateful::StatefulAttention;
use attention_transformers::generate::SelectTexts;
use burn::tensor::{Int, Tensor};

use super::decoder::DecoderWeights;
use super::{Encoding, Seq2Seq};
use crate::model::candidates::Candidates;

/// The weights that the steps of a search read. Clones share the packed weights.
#[derive(Clone, Debug)]
pub(crate) struct SearchWeights {
    pub(super) decoder: DecoderWeights,
    pub(super) candidates: Candidates,
}

impl SearchWeights {
    /// The weights of `model` as its parameters are now, for steps of about `tokens` tokens.
    pub(crate) fn new<A: StatefulAttention>(model: &Seq2Seq<A>, tokens: usize) -> Self {
        Self {
            decoder: model.decoder.weights(tokens),
            candidates: model.decoder.candidates(),
        }
    }
}

impl<A: StatefulAttention> SelectTexts for Encoding<A> {
    fn select(&mut self, indices: Tensor<1, Int>) {
        self.memory = self.memory.select(indices.clone());
        self.select_of_same_prompts(indices);
    }

    fn select_of_same_prompts(&mut self, indices: Tensor<1, Int>) {
        self.state = self.state.select(&indices);
    }
}
