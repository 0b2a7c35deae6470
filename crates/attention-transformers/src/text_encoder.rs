//! Encoders of texts.

use attention_core::padding::mask_of_tokens;
use attention_core::{KeyValueCache, NewRows, ScoringFunction};
use burn::module::Module;
use burn::tensor::{Int, Tensor};

use crate::embedding::TokenEmbedding;
use crate::encoder::TransformerEncoder;

/// The embedding of tokens, positions and types, and a stack of layers whose rows attend to all: a model without a head,
/// for the features of tokens and the embeddings of whole texts.
///
/// Padding reaches nothing, whatever it holds: it need not be a token that there is.
#[derive(Module, Debug)]
pub struct TextEncoder<S: ScoringFunction> {
    /// The embedding of tokens, positions and types.
    pub embedding: TokenEmbedding,
    /// The layers.
    pub stack: TransformerEncoder<S>,
}

impl<S: ScoringFunction> TextEncoder<S> {
    /// What a text says at each of its tokens; `rows` says which are tokens and no padding, and without `types` all are
    /// of the first one, if the model has types.
    ///
    /// # Shapes
    /// - tokens and types `[batch, rows]`, result `[batch, rows, num_hiddens]`, zeros in padding
    ///
    /// # Panics
    /// If there is no such token or type, a text is longer than the model has positions, or `types` or `rows` do not
    /// fit.
    pub fn features(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        rows: NewRows,
    ) -> Tensor<3> {
        features(&self.embedding, &self.stack, tokens, types, rows)
    }

    /// The mean of the [features](Self::features) of each text, of length 1: the product of two is their cosine
    /// similarity. Texts without a token get zeros.
    ///
    /// Reimers & Gurevych 2019, "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks", section 3.
    ///
    /// # Shapes
    /// - tokens and types `[batch, rows]`, result `[batch, num_hiddens]`
    ///
    /// # Panics
    /// As [`features`](Self::features).
    pub fn mean_features(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        rows: NewRows,
    ) -> Tensor<2> {
        // Padding has zeros, and lengths are divided out.
        let sums = self
            .features(tokens, types, rows)
            .sum_dim(1)
            .squeeze_dim::<2>(1);
        let lengths = sums.clone().square().sum_dim(1).sqrt();
        sums / lengths.clamp_min(1e-12)
    }
}

/// The features of texts, zeros in padding.
pub(crate) fn features<S: ScoringFunction>(
    embedding: &TokenEmbedding,
    stack: &TransformerEncoder<S>,
    tokens: Tensor<2, Int>,
    types: Option<Tensor<2, Int>>,
    rows: NewRows,
) -> Tensor<3> {
    let shape @ [batch, num_rows] = tokens.dims();
    let embedded = embedding.of_texts(tokens, types, rows, &KeyValueCache::new());
    if batch * num_rows == 0 {
        return embedded;
    }
    let mask = mask_of_tokens(rows, shape, &embedded.device());
    stack.forward(embedded, &mask)
}
