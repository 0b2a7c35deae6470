//! A model whose parameters no longer change.

use std::ops::Deref;
use std::sync::OnceLock;

use super::recurrent::SearchWeights;
use super::{AnyModel, Decoding, Seq2SeqModel};
use crate::data::batch::Source;

/// The largest vocabulary whose input projection of the gates is computed once for all tokens: 64 MiB for an LSTM with
/// a hidden size of 1,024. Larger vocabularies are projected token by token.
const PROJECTED_TOKENS: usize = 4096;

/// A model that is no longer trained, whose decoder weights the first search packs once for all searches. It is shared
/// read-only, so that the packed weights stay those of its parameters.
pub(crate) struct FrozenModel {
    model: AnyModel,
    /// The decoder weights of a recurrent model; the steps of a Transformer read the layers directly.
    weights: OnceLock<SearchWeights>,
}

impl FrozenModel {
    pub(crate) fn new(model: AnyModel) -> Self {
        let weights = OnceLock::new();
        Self { model, weights }
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
