//! A model whose parameters stay as they are.

use std::ops::Deref;
use std::sync::OnceLock;

use super::recurrent::SearchWeights;
use super::{AnyModel, Decoding, Seq2SeqModel};
use crate::data::batch::Source;

/// The largest vocabulary whose share of the gates is computed for all tokens, once: 64 MiB where an LSTM has a hidden
/// size of 1,024. A larger one is projected token by token.
const PROJECTED_TOKENS: usize = 4096;

/// A model that trains no more, with the weights of its decoder packed once for all searches, at the first. It is given
/// out to read alone, so that they stay the weights of its parameters.
pub(crate) struct FrozenModel {
    model: AnyModel,
    /// The weights of a recurrent model's decoder; the steps of a Transformer read the layers as they are.
    weights: OnceLock<SearchWeights>,
}

impl FrozenModel {
    pub(crate) fn new(model: AnyModel) -> Self {
        Self {
            model,
            weights: OnceLock::new(),
        }
    }

    /// As [`Seq2SeqModel::decoding`].
    pub(crate) fn decoding(
        &self,
        source: &Source,
        max_len: usize,
        with_weights: bool,
    ) -> Box<dyn Decoding + '_> {
        match &self.model {
            AnyModel::Rnn(model) => {
                let packed = || SearchWeights::new(model, PROJECTED_TOKENS);
                let weights = self.weights.get_or_init(packed);
                model.decoding_with(weights.clone(), source, with_weights)
            }
            model => model.decoding(source, max_len, with_weights),
        }
    }
}

impl Deref for FrozenModel {
    type Target = AnyModel;

    fn deref(&self) -> &AnyModel {
        &self.model
    }
}
