//! Encoders of texts.

use attention_core::padding::{first_tokens, last_tokens, mask_of_tokens};
use attention_core::{KeyValueCache, Mask, NewRows, ScoringFunction};
use burn::module::Module;
use burn::tensor::{Int, Tensor};

use crate::embedding::TokenEmbedding;
use crate::encoder::TransformerEncoder;

/// The embedding of tokens, positions and types, and a stack of layers: a model without a head, for the features of
/// tokens and the embeddings of whole texts.
///
/// Padding reaches nothing, whatever it holds: it need not be a token that there is.
#[derive(Module, Debug)]
pub struct TextEncoder<S: ScoringFunction> {
    /// The embedding of tokens, positions and types.
    pub embedding: TokenEmbedding,
    /// The layers.
    pub stack: TransformerEncoder<S>,
    /// Whether a row attends to those up to itself, as in a language model, and not to all.
    pub causal: bool,
}

/// One vector for all tokens of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all, as in Sentence-BERT, MiniLM and E5: Reimers & Gurevych 2019, "Sentence-BERT: Sentence
    /// Embeddings using Siamese BERT-Networks", section 3.
    Mean,
    /// The first token, `[CLS]` of BERT, as in BGE.
    First,
    /// The last token, as in models made of causal ones.
    Last,
}

impl<S: ScoringFunction> TextEncoder<S> {
    /// The features of each token of a text; `rows` says which are tokens and no padding, and without `types` all are
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
        let causal = if self.causal {
            Mask::causal()
        } else {
            Mask::none()
        };
        features(&self.embedding, &self.stack, tokens, types, rows, causal)
    }

    /// One vector of length 1 for each text, made of its [features](Self::features) by `pooling`: the product of two is
    /// their cosine similarity.
    ///
    /// # Shapes
    /// - tokens and types `[batch, rows]`, result `[batch, num_hiddens]`
    ///
    /// # Panics
    /// As [`features`](Self::features), or if a text has no token.
    pub fn embeddings(
        &self,
        tokens: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        rows: NewRows,
        pooling: Pooling,
    ) -> Tensor<2> {
        pooled(self.features(tokens, types, rows), rows, pooling)
    }
}

/// One vector of length 1 for each text.
///
/// # Panics
/// If a text has no token.
pub(crate) fn pooled(features: Tensor<3>, rows: NewRows, pooling: Pooling) -> Tensor<2> {
    let [batch, num_rows, _] = features.dims();
    let shape = [batch, num_rows];
    let has_none = rows.ranges(shape).iter().position(|of| of.is_empty());
    if let Some(at) = has_none {
        panic!("Pooling: at least one token expected in each text, got none in text {at}");
    }
    let vectors = match pooling {
        // Padding has zeros, and the length divides the number of tokens out.
        Pooling::Mean => features.sum_dim(1).squeeze_dim(1),
        Pooling::First => first_tokens(features, rows, shape),
        Pooling::Last => last_tokens(features, rows, shape),
    };
    let lengths = vectors.clone().square().sum_dim(1).sqrt();
    vectors / lengths.clamp_min(1e-12)
}

/// The features of texts, zeros in padding, where rows attend to tokens that `mask` shows.
pub(crate) fn features<S: ScoringFunction>(
    embedding: &TokenEmbedding,
    stack: &TransformerEncoder<S>,
    tokens: Tensor<2, Int>,
    types: Option<Tensor<2, Int>>,
    rows: NewRows,
    mask: Mask,
) -> Tensor<3> {
    let shape @ [batch, num_rows] = tokens.dims();
    let embedded = embedding.of_texts(tokens, types, rows, &KeyValueCache::new());
    if batch * num_rows == 0 {
        return embedded;
    }
    let mask = mask & mask_of_tokens(rows, shape, &embedded.device());
    stack.forward(embedded, &mask)
}
